"""Rewards against values computed by hand, and what must hold for every group."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corecode.config import RewardConfig
from corecode.rewards import NO_REWARD, Outcome, helper_rewards, outcome, program_rewards
from sandbox import Judgement, TestResult, Verdict

PAPER = RewardConfig()
RELEASED = RewardConfig(preset="released-code")
ACCURACY = RewardConfig(preset="accuracy")


def made(pass_ratio: float, cost: float = 1.0, peak_mb: float = 1.0, no_error: bool = True) -> Outcome:
    return Outcome(pass_ratio, pass_ratio == 1.0, cost, peak_mb, no_error)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_planner_accuracy_is_the_sigmoid_weighted_mean() -> None:
    (reward,) = helper_rewards([[made(1.0), made(0.0)]], [True], PAPER)
    # w = sigmoid(2) = 0.880797, sigmoid(-2) = 0.119203
    assert reward.terms["accuracy"] == pytest.approx(0.8807970779778823)
    # One all-pass program, so c_ref is its own cost and the time term is sigmoid(0).
    assert reward.terms["time"] == 0.5
    assert reward.total == pytest.approx(0.8807970779778823 + 0.1 * 0.5)


def test_planner_time_term_compares_with_the_median_of_the_groups_all_pass_programs() -> None:
    group = [[made(1.0, 1.0)], [made(1.0, 2.0)], [made(1.0, 4.0)], [made(0.5, 0.1)]]
    rewards = helper_rewards(group, [True] * 4, PAPER)
    expected = [sigmoid(4 * (1 - 0.5)), sigmoid(0.0), sigmoid(4 * (1 - 2)), 0.0]
    assert [reward.terms["time"] for reward in rewards] == pytest.approx(expected)


def test_planner_time_term_prefers_the_reference_solutions_cost() -> None:
    (reward,) = helper_rewards([[made(1.0, 2.0)]], [True], PAPER, reference_cost=4.0)
    assert reward.terms["time"] == pytest.approx(sigmoid(2.0))


def test_coder_pays_space_only_when_all_tests_pass() -> None:
    group = [made(1.0, peak_mb=10.0), made(1.0, peak_mb=20.0), made(0.5, peak_mb=5.0)]
    rewards = program_rewards(group, [True] * 3, PAPER)
    assert [reward.terms["space"] for reward in rewards] == [1.0, 0.5, 0.0]
    assert [reward.total for reward in rewards] == pytest.approx([1.1, 1.05, 0.5])


def test_memory_under_the_floor_and_within_the_dead_band_is_equal() -> None:
    group = [made(1.0, peak_mb=m) for m in (0.0, 0.4, 1.0, 1.04, 1.05, 1.2)]
    terms = [reward.terms["space"] for reward in program_rewards(group, [True] * 6, PAPER)]
    assert terms == pytest.approx([1.0, 1.0, 1.0, 1.0, 1.0, 1 / 1.2])


@pytest.mark.parametrize("pair", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)])
def test_two_programs_that_pass_or_fail_agree_with_the_released_softmax(pair: tuple[float, float]) -> None:
    row = [[made(p) for p in pair]]
    (paper,), (released,) = helper_rewards(row, [True], PAPER), helper_rewards(row, [True], RELEASED)
    assert paper.terms["accuracy"] == pytest.approx(released.terms["accuracy"], abs=1e-12)


def test_released_code_bonuses() -> None:
    failing = made(0.5, no_error=False)
    rewards = program_rewards([made(1.0), made(0.5), failing], [True] * 3, RELEASED)
    assert [reward.total for reward in rewards] == pytest.approx([1.3, 0.6, 0.5])
    (thought,) = helper_rewards([[made(0.5), failing]], [True], RELEASED)
    assert thought.total == pytest.approx(0.5 + 0.1 * 0.5)


def test_accuracy_preset_is_the_pass_ratio_alone() -> None:
    assert [r.total for r in program_rewards([made(0.25), made(1.0)], [True] * 2, ACCURACY)] == [0.25, 1.0]
    assert helper_rewards([[made(0.25), made(0.75)]], [True], ACCURACY)[0].total == 0.5


def test_format_term_has_its_own_weight() -> None:
    config = RewardConfig(format_weight=0.2)
    rewards = program_rewards([made(0.0), made(0.0)], [True, False], config)
    assert [reward.total for reward in rewards] == [0.2, 0.0]
    assert [reward.terms["format"] for reward in program_rewards([made(0.0)], [True], PAPER)] == [1.0]


def test_an_outage_gives_no_reward_and_does_not_touch_the_others() -> None:
    whole = program_rewards([made(1.0, peak_mb=8.0), made(0.5)], [True] * 2, PAPER)
    assert program_rewards([made(1.0, peak_mb=8.0), None, made(0.5)], [True] * 3, PAPER) == [
        whole[0],
        NO_REWARD,
        whole[1],
    ]
    # A thought with one lost program of two is not rated by the other: a mean of fewer programs is another number.
    assert helper_rewards([[made(1.0), None], [made(0.0), made(0.0)]], [True] * 2, PAPER)[0] == NO_REWARD
    assert program_rewards([None] * 4, [True] * 4, PAPER) == [NO_REWARD] * 4


def judgement(verdict: Verdict, verdicts: list[Verdict], steps: int | None = None) -> Judgement:
    results = tuple(TestResult(v) for v in verdicts)
    passed = sum(v is Verdict.ACCEPTED for v in verdicts)
    return Judgement(verdict, results, passed, len(results), 0.5, 1.0, 3.0, steps)


def test_a_judgement_is_read_once() -> None:
    both = judgement(Verdict.WRONG_ANSWER, [Verdict.ACCEPTED, Verdict.WRONG_ANSWER], steps=7)
    assert outcome(both, "cpu_time") == Outcome(0.5, False, 0.5, 3.0, True)
    assert outcome(judgement(Verdict.ACCEPTED, [Verdict.ACCEPTED], 7), "steps") == Outcome(1.0, True, 7.0, 3.0, True)
    assert outcome(judgement(Verdict.SANDBOX_ERROR, [Verdict.ACCEPTED]), "cpu_time") is None
    with pytest.raises(ValueError, match="cost='steps'"):
        outcome(judgement(Verdict.ACCEPTED, [Verdict.ACCEPTED]), "steps")


def test_doing_nothing_without_an_error_earns_no_bonus() -> None:
    idle = outcome(judgement(Verdict.WRONG_ANSWER, [Verdict.WRONG_ANSWER] * 3), "cpu_time")
    assert idle is not None
    assert program_rewards([idle], [True], RELEASED)[0].total == 0.0


outcomes = st.builds(
    Outcome,
    pass_ratio=st.floats(0, 1),
    all_pass=st.booleans(),
    cost=st.floats(0, 1e9),
    peak_mb=st.floats(0, 1e6),
    no_error=st.booleans(),
)
presets = st.sampled_from([PAPER, RELEASED, ACCURACY, RewardConfig(format_weight=0.2, kappa=100, kappa_time=100)])


@given(st.lists(st.tuples(st.lists(st.none() | outcomes, min_size=2, max_size=2), st.booleans()), max_size=6), presets)
def test_no_reward_is_ever_nan(group: list[tuple[list[Outcome | None], bool]], config: RewardConfig) -> None:
    rows, formats = [row for row, _ in group], [ok for _, ok in group]
    for rewards in (helper_rewards(rows, formats, config), program_rewards([row[0] for row in rows], formats, config)):
        assert len(rewards) == len(group)
        for reward in rewards:
            assert (reward.total is None) == (reward.terms == {})
            assert reward.total is None or math.isfinite(reward.total)
            assert all(math.isfinite(term) for term in reward.terms.values())
