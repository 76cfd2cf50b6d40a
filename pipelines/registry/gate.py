"""The gate: whether a team is better than the champion, beyond chance, and does no harm elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pipelines.registry.team import Scores

if TYPE_CHECKING:
    from corecode.evaluation.statistics import Difference, Interval

Outcome = Literal["promoted", "held", "refused"]
"""``promoted``: the champion from now on. ``held``: not good enough. ``refused``: cannot be compared."""


@dataclass(frozen=True)
class Criteria:
    """What is asked of a team that wants the champion's place; see :class:`corecode.config.PromotionConfig`."""

    margin: float = 0.0
    guards: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        """Raises ValueError for what compares with nothing, and so would let any team pass."""
        if not 0 <= self.margin < 1 or not all(0 <= loss < math.inf for loss in self.guards.values()):
            raise ValueError(f"no criteria: margin {self.margin}, guards {dict(self.guards)}")

    def text(self) -> str:
        return json.dumps({"margin": self.margin, "guards": dict(self.guards)}, sort_keys=True)

    @staticmethod
    def read(text: str) -> Criteria:
        """The inverse of :meth:`text`."""
        found = json.loads(text)
        return Criteria(float(found["margin"]), {name: float(loss) for name, loss in found["guards"].items()})


@dataclass(frozen=True)
class Finding:
    """What the gate says."""

    outcome: Outcome
    reason: str
    difference: float | None = None
    """Difference in pass@1 to the champion, with its 95 % interval."""
    low: float | None = None
    high: float | None = None


def compare(offered: Scores, present: Scores, name: str, criteria: Criteria) -> Finding:
    """Judge a team against the champion ``name``. The same scores and criteria give the same finding."""
    if present.digest != offered.digest:
        return Finding(
            "refused",
            f"refused: the champion {name} was measured on other problems, or otherwise "
            f"(evaluation {present.digest[:8]}, this one {offered.digest[:8]})",
        )
    compared = _difference("pass@1", offered, present)
    if compared is None:
        return Finding("refused", f"refused: no problem has results of both this team and {name}")
    if compared.problems < 2:
        return Finding("refused", f"refused: one problem with results of both says nothing of chance against {name}")
    gain = compared.interval
    said = _points(gain)
    if gain.low is None or gain.low <= criteria.margin:
        by = f" by {100 * criteria.margin:g} points" if criteria.margin else ""
        return Finding(
            "held", f"held: not better{by} beyond chance than {name}: {said}", gain.value, gain.low, gain.high
        )
    for measure, loss in sorted(criteria.guards.items()):
        guarded = _difference(measure, offered, present)
        if guarded is None:
            return Finding("refused", f"refused: no problem has {measure} of both this team and {name}")
        change = guarded.interval
        if change.high is not None and change.high < -loss:
            reason = f"held: {measure} suffers against {name}: {_points(change)}, though pass@1 gains {said}"
            return Finding("held", reason, gain.value, gain.low, gain.high)
    return Finding("promoted", f"better than {name}: {said}", gain.value, gain.low, gain.high)


def _difference(measure: str, offered: Scores, present: Scores) -> Difference | None:
    """``offered - present`` over the problems that both have; None without one."""
    import numpy as np

    from corecode.evaluation.statistics import Bootstrap, paired_difference

    ours, theirs = offered.measures.get(measure, {}), present.measures.get(measure, {})
    common = sorted(ours.keys() & theirs.keys())
    if not common:
        return None
    values = [np.array([scores[problem] for problem in common], dtype=np.float64) for scores in (ours, theirs)]
    return paired_difference(values[0], values[1], Bootstrap(offered.resamples, offered.seed))


def _points(found: Interval) -> str:
    low, high = ("?" if bound is None else f"{100 * bound:.1f}" for bound in (found.low, found.high))
    return f"{100 * found.value:+.1f} points [{low}, {high}]"
