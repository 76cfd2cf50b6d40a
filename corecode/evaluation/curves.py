"""Curves over training, read from the ``metrics.jsonl`` of the two GRPO phases."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from corecode.errors import InfrastructureError

PHASES = ("planner_grpo", "coder_grpo")
CURVES = ("reward/", "validation/", "thought/", "infrastructure/")
"""Prefixes of the metrics that are read; all of them repeat bit for bit with the same seed and step costs."""

Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Phase:
    """One GRPO phase as it went."""

    name: str
    steps: int
    """Optimizer steps planned."""
    series: dict[str, Points]
    """Metric name -> (step, value) by step."""

    def get(self, name: str) -> Points:
        return self.series.get(name, [])


def load_phases(run: Path) -> list[Phase]:
    """The phases that left a ``metrics.jsonl``, in the order of training.

    Raises:
        InfrastructureError: for a line that cannot be read, naming file and line.
    """
    return [
        _read_phase(run / name / "metrics.jsonl", name) for name in PHASES if (run / name / "metrics.jsonl").is_file()
    ]


def _read_phase(path: Path, name: str) -> Phase:
    series: dict[str, dict[int, float]] = {}
    steps = 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            data = cast("dict[str, object]", json.loads(line))
            step, planned = int(cast("int", data["step"])), int(cast("int", data["of"]))
            values = cast("dict[str, object]", data.get("metrics", {}))
        except (ValueError, KeyError, TypeError) as error:
            raise InfrastructureError(f"{path}, line {number} is not a metrics line: {error}") from error
        steps = max(steps, planned, step)
        for key, value in values.items():
            if key.startswith(CURVES) and isinstance(value, int | float) and math.isfinite(value):
                series.setdefault(key, {})[step] = float(value)  # a resumed job may write a step again: the last counts
    return Phase(name, steps, {key: sorted(points.items()) for key, points in sorted(series.items())})
