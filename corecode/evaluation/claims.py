"""Claims of a run that can be checked from its files: each is true or not, with the figures that say so."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.evaluation.curves import load_phases
from corecode.evaluation.rows import load_samples

WELL_FORMED = 0.9
"""Share of thoughts that must parse for the warm-up to count as learnt."""


@dataclass(frozen=True)
class Claim:
    """One claim and whether it holds."""

    holds: bool
    sentence: str
    """What was found, in one sentence."""
    figures: dict[str, float] = field(default_factory=dict[str, float])


def warm_up_teaches_format(run: Path) -> Claim:
    """At the start of Planner GRPO at least 90 % of the validation thoughts parse into their four parts."""
    points = _validation(run, "validation/thought_valid")
    if not points:
        return _not_measured()
    share = points[0][1]
    return Claim(
        share >= WELL_FORMED,
        f"{share:.1%} of the thoughts parse after the warm-up (claimed: at least {WELL_FORMED:.0%})",
        {"thought_valid": share},
    )


def planner_grpo_does_no_harm(run: Path, profile: Profile) -> Claim:
    """The team's validation pass@1 after Planner GRPO is not below the one before by more than two standard errors.

    The standard error is binomial, ``sqrt(p (1 - p) / n)`` with the value before and n validation problems.
    """
    points = _validation(run, "validation/pass@1/team")
    if len(points) < 2:
        return _not_measured()
    before, after = points[0][1], points[-1][1]
    error = math.sqrt(before * (1 - before) / profile.dataset.validation)
    return Claim(
        after >= before - 2 * error,
        f"validation pass@1 of the team went from {before:.3f} to {after:.3f} (standard error {error:.3f})",
        {"before": before, "after": after, "standard_error": error},
    )


def few_samples_are_lost(run: Path, profile: Profile, most: float = 0.05) -> Claim:
    """Infrastructure lost at most this share of the samples of every arm."""
    samples = load_samples(run, profile.evaluation.samples)
    worst, where = 0.0, "any arm"
    for (arm, temperature), one in samples.by_arm.items():
        share = one.missing_samples / (one.n * len(one.problem_ids))
        if share > worst:
            worst, where = share, f"{arm} at temperature {temperature}"
    return Claim(worst <= most, f"at most {worst:.1%} of the samples are lost ({where})", {"worst_share": worst})


def collaboration_pays(run: Path) -> Claim:
    """The final Collaboration Gain in pass@1 is above 0 at every temperature, with its whole 95 % interval."""
    summary: dict[str, Any] = json.loads((run / "collaboration_gain" / "summary.json").read_text(encoding="utf-8"))
    final = summary["collaboration_gain"].get("final")
    if final is None:
        return _not_measured()
    figures: dict[str, float] = {}
    parts: list[str] = []
    holds = True
    for temperature, measures in final["temperatures"].items():
        gain = measures["pass@1"]["cg_abs"]
        holds = holds and gain["low"] is not None and gain["low"] > 0
        figures |= {f"T{temperature}/{bound}": gain[bound] for bound in ("value", "low", "high")}
        parts.append(
            f"{100 * gain['value']:+.1f} points [{100 * gain['low']:.1f}, {100 * gain['high']:.1f}] at T {temperature}"
        )
    return Claim(holds, "the Planner brings the Coder " + ", ".join(parts) + " in pass@1", figures)


def _validation(run: Path, name: str) -> list[tuple[int, float]]:
    phase = next((phase for phase in load_phases(run) if phase.name == "planner_grpo"), None)
    return phase.get(name) if phase else []


def _not_measured() -> Claim:
    return Claim(False, "not measured in this run")
