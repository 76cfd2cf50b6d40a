"""What a job leaves behind: metrics line by line, samples, the model, and a result that marks it complete."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corecode.errors import InfrastructureError

METRICS, SAMPLES, RESULT, MODEL = "metrics.jsonl", "samples.jsonl", "result.json", "model"
JOURNAL = (METRICS, SAMPLES)


class Journal:
    """Appends to ``metrics.jsonl`` and ``samples.jsonl`` of a job's folder.

    A job starts without lines. One that continues from a checkpoint keeps the first ``kept`` bytes of each file, and
    knows their metrics as if it had written them. The files are replaced rather than cut, so that somebody who follows
    one can tell. Every rank of a distributed job has a journal; only the main process' writes.

    Raises:
        InfrastructureError: when a line cannot be written.
    """

    def __init__(self, folder: Path, kept: Mapping[str, int] | None = None, writes: bool = True) -> None:
        self.folder = folder
        self.latest: dict[str, float] = {}
        """The last value of every metric, for the result."""
        self.highest: dict[str, float] = {}
        """The highest value of every metric."""
        self._writes = writes
        beginnings = {name: _beginning(folder / name, (kept or {}).get(name, 0)) for name in JOURNAL}
        for line in beginnings[METRICS].splitlines():
            self._note(json.loads(line)["metrics"])
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / RESULT).unlink(missing_ok=True)
            for name, text in beginnings.items():
                if name == SAMPLES and not text:
                    (folder / name).unlink(missing_ok=True)
                    continue
                partial = folder / f"{name}.partial"
                partial.write_bytes(text)
                partial.replace(folder / name)

    def lengths(self) -> dict[str, int]:
        """Bytes of each file, which are on the disk when this returns."""
        found: dict[str, int] = {}
        for name in JOURNAL:
            if (self.folder / name).is_file():
                flush_to_disk(self.folder / name)
                found[name] = (self.folder / name).stat().st_size
        return found

    def metrics(
        self, step: int, of: int, values: Mapping[str, float], seconds: Mapping[str, float] | None = None
    ) -> None:
        """Write one line. Values that are not finite are left out: a mean over nothing is not a number."""
        finite = {name: value for name, value in sorted(values.items()) if math.isfinite(value)}
        self._note(finite)
        line: dict[str, Any] = {"step": step, "of": of, "metrics": finite}
        if seconds:
            line["seconds"] = {name: round(value, 4) for name, value in seconds.items()}
        self._append(METRICS, [line])

    def samples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write samples with their reward terms."""
        self._append(SAMPLES, rows)

    def _note(self, values: Mapping[str, float]) -> None:
        self.latest.update(values)
        for name, value in values.items():
            self.highest[name] = max(value, self.highest.get(name, value))

    def _append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self._writes or not rows:
            return
        text = "".join(json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        path = self.folder / name
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InfrastructureError(
                f"cannot write {path} ({error.strerror}); free some space and run again"
            ) from error


def _beginning(path: Path, count: int) -> bytes:
    """The first ``count`` bytes of a file; of a missing one, none."""
    if not count:
        return b""
    with path.open("rb") as file:
        return file.read(count)


def flush_to_disk(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, would survive a power loss."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
