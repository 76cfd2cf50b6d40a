"""Collaboration Gain: what the helpers of a Coder are worth to it, and what each phase of training added.

For a Coder C with the same weights, on the same problems, with the same number of samples:

    CG     = (Pass(C with helpers) - Pass(C alone)) / Pass(C alone)
    CG_abs =  Pass(C with helpers) - Pass(C alone)

CG is undefined when the Coder alone solves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from corecode.arms import ARMS, PROMPTED_ON
from corecode.evaluation.metrics import average_pass_ratio, compared_ks, pass_at_k_per_problem
from corecode.evaluation.rows import ArmSamples, Samples
from corecode.evaluation.statistics import (
    Bootstrap,
    Difference,
    Floats,
    Interval,
    mcnemar_exact,
    paired_difference,
    percentile_bounds,
)


@dataclass(frozen=True)
class Comparison:
    """A named pair of arms: what ``system`` has over ``baseline``."""

    name: str
    system: str
    baseline: str
    meaning: str


CG_PAIRS = (
    Comparison("base", "base/team", "base/alone", "before any training"),
    Comparison("sft", "sft/team", "sft/alone", "after the warm-up"),
    Comparison("planner-grpo", "planner-grpo/team", "sft/alone", "after Planner GRPO, same Coder as after the warm-up"),
    Comparison("coder-grpo-only", "coder-grpo-only/team", "coder-grpo-only/alone", "Coder GRPO without Planner GRPO"),
    Comparison("final", "final/team", "final/alone", "after both phases"),
)

DIRECTLY = {weights: f"{weights}/alone" for weights in PROMPTED_ON} | {"single-direct": "single-direct/final"}
"""The arm in which the weights of a prompt-only team are asked for the program at once."""

GAINS = (
    Comparison("total", "final/team", "sft/team", "both GRPO phases, on the team"),
    Comparison("planner_phase", "planner-grpo/team", "sft/team", "Planner GRPO, on the team"),
    Comparison("coder_phase", "final/team", "planner-grpo/team", "Coder GRPO after it, on the team"),
    Comparison("coder_alone", "final/alone", "sft/alone", "both phases, on the Coder alone"),
    Comparison("planner_rl", "final/team", "coder-grpo-only/team", "what Planner RL adds to Coder RL"),
    Comparison(
        "over_single_direct", "final/team", "single-direct/final", "team over one model that writes code, same budget"
    ),
    Comparison(
        "over_single_thought",
        "final/team",
        "single-thought/final",
        "team over one model that writes thought and code, same budget",
    ),
    Comparison(
        "over_single_direct_sft", "sft/team", "single-direct/sft", "team over one model that writes code, warm-up only"
    ),
    Comparison(
        "over_single_thought_sft",
        "sft/team",
        "single-thought/sft",
        "team over one model that writes thought and code, warm-up only",
    ),
    *(
        Comparison(one.name, one.name, alone, f"{one.prompted.description}, over the same model asked directly")
        for one in ARMS.values()
        if one.prompted and (alone := DIRECTLY[one.name.split("/")[0]])
    ),
)


@dataclass(frozen=True)
class CollaborationGain:
    """CG of one measure."""

    team: float
    alone: float
    absolute: Difference
    """CG_abs."""
    relative: Interval | None
    """CG; None when the Coder alone scores 0 (undefined)."""


@dataclass(frozen=True)
class PairedArms:
    """Two arms on the problems that are complete in both, and nothing else."""

    system: ArmSamples
    baseline: ArmSamples
    both_P: npt.NDArray[np.bool_]

    @property
    def problems(self) -> int:
        return int(self.both_P.sum())

    @property
    def excluded(self) -> int:
        """Problems left out of both sides, because a sample of one side is missing."""
        return len(self.both_P) - self.problems

    @property
    def ids(self) -> list[str]:
        """The compared problems, in the order of the values."""
        return [problem for problem, both in zip(self.system.problem_ids, self.both_P, strict=True) if both]

    def measures(self) -> dict[str, tuple[Floats, Floats]]:
        """Per-problem values of each compared measure, (system, baseline)."""
        first, second = measures(self.system, self.both_P), measures(self.baseline, self.both_P)
        return {name: (first[name], second[name]) for name in first}


def pair(samples: Samples, comparison: Comparison, temperature: float) -> PairedArms | None:
    """The two arms of a comparison; None when one was not evaluated or no problem is complete in both."""
    system = samples.get(comparison.system, temperature)
    baseline = samples.get(comparison.baseline, temperature)
    if system is None or baseline is None:
        return None
    both_P = system.complete_P & baseline.complete_P
    return PairedArms(system, baseline, both_P) if both_P.any() else None


def measures(arm: ArmSamples, mask_P: npt.NDArray[np.bool_] | None = None) -> dict[str, Floats]:
    """pass@k at the compared k, and APR (macro), of each complete problem."""
    correct_P = arm.correct_P(mask_P)
    values = {f"pass@{k}": pass_at_k_per_problem(correct_P, arm.n, k) for k in compared_ks(arm.n)}
    values["apr"] = average_pass_ratio(arm.ratios_PN(mask_P))
    return values


def collaboration_gain(team_P: Floats, alone_P: Floats, bootstrap: Bootstrap) -> CollaborationGain:
    """CG and CG_abs of one measure, with intervals by the paired bootstrap over problems.

    A resample in which the Coder alone scores 0 has no CG. It counts as minus infinity for the lower bound and as plus
    infinity for the upper one, so that a bound is either right or absent.

    Raises:
        ValueError: when the lengths differ or there is no problem.
    """
    absolute = paired_difference(team_P, alone_P, bootstrap)
    team, alone = float(team_P.mean()), float(alone_P.mean())
    if alone == 0:
        return CollaborationGain(team, alone, absolute, None)
    means_B2 = bootstrap.means(np.stack([team_P, alone_P], axis=1))
    undefined_B = means_B2[:, 1] == 0
    gain_B = (means_B2[:, 0] - means_B2[:, 1]) / np.where(undefined_B, 1.0, means_B2[:, 1])
    low, high = percentile_bounds(np.where(undefined_B, -math.inf, gain_B), np.where(undefined_B, math.inf, gain_B))
    return CollaborationGain(team, alone, absolute, Interval((team - alone) / alone, low, high))


def single_sample_p_value(paired: PairedArms) -> float | None:
    """Exact McNemar p-value of "solved"; None when there are several samples a problem."""
    if paired.system.n != 1:
        return None
    return mcnemar_exact(paired.system.correct_P(paired.both_P) > 0, paired.baseline.correct_P(paired.both_P) > 0)
