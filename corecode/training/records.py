"""What a job leaves behind: metrics line by line, samples, the model, and a result that marks it complete."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

METRICS, SAMPLES, RESULT, MODEL = "metrics.jsonl", "samples.jsonl", "result.json", "model"


class Journal:
    """Appends to ``metrics.jsonl`` and ``samples.jsonl`` of a job's folder; a fresh job starts without lines.

    Only the main process of a distributed job writes; the others hold a journal with ``folder=None``.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.latest: dict[str, float] = {}
        """The last value of every metric, for the result."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name in (SAMPLES, RESULT):
                (folder / name).unlink(missing_ok=True)
            (folder / METRICS).write_text("", encoding="utf-8")

    def metrics(
        self, step: int, of: int, values: Mapping[str, float], seconds: Mapping[str, float] | None = None
    ) -> None:
        """Write one line. Values that are not finite are left out: a mean over nothing is not a number."""
        finite = {name: value for name, value in sorted(values.items()) if math.isfinite(value)}
        self.latest.update(finite)
        line: dict[str, Any] = {"step": step, "of": of, "metrics": finite}
        if seconds:
            line["seconds"] = {name: round(value, 4) for name, value in seconds.items()}
        self._append(METRICS, [line])

    def samples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write samples with their reward terms."""
        self._append(SAMPLES, rows)

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if self.folder is None or not rows:
            return
        text = "".join(json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(text)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file so that a reader sees all of it or nothing, also after a power loss."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(value, file, sort_keys=True, indent=1, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def publish(partial: Path, final: Path) -> None:
    """Turn a finished folder ``partial`` into ``final``, replacing what an earlier attempt left there."""
    if final.exists():
        shutil.rmtree(final)
    partial.rename(final)
