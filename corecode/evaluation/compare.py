"""Compare runs with each other: one arm of two runs, problem by problem, or the gains of several seeds together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corecode.config import stored_profile
from corecode.errors import UserError
from corecode.evaluation.collaboration import CG_PAIRS, GAINS, Comparison, PairedArms, pair, single_sample_p_value
from corecode.evaluation.rows import ArmSamples, Samples, load_samples
from corecode.evaluation.statistics import Bootstrap, Difference, Floats, Pooled, paired_difference, pool_seeds
from corecode.problems import Problem, read_problems


@dataclass(frozen=True)
class MeasureChange:
    """One measure of both sides, and second minus first."""

    first: float
    second: float
    difference: Difference


@dataclass(frozen=True)
class ChangedProblem:
    """A problem whose share of right samples differs."""

    problem_id: str
    first: float
    second: float


@dataclass(frozen=True)
class RunComparison:
    """Second run minus first run, over the problems that both evaluated in full."""

    temperature: float
    problems: int
    not_shared: int
    """Problems that only one of the runs has, or that have the same id and another content."""
    excluded: int
    """Shared problems left out of both sides, because a sample of one side is missing."""
    measures: dict[str, MeasureChange]
    """By name: pass@1, pass@k and apr."""
    mcnemar_p: float | None
    """Exact p-value of "solved", where both have one sample a problem."""
    changed: tuple[ChangedProblem, ...]
    """Largest change first."""


@dataclass(frozen=True)
class PooledFigure:
    """A gain, or a Collaboration Gain, over several seeds."""

    comparison: Comparison
    temperature: float
    measure: str
    kind: str
    """``difference`` (a gain, or CG_abs) or ``cg`` (relative)."""
    pooled: Pooled


def compare(
    run_a: Path,
    run_b: Path,
    arm: str,
    temperature: float | None = None,
    arm_b: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> RunComparison:
    """Compare an arm of one run with the same arm (or with ``arm_b``) of another.

    Without a temperature: at the lowest that both runs have of it.

    Raises:
        UserError: when a run was not evaluated with that arm and temperature, or no problem can be compared.
    """
    first, problems_a = _load(run_a)
    second, problems_b = _load(run_b)
    if temperature is None:
        temperature = _lowest_shared(first, second, run_a, run_b, arm, arm_b or arm)
    samples_a = _arm(first, run_a, arm, temperature)
    samples_b = _arm(second, run_b, arm_b or arm, temperature)
    every = set(samples_a.problem_ids) | set(samples_b.problem_ids)
    shared = sorted(
        problem
        for problem in set(samples_a.problem_ids) & set(samples_b.problem_ids)
        if problems_a.get(problem) == problems_b.get(problem)
    )
    if not shared:
        raise UserError(
            f"{run_a} and {run_b} share no problem, so nothing is paired; compare runs with the same problems, or pool"
            " runs with different seeds"
        )
    samples_a, samples_b = samples_a.restricted(shared), samples_b.restricted(shared)
    paired = PairedArms(samples_b, samples_a, samples_a.complete_P & samples_b.complete_P)
    if not paired.problems:
        raise UserError(f"every shared problem of {run_a} and {run_b} lacks a result on one side; evaluate them again")
    bootstrap = Bootstrap(resamples, seed)
    values = paired.measures()
    return RunComparison(
        temperature=temperature,
        problems=paired.problems,
        not_shared=len(every) - len(shared),
        excluded=paired.excluded,
        measures={
            name: MeasureChange(float(b_P.mean()), float(a_P.mean()), paired_difference(a_P, b_P, bootstrap))
            for name, (a_P, b_P) in values.items()
        },
        mcnemar_p=single_sample_p_value(paired),
        changed=_changed(paired, values["pass@1"]),
    )


def pool(runs: Sequence[Path], resamples: int = 10_000, seed: int = 0) -> list[PooledFigure]:
    """Pool the gains and Collaboration Gains of runs that differ in their seed.

    Only comparisons and temperatures that every run has are pooled. Problems that several runs have are drawn together.

    Raises:
        UserError: when a run was not evaluated, or the runs asked for different numbers of samples.
    """
    read = [_load(run) for run in runs]
    loaded = [samples for samples, _ in read]
    # The content belongs to what identifies a problem: procedural problems of two seeds may have one id.
    names = [{problem: f"{problem}\0{one.model_dump_json()}" for problem, one in known.items()} for _, known in read]
    if len({samples.n for samples in loaded}) > 1:
        raise UserError("the runs have different numbers of samples a problem (evaluation.samples); pool equal ones")
    bootstrap = Bootstrap(resamples, seed)
    temperatures = sorted(set.intersection(*(set(samples.temperatures) for samples in loaded)))
    figures: list[PooledFigure] = []
    for comparison in (*CG_PAIRS, *GAINS):
        for temperature in temperatures:
            pairs = [one for samples in loaded if (one := pair(samples, comparison, temperature)) is not None]
            if len(pairs) < len(loaded):
                continue
            values = [one.measures() for one in pairs]
            ids = [
                [known.get(problem, problem) for problem in one.ids] for one, known in zip(pairs, names, strict=True)
            ]
            for measure in values[0]:
                stacked = [np.stack(one[measure], axis=1) for one in values]
                figures += _pooled(comparison, temperature, measure, stacked, bootstrap, ids)
    return figures


def _pooled(
    comparison: Comparison,
    temperature: float,
    measure: str,
    stacked: Sequence[Floats],
    bootstrap: Bootstrap,
    ids: Sequence[Sequence[str]],
) -> list[PooledFigure]:
    def difference(means: Floats) -> Floats:
        return means[:, 0] - means[:, 1]

    def relative(means: Floats) -> Floats:
        alone = means[:, 1]
        return (means[:, 0] - alone) / np.where(alone == 0, np.nan, alone)

    pooled = pool_seeds(stacked, bootstrap, difference, ids)
    found = [PooledFigure(comparison, temperature, measure, "difference", pooled)]
    if comparison in CG_PAIRS and all(values[:, 1].any() for values in stacked):
        pooled = pool_seeds(stacked, bootstrap, relative, ids)
        found.append(PooledFigure(comparison, temperature, measure, "cg", pooled))
    return found


def _changed(paired: PairedArms, rates: tuple[Floats, Floats]) -> tuple[ChangedProblem, ...]:
    changes = [
        ChangedProblem(problem, float(first), float(second))
        for problem, second, first in zip(paired.ids, *rates, strict=True)
        if first != second
    ]
    return tuple(sorted(changes, key=lambda one: (-abs(one.second - one.first), one.problem_id)))


def _load(run: Path) -> tuple[Samples, dict[str, Problem]]:
    path = run / "profile.json"
    try:
        profile = stored_profile(path)
    except OSError as error:
        raise UserError(f"{run} is no run: cannot read {path} ({error.strerror})") from error
    problems = {problem.id: problem for problem in read_problems(run / "problems" / "test.jsonl")}
    return load_samples(run, profile.evaluation.samples), problems


def _lowest_shared(first: Samples, second: Samples, run_a: Path, run_b: Path, arm_a: str, arm_b: str) -> float:
    of_a, of_b = ({one for name, one in side.by_arm if name == arm} for side, arm in ((first, arm_a), (second, arm_b)))
    shared = of_a & of_b
    if not shared:
        raise UserError(
            f"no temperature has both arm {arm_a!r} of {run_a} and arm {arm_b!r} of {run_b}; the first has"
            f" {_known(first)}; the second has {_known(second)}"
        )
    return min(shared)


def _arm(samples: Samples, run: Path, arm: str, temperature: float) -> ArmSamples:
    found = samples.get(arm, temperature)
    if found is None:
        raise UserError(f"{run} has no results of arm {arm!r} at temperature {temperature}; it has {_known(samples)}")
    return found


def _known(samples: Samples) -> str:
    return ", ".join(f"{name} at {one}" for name, one in samples.by_arm) or "no results"
