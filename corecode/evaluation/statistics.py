"""Statistics for comparing systems on the same problems: intervals, tests, and what could have been seen at all.

The unit of resampling is the *problem*: all samples of a problem, of both compared systems, are drawn together, because
they share its difficulty. Array names end in their shape: ``_P`` problems, ``_M`` measures, ``_B`` resamples.

Sources: percentile bootstrap, Efron (1979); exact test for paired outcomes, McNemar (1947) with the binomial
distribution; step-down correction, Holm (1979). docs/method.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MIN_RESAMPLES = 1000
_CHUNK_CELLS = 4_000_000
"""Draws held as 8-byte numbers at a time (32 MB), whatever the number of problems."""
_ZERO = 1e-12
"""Sums of fifths and the like are exact only up to rounding; a difference this small is none."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval. A bound is None when it is not finite, as for a ratio to what may be 0."""

    value: float
    low: float | None
    high: float | None

    @property
    def excludes_zero(self) -> bool:
        """True when the whole interval lies on one side of 0."""
        return (self.low is not None and self.low > 0) or (self.high is not None and self.high < 0)


@dataclass(frozen=True)
class Difference:
    """A paired difference of means, ``system - baseline``, over the same problems."""

    problems: int
    interval: Interval
    p_value: float
    """Two-sided bootstrap p-value against 0."""
    detectable: float
    """Smallest true difference that this many problems show with 80 % power (see :func:`detectable_difference`)."""


class Bootstrap:
    """Draws of problems with replacement, shared by everything that is computed from one run.

    The draws depend on the seed and on the number of problems alone, and are kept: a report compares dozens of systems
    on the same problems, and making the draws is most of the work.
    """

    def __init__(self, resamples: int = 10_000, seed: int = 0) -> None:
        """Raises ValueError for fewer than 1000 resamples: their tails are too coarse for a 95 % interval."""
        if resamples < MIN_RESAMPLES:
            raise ValueError(f"{resamples} resamples are too few for a 95 % interval; use at least {MIN_RESAMPLES}")
        self.resamples = resamples
        self.seed = seed
        self._counts: dict[int, npt.NDArray[np.uint8]] = {}

    def means(self, values_PM: Floats) -> Floats:
        """Means over the resampled problems.

        Args:
            values_PM: one row a problem; every column sees the *same* draws, so columns stay paired.

        Returns:
            shape (resamples, columns).

        Raises:
            ValueError: without problems.
        """
        problems = values_PM.shape[0]
        if problems == 0:
            raise ValueError("cannot resample zero problems")
        counts_BP = self._draws(problems)
        rows = max(1, _CHUNK_CELLS // problems)
        parts = [
            counts_BP[start : start + rows].astype(np.float64) @ values_PM for start in range(0, self.resamples, rows)
        ]
        return np.concatenate(parts) / problems

    def _draws(self, problems: int) -> npt.NDArray[np.uint8]:
        """How often each resample holds each problem, shape (resamples, problems)."""
        if problems not in self._counts:
            rng = np.random.default_rng([self.seed, problems])
            counts_BP = np.empty((self.resamples, problems), dtype=np.uint8)
            rows = max(1, _CHUNK_CELLS // problems)
            for start in range(0, self.resamples, rows):
                size = min(rows, self.resamples - start)
                drawn = rng.integers(0, problems, size=(size, problems))
                drawn += np.arange(size)[:, None] * problems
                counts = np.bincount(drawn.ravel(), minlength=size * problems)
                counts_BP[start : start + size] = counts.reshape(size, problems)
            self._counts[problems] = counts_BP
        return self._counts[problems]


def percentile_interval(value: float, resampled_B: Floats) -> Interval:
    """The 95 % percentile interval around ``value``. A bound that falls on an infinite resample becomes None."""
    low, high = percentile_bounds(resampled_B, resampled_B)
    return Interval(value, low, high)


def percentile_bounds(for_low_B: Floats, for_high_B: Floats) -> tuple[float | None, float | None]:
    """The 2.5 % order statistic of the first array and the 97.5 % one of the second, rounded outwards."""
    low = float(np.quantile(for_low_B, 0.025, method="lower"))
    high = float(np.quantile(for_high_B, 0.975, method="higher"))
    return (low if math.isfinite(low) else None, high if math.isfinite(high) else None)


def mean_interval(values_P: Floats, bootstrap: Bootstrap) -> Interval:
    """Mean over problems with its interval."""
    return percentile_interval(float(values_P.mean()), bootstrap.means(values_P[:, None])[:, 0])


def bootstrap_p_value(differences_B: Floats) -> float:
    """Two-sided p-value of a resampled difference: twice the smaller tail beyond 0, never below 2 / (resamples + 1)."""
    below = int((differences_B <= _ZERO).sum())
    above = int((differences_B >= -_ZERO).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (differences_B.size + 1))


def paired_difference(system_P: Floats, baseline_P: Floats, bootstrap: Bootstrap) -> Difference:
    """Compare two systems on the same problems (row i of both belongs to the same problem).

    Raises:
        ValueError: when the lengths differ or there is no problem.
    """
    if system_P.shape != baseline_P.shape:
        raise ValueError(f"paired systems need the same problems, got {system_P.size} and {baseline_P.size}")
    difference_P = system_P - baseline_P
    resampled_B = bootstrap.means(difference_P[:, None])[:, 0]
    return Difference(
        problems=difference_P.size,
        interval=percentile_interval(float(difference_P.mean()), resampled_B),
        p_value=bootstrap_p_value(resampled_B),
        detectable=detectable_difference(difference_P),
    )


def detectable_difference(difference_P: Floats, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest true mean difference that a two-sided test at ``alpha`` finds with probability ``power``.

    ``(z(1 - alpha/2) + z(power)) * s / sqrt(P)`` with the standard deviation ``s`` of the per-problem differences.
    Infinite for fewer than two problems.
    """
    problems = difference_P.size
    if problems < 2:
        return math.inf
    normal = NormalDist()
    deviation = float(difference_P.std(ddof=1))
    return (normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)) * deviation / math.sqrt(problems)


def mcnemar_exact(system_P: npt.NDArray[np.bool_], baseline_P: npt.NDArray[np.bool_]) -> float:
    """Exact two-sided McNemar p-value, for one sample a problem.

    With b problems that only the system solves and c that only the baseline solves:
    ``min(1, 2 * sum_{i <= min(b, c)} C(b + c, i) / 2^(b + c))``.
    """
    if system_P.shape != baseline_P.shape:
        raise ValueError(f"paired systems need the same problems, got {system_P.size} and {baseline_P.size}")
    only_system = int((system_P & ~baseline_P).sum())
    only_baseline = int((~system_P & baseline_P).sum())
    discordant = only_system + only_baseline
    tail = sum(math.comb(discordant, i) for i in range(min(only_system, only_baseline) + 1))
    return min(1.0, 2 * tail / 2**discordant)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


@dataclass(frozen=True)
class Pooled:
    """One quantity over several seeds, whose problems may be the same or others."""

    interval: Interval
    """Mean over the seeds, problems resampled: it speaks of these seeds' models, on new problems."""
    per_seed: tuple[float, ...]
    """The quantity of each seed, in the order given."""
    deviation: float
    """Standard deviation between the seeds (0 for one seed): what a new training run may change."""


def pool_seeds(
    per_seed: Sequence[Floats],
    bootstrap: Bootstrap,
    of_means: Callable[[Floats], Floats] | None = None,
    problems: Sequence[Sequence[str]] | None = None,
) -> Pooled:
    """Pool a quantity over runs with different seeds.

    Args:
        per_seed: for each run an array problems x measures.
        of_means: turns means (rows x measures) into the quantity (rows), NaN where it is not defined; by default the
            first measure. A bound that rests on undefined resamples is absent.
        problems: for each run what identifies the problem of each row. Runs that share problems share their difficulty
            too, so a problem is drawn with its rows in all runs. Without it, or where no problem is shared, the
            bootstrap is stratified by run.

    Raises:
        ValueError: without runs.
    """
    if not per_seed:
        raise ValueError("cannot pool zero runs")

    def first(means: Floats) -> Floats:
        return means[:, 0]

    quantity = of_means or first
    points = [float(quantity(values.mean(axis=0)[None, :])[0]) for values in per_seed]
    pooled_B = np.mean([quantity(means_BM) for means_BM in _means_of_runs(per_seed, bootstrap, problems)], axis=0)
    undefined_B = np.isnan(pooled_B)
    low, high = percentile_bounds(np.where(undefined_B, -np.inf, pooled_B), np.where(undefined_B, np.inf, pooled_B))
    return Pooled(
        interval=Interval(math.fsum(points) / len(points), low, high),
        per_seed=tuple(points),
        deviation=float(np.std(points, ddof=1)) if len(points) > 1 else 0.0,
    )


def _means_of_runs(
    per_seed: Sequence[Floats], bootstrap: Bootstrap, problems: Sequence[Sequence[str]] | None
) -> list[Floats]:
    """For each run its resampled means, shape (resamples, measures); NaN where one holds none of its problems."""
    names = [name for run in problems or () for name in run]
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    if problems is None or len(place) == len(names):
        seeds = range(bootstrap.seed, bootstrap.seed + len(per_seed))
        return [
            Bootstrap(bootstrap.resamples, seed).means(values) for seed, values in zip(seeds, per_seed, strict=True)
        ]
    result: list[Floats] = []
    for values, run in zip(per_seed, problems, strict=True):
        # One row for each problem of any run; the last column counts those that this run has.
        rows_UM = np.zeros((len(place), values.shape[1] + 1))
        rows_UM[[place[name] for name in run]] = np.column_stack([values, np.ones(len(values))])
        means_BM = bootstrap.means(rows_UM)
        present_B1 = means_BM[:, -1:]
        result.append(means_BM[:, :-1] / np.where(present_B1 > 0, present_B1, np.nan))
    return result


def rounded(value: float | None, digits: int = 6) -> float | None:
    """A number for a file: rounded, and None where it is not finite (JSON has no infinity)."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, digits) + 0.0


def interval_json(interval: Interval) -> dict[str, float | None]:
    """An interval for a file."""
    return {"value": rounded(interval.value), "low": rounded(interval.low), "high": rounded(interval.high)}


def holm_by_name(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's correction over named comparisons."""
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))
