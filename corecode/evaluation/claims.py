"""Claims of a run that can be checked from its files: each is true or not, with the figures that say so."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.evaluation.collaboration import Comparison, pair
from corecode.evaluation.curves import load_phases
from corecode.evaluation.rows import load_samples
from corecode.evaluation.statistics import Bootstrap, Interval, paired_difference

WELL_FORMED = 0.9
"""Share of thoughts that must parse for the warm-up to count as learnt."""


@dataclass(frozen=True)
class Claim:
    """One claim and whether it holds."""

    holds: bool
    sentence: str
    """What was found, in one sentence."""
    figures: dict[str, float] = field(default_factory=dict[str, float])
    refuted: bool = False
    """The figures show the opposite beyond chance: more than that the claim is not shown."""


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


def warm_up_beats_base(run: Path, profile: Profile) -> Claim:
    """The warm-up's team (without one: its Coder alone) has a higher pass@1 than the untrained one, at each temperature
    and with the whole 95 % interval of the difference.

    Where the profile evaluates no untrained arm, the claim is the weaker one that the training loss fell.
    """
    if not any((run / "evaluation").glob("*/T*.jsonl")):
        return _loss_fell(run)
    samples = load_samples(run, profile.evaluation.samples)
    bootstrap = Bootstrap(profile.evaluation.bootstrap, profile.seed)
    for system in ("team", "alone"):
        comparison = Comparison("warm_up", f"sft/{system}", f"base/{system}", "the warm-up")
        pairs = {t: paired for t in samples.temperatures if (paired := pair(samples, comparison, t)) is not None}
        if not pairs:
            continue
        found = {t: paired_difference(*p.measures()["pass@1"], bootstrap).interval for t, p in pairs.items()}
        said = ", ".join(f"{_points(i.value, i.low, i.high)} at T {t}" for t, i in found.items())
        return Claim(
            all(interval.low is not None and interval.low > 0 for interval in found.values()),
            f"sft/{system} minus base/{system} in pass@1: {said}",
            {f"T{t}/{bound}": value for t, i in found.items() for bound, value in _bounds(i).items()},
        )
    return _loss_fell(run)


def _loss_fell(run: Path) -> Claim:
    figures: dict[str, float] = {}
    parts: list[str] = []
    for role in ("planner", "coder"):
        losses = _losses(run / "sft_warmup" / role / "metrics.jsonl")
        if len(losses) < 2:
            return _not_measured()
        figures |= {f"{role}/first": losses[0], f"{role}/last": losses[-1]}
        parts.append(f"the {role}'s training loss went from {losses[0]:.3f} to {losses[-1]:.3f}")
    return Claim(
        all(figures[f"{role}/last"] < figures[f"{role}/first"] for role in ("planner", "coder")),
        f"no untrained arm (base/team) is evaluated here; {' and '.join(parts)}",
        figures,
    )


def _losses(path: Path) -> list[float]:
    if not path.is_file():
        return []
    lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line["metrics"]["sft/loss"] for line in lines if "sft/loss" in line.get("metrics", {})]


def planner_grpo_does_no_harm(run: Path, profile: Profile) -> Claim:
    """The team's validation pass@1 after Planner GRPO is not below the one before by more than two standard errors.

    The standard error is binomial, ``sqrt(p (1 - p) / n)`` with the value before and n validation problems.
    """
    points = _validation(run, "validation/pass@1/team")
    if len(points) < 2:
        return _not_measured()
    before, after = points[0][1], points[-1][1]
    error = math.sqrt(before * (1 - before) / profile.dataset.validation)
    holds = after >= before - 2 * error
    return Claim(
        holds,
        f"validation pass@1 of the team went from {before:.3f} to {after:.3f} (standard error {error:.3f})",
        {"before": before, "after": after, "standard_error": error},
        refuted=not holds,
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
    """The final Collaboration Gain in pass@1 is above 0 at every temperature, with its whole 95 % interval.

    Refuted where at some temperature the whole interval is below 0.
    """
    summary: dict[str, Any] = json.loads((run / "collaboration_gain" / "summary.json").read_text(encoding="utf-8"))
    final = summary["collaboration_gain"].get("final")
    if final is None:
        return _not_measured()
    figures: dict[str, float] = {}
    parts: list[str] = []
    holds, refuted = True, False
    for temperature, measures in final["temperatures"].items():
        gain = measures["pass@1"]["cg_abs"]
        holds = holds and gain["low"] is not None and gain["low"] > 0
        refuted = refuted or (gain["high"] is not None and gain["high"] < 0)
        known = {bound: gain[bound] for bound in ("value", "low", "high") if gain[bound] is not None}
        figures |= {f"T{temperature}/{bound}": value for bound, value in known.items()}
        parts.append(f"{_points(gain['value'], gain['low'], gain['high'])} at T {temperature}")
    return Claim(holds, "the Planner brings the Coder " + ", ".join(parts) + " in pass@1", figures, refuted)


def _points(value: float, low: float | None, high: float | None) -> str:
    """A difference of shares in points, with its interval."""
    if low is None or high is None:
        return f"{100 * value:+.1f} points (without an interval)"
    return f"{100 * value:+.1f} points [{100 * low:.1f}, {100 * high:.1f}]"


def _bounds(interval: Interval) -> dict[str, float]:
    found = {"value": interval.value, "low": interval.low, "high": interval.high}
    return {name: value for name, value in found.items() if value is not None}


def _validation(run: Path, name: str) -> list[tuple[int, float]]:
    phase = next((phase for phase in load_phases(run) if phase.name == "planner_grpo"), None)
    return phase.get(name) if phase else []


def _not_measured() -> Claim:
    return Claim(False, "not measured in this run")
