"""Statistics against hand-computed values and against scipy and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import NormalIndPower

from corecode.evaluation import statistics as ours


def test_mean_interval_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], size=300)
    found = ours.mean_interval(values, ours.Bootstrap(10_000, seed=5))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=10_000, method="percentile", rng=8).confidence_interval
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_paired_difference_agrees_with_scipy() -> None:
    rng = np.random.default_rng(2)
    baseline = rng.integers(0, 6, 400) / 5
    system = np.clip(baseline + rng.choice([-0.2, 0.0, 0.2, 0.4], 400), 0, 1)
    found = ours.paired_difference(system, baseline, ours.Bootstrap(10_000, seed=1))
    theirs = stats.bootstrap(
        (system, baseline), lambda a, b, axis: np.mean(a - b, axis=axis), paired=True, method="percentile", rng=3
    ).confidence_interval
    assert found.interval.low == pytest.approx(theirs.low, abs=0.003)
    assert found.interval.high == pytest.approx(theirs.high, abs=0.003)
    assert found.interval.excludes_zero
    assert found.p_value == pytest.approx(2 / 10_001)  # no resample reaches 0


def test_pairing_removes_the_difficulty_of_problems() -> None:
    """Two systems that differ by a constant on very unequal problems: paired, the difference has no width at all."""
    difficulty = np.linspace(0, 0.8, 50)
    found = ours.paired_difference(difficulty + 0.1, difficulty, ours.Bootstrap(1000))
    assert found.interval.low == pytest.approx(0.1)
    assert found.interval.high == pytest.approx(0.1)


def test_columns_of_one_resampling_see_the_same_draws() -> None:
    values = np.random.default_rng(0).random((40, 1))
    means = ours.Bootstrap(1000, seed=3).means(np.hstack([values, 2 * values]))
    assert np.allclose(means[:, 1], 2 * means[:, 0])


def test_draws_depend_on_seed_and_number_of_problems_only(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((30, 2))
    first = ours.Bootstrap(1000, seed=9)
    first.means(values[:7])  # another number of problems in between changes nothing
    means = first.means(values)
    assert np.array_equal(means, ours.Bootstrap(1000, seed=9).means(values))
    assert not np.array_equal(means, ours.Bootstrap(1000, seed=10).means(values))
    monkeypatch.setattr(ours, "_CHUNK_CELLS", 90)
    assert np.allclose(means, ours.Bootstrap(1000, seed=9).means(values), atol=1e-15)


def test_the_interval_covers_the_truth_about_95_times_in_100() -> None:
    rng = np.random.default_rng(4)
    bootstrap = ours.Bootstrap(1000, seed=0)
    hits = 0
    for _ in range(300):
        found = ours.mean_interval(rng.binomial(5, 0.4, 100) / 5, bootstrap)
        hits += found.low is not None and found.high is not None and found.low <= 0.4 <= found.high
    assert 0.90 <= hits / 300 <= 0.985


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at least 1000"):
        ours.Bootstrap(999)
    with pytest.raises(ValueError, match="zero problems"):
        ours.Bootstrap(1000).means(np.empty((0, 1)))
    with pytest.raises(ValueError, match="same problems"):
        ours.paired_difference(np.zeros(3), np.zeros(4), ours.Bootstrap(1000))
    with pytest.raises(ValueError, match="same problems"):
        ours.mcnemar_exact(np.zeros(3, bool), np.zeros(4, bool))
    with pytest.raises(ValueError, match="zero runs"):
        ours.pool_seeds([], ours.Bootstrap(1000))


def test_p_value_by_hand() -> None:
    differences = np.array([-0.1] * 3 + [0.0] * 2 + [0.2] * 994)
    assert ours.bootstrap_p_value(differences) == pytest.approx(2 * (5 + 1) / 1000)
    assert ours.bootstrap_p_value(np.zeros(1000)) == 1.0
    # A sum of fifths that is 0 but for rounding is 0.
    assert ours.bootstrap_p_value(np.full(1000, 1e-17)) == 1.0


def test_a_bound_at_infinity_is_absent() -> None:
    values = np.concatenate([np.zeros(900), np.full(100, np.inf)])
    found = ours.percentile_interval(1.0, values)
    assert (found.low, found.high) == (0.0, None)
    assert not found.excludes_zero
    assert ours.interval_json(found) == {"value": 1.0, "low": 0.0, "high": None}


def test_mcnemar_by_hand() -> None:
    system = np.array([True] * 4 + [False] + [True] * 3)
    baseline = np.array([False] * 4 + [True] + [True] * 3)
    assert ours.mcnemar_exact(system, baseline) == pytest.approx(0.375)
    assert ours.mcnemar_exact(baseline, baseline) == 1.0


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_mcnemar_agrees_with_statsmodels_and_scipy(only_first: int, only_second: int, both: int) -> None:
    first = np.array([True] * only_first + [False] * only_second + [True] * both, dtype=bool)
    second = np.array([False] * only_first + [True] * only_second + [True] * both, dtype=bool)
    found = ours.mcnemar_exact(first, second)
    assert found == pytest.approx(mcnemar([[both, only_first], [only_second, 0]], exact=True).pvalue, abs=1e-12)
    if only_first + only_second:
        assert found == pytest.approx(stats.binomtest(only_first, only_first + only_second).pvalue, abs=1e-9)


def test_holm_by_hand() -> None:
    # Sorted: .005 x 4, .01 x 3, .03 x 2, .04 x 1; each at least the one before.
    assert ours.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert ours.holm([]) == []
    assert ours.holm_by_name({"a": 0.5, "b": 0.9}) == {"a": 1.0, "b": 1.0}


@given(st.lists(st.integers(0, 1000).map(lambda thousandths: thousandths / 1000), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_holm_agrees_with_statsmodels(p_values: list[float]) -> None:
    assert ours.holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-12)


def test_detectable_difference_agrees_with_statsmodels() -> None:
    differences = np.random.default_rng(7).choice([-0.2, 0.0, 0.4], 250)
    effect = NormalIndPower(ddof=0).solve_power(nobs1=250, alpha=0.05, power=0.8, ratio=0)
    assert ours.detectable_difference(differences) == pytest.approx(effect * differences.std(ddof=1), rel=1e-3)


def test_a_detectable_difference_is_found_with_80_percent_power() -> None:
    rng = np.random.default_rng(11)
    size, deviation = 200, 0.5
    target = ours.detectable_difference(rng.normal(0, deviation, 100_000)) * math.sqrt(100_000 / size)
    samples = rng.normal(target, deviation, (4000, size))
    z = samples.mean(axis=1) / (samples.std(axis=1, ddof=1) / math.sqrt(size))
    assert (np.abs(z) > 1.96).mean() == pytest.approx(0.8, abs=0.025)


def test_one_problem_detects_nothing() -> None:
    assert ours.detectable_difference(np.array([0.4])) == math.inf
    assert ours.rounded(math.inf) is None


def test_pooled_seeds() -> None:
    rng = np.random.default_rng(5)
    runs = [rng.binomial(1, rate, (400, 1)).astype(float) for rate in (0.3, 0.5, 0.7)]
    pooled = ours.pool_seeds(runs, ours.Bootstrap(10_000, seed=2))
    means = [float(run.mean()) for run in runs]
    assert pooled.per_seed == pytest.approx(means)
    assert pooled.interval.value == pytest.approx(np.mean(means))
    assert pooled.deviation == pytest.approx(np.std(means, ddof=1))
    # Stratified: the variance of the mean of three independent means.
    deviation = math.sqrt(sum(run.var() / len(run) for run in runs)) / 3
    assert pooled.interval.low is not None
    assert pooled.interval.high is not None
    assert (pooled.interval.high - pooled.interval.low) / 2 == pytest.approx(1.96 * deviation, rel=0.05)


def test_seeds_with_problems_of_their_own_are_drawn_independently() -> None:
    values = np.random.default_rng(6).random((50, 1))
    one = ours.pool_seeds([values], ours.Bootstrap(5000, seed=1)).interval
    two = ours.pool_seeds([values, values], ours.Bootstrap(5000, seed=1)).interval
    assert one.low is not None
    assert one.high is not None
    assert two.low is not None
    assert two.high is not None
    assert two.high - two.low == pytest.approx((one.high - one.low) / math.sqrt(2), rel=0.08)


def test_seeds_that_share_problems_share_the_draws() -> None:
    """Drawn apart, the difficulty of a problem would count as if each seed had met a new one: too narrow by far."""
    rng = np.random.default_rng(8)
    difficulty = rng.random((300, 1))
    runs = [(rng.random((300, 1)) < difficulty).astype(float) for _ in range(3)]
    names = [str(i) for i in range(300)]
    shuffled = [rng.permutation(300) for _ in runs]
    pooled = ours.pool_seeds(
        [run[order] for run, order in zip(runs, shuffled, strict=True)],
        ours.Bootstrap(10_000, seed=3),
        problems=[[names[i] for i in order] for order in shuffled],
    ).interval
    theirs = stats.bootstrap(
        (np.mean(runs, axis=0)[:, 0],), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert (pooled.low, pooled.high) == pytest.approx((theirs.low, theirs.high), abs=0.006)
    apart = ours.pool_seeds(runs, ours.Bootstrap(10_000, seed=3)).interval
    assert pooled.low is not None
    assert pooled.high is not None
    assert apart.low is not None
    assert apart.high is not None
    assert apart.high - apart.low < 0.9 * (pooled.high - pooled.low)


def test_seeds_that_share_some_problems() -> None:
    """Equal values on 40 shared of 60 problems each: the variance of the mean of the two means, by hand."""
    values = np.random.default_rng(9).random((80, 1))
    names = [str(i) for i in range(80)]
    found = ours.pool_seeds(
        [values[:60], values[20:]], ours.Bootstrap(20_000, seed=4), problems=[names[:60], names[20:]]
    ).interval
    # What a problem adds to the mean of both means, around the mean of each run that has it.
    centred = np.concatenate(
        [
            (values[:20, 0] - values[:60].mean()) / 120,
            ((values[20:60, 0] - values[:60].mean()) + (values[20:60, 0] - values[20:].mean())) / 120,
            (values[60:, 0] - values[20:].mean()) / 120,
        ]
    )
    assert found.low is not None
    assert found.high is not None
    assert found.value == pytest.approx((values[:60].mean() + values[20:].mean()) / 2)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * math.sqrt((centred**2).sum()), rel=0.06)


def test_names_that_no_seed_shares_change_nothing() -> None:
    runs = [np.random.default_rng(i).random((20, 1)) for i in range(2)]
    names = [[f"{i}/{j}" for j in range(20)] for i in range(2)]
    bootstrap = ours.Bootstrap(2000, seed=5)
    assert ours.pool_seeds(runs, bootstrap, problems=names) == ours.pool_seeds(runs, bootstrap)


def test_a_pooled_bound_that_rests_on_undefined_resamples_is_absent() -> None:
    """One solved problem of 20: a third of the resamples has none, and a ratio to it no value."""
    values = np.zeros((20, 2))
    values[:4, 0] = values[0, 1] = 1

    def relative(means: ours.Floats) -> ours.Floats:
        return (means[:, 0] - means[:, 1]) / np.where(means[:, 1] == 0, np.nan, means[:, 1])

    pooled = ours.pool_seeds([values, values], ours.Bootstrap(2000, seed=1), relative)
    assert pooled.interval.value == pytest.approx(3)
    assert (pooled.interval.low, pooled.interval.high) == (None, None)
