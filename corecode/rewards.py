"""Rewards of a group, exactly as docs/method.md section 3 defines them. Pure functions: verdicts in, terms out.

A group is what GRPO compares: the N thoughts of one problem (a role that helps), or the N programs of one problem and
thought (the role that writes the program). A missing outcome (None) is an infrastructure failure: the sample gets no
reward at all, and it takes no part in what the others are compared with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from corecode.config import RewardConfig
from sandbox import Judgement, Verdict

DEAD_BAND = 0.05
"""Memory within this share of the target counts as the target: below it, differences are noise."""
SOFTMAX_TEMPERATURE = 0.5
"""Of the released code's aggregate over a thought's programs."""
NO_ERROR_WEIGHT = 0.1
"""Weight of the released code's bonus for a program that ran without error."""
ALL_PASS_WEIGHT = 0.2
"""Weight of the released code's bonus for a program that passes all its tests."""


@dataclass(frozen=True)
class Outcome:
    """What rewards look at in one judged program."""

    pass_ratio: float
    """p: share of the tests passed, in [0, 1]."""
    all_pass: bool
    """a: every test passed."""
    cost: float
    """c: CPU seconds, or steps where the run counts them."""
    peak_mb: float
    """m: peak memory in MiB net of the bare interpreter's."""
    no_error: bool
    """It ran to its normal end on every test and solved at least one: doing nothing "without error" earns nothing."""


@dataclass(frozen=True)
class Reward:
    """The reward of one sample: ``total`` is the weighted sum of ``terms``, or None where nothing can be said."""

    total: float | None
    terms: dict[str, float]
    """Unweighted terms by name; empty when there is no reward."""


NO_REWARD = Reward(None, {})


def outcome(judgement: Judgement, cost: Literal["cpu_time", "steps"]) -> Outcome | None:
    """Read a judgement; None for an infrastructure failure.

    Raises:
        ValueError: when steps are asked for and an accepted program has none (open the sandbox with cost "steps").
    """
    if judgement.verdict is Verdict.SANDBOX_ERROR:
        return None
    accepted = judgement.verdict is Verdict.ACCEPTED
    if cost == "steps" and accepted and judgement.steps is None:
        raise ValueError("the sandbox did not count steps; open it with cost='steps'")
    normal = all(test.verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER) for test in judgement.tests)
    return Outcome(
        pass_ratio=judgement.pass_ratio,
        all_pass=accepted,
        cost=float(judgement.steps or 0) if cost == "steps" else judgement.cpu_s,
        peak_mb=judgement.peak_mb,
        no_error=normal and judgement.passed > 0,
    )


def helper_rewards(
    outcomes_NM: Sequence[Sequence[Outcome | None]],
    formats_N: Sequence[bool],
    config: RewardConfig,
    reference_cost: float | None = None,
) -> list[Reward]:
    """Rewards of the N thoughts of one problem, each judged by the M programs written after it.

    Args:
        outcomes_NM: a thought with any missing outcome gets no reward (fewer programs would shift its mean).
        formats_N: whether each thought parses into its four parts.
        reference_cost: cost of the problem's reference solution; without it, c_ref is the median cost of the
            all-pass programs in the group.
    """
    scored = [o for row in outcomes_NM for o in row if o is not None and o.all_pass]
    c_ref = reference_cost if reference_cost is not None else median(o.cost for o in scored) if scored else 0.0
    rewards: list[Reward] = []
    for row, well_formed in zip(outcomes_NM, formats_N, strict=True):
        programs = [o for o in row if o is not None]
        if not programs or len(programs) < len(row):
            rewards.append(NO_REWARD)
            continue
        terms = {"format": float(well_formed)}
        ratios = [o.pass_ratio for o in programs]
        if config.preset == "accuracy":
            terms["accuracy"] = sum(ratios) / len(ratios)
        elif config.preset == "paper":
            weights = [_sigmoid(config.kappa * (p - 0.5)) for p in ratios]
            terms["accuracy"] = _weighted_mean(ratios, weights)
            times = [_time_term(o.cost, c_ref, config.kappa_time) for o in programs if o.all_pass]
            terms["time"] = sum(times) / len(times) if times else 0.0
        else:
            terms["accuracy"] = _weighted_mean(ratios, [math.exp(p / SOFTMAX_TEMPERATURE) for p in ratios])
            terms["no_error"] = sum(o.no_error for o in programs) / len(programs)
        rewards.append(_total(terms, config))
    return rewards


def program_rewards(
    outcomes_N: Sequence[Outcome | None], formats_N: Sequence[bool], config: RewardConfig
) -> list[Reward]:
    """Rewards of the N programs of one problem (and thought).

    Args:
        formats_N: whether exactly one program was extracted from each completion.
    """
    passing = [o.peak_mb for o in outcomes_N if o is not None and o.all_pass]
    m_target = max(min(passing), config.memory_floor_mb) if passing else config.memory_floor_mb
    rewards: list[Reward] = []
    for program, well_formed in zip(outcomes_N, formats_N, strict=True):
        if program is None:
            rewards.append(NO_REWARD)
            continue
        terms = {"format": float(well_formed), "accuracy": program.pass_ratio}
        if config.preset == "paper":
            terms["space"] = _space_term(program.peak_mb, m_target, config.memory_floor_mb) if program.all_pass else 0.0
        elif config.preset == "released-code":
            terms["no_error"] = float(program.no_error)
            terms["all_pass"] = float(program.all_pass)
        rewards.append(_total(terms, config))
    return rewards


def _total(terms: dict[str, float], config: RewardConfig) -> Reward:
    weights = {
        "accuracy": 1.0,
        "time": config.time_weight,
        "space": config.space_weight,
        "format": config.format_weight,
        "no_error": NO_ERROR_WEIGHT,
        "all_pass": ALL_PASS_WEIGHT,
    }
    return Reward(sum(weights[name] * value for name, value in terms.items()), terms)


def _time_term(cost: float, c_ref: float, kappa: float) -> float:
    """sigmoid(kappa (1 - c / c_ref)); equal costs of zero (below the clock's resolution) are equal."""
    if c_ref == 0.0:
        return _sigmoid(0.0) if cost == 0.0 else 0.0
    return _sigmoid(kappa * (1.0 - cost / c_ref))


def _space_term(peak_mb: float, m_target: float, m_floor: float) -> float:
    """min(1, m_target / max(m, m_floor)), and 1 within the dead band."""
    memory = max(peak_mb, m_floor)
    return 1.0 if memory <= m_target * (1.0 + DEAD_BAND) else m_target / memory


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def _sigmoid(x: float) -> float:
    # The form without overflow for large |x|.
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))
