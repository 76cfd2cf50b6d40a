"""The comparison of outputs and values, without a sandbox."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import Comparison
from sandbox.compare import same_text, same_value

TOKENS = Comparison()
EXACT = Comparison(exact_whitespace=True)


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("0.333333333333", "0.333333", True),
        ("0.333333333333", "0.3333333333333333", True),
        ("0.333333333333", "3.33333333333e-01", True),
        ("0.333333333333", "0.33333", False),
        ("5", "5.0", False),
        ("5", "5.0000001", False),
        ("5", "05", False),
        ("1000000007", "1000000008", False),
        ("1e9", "1000000000", True),
        ("nan", "0", False),
        ("nan", "NaN", True),
        ("0.5", "nan", False),
        ("inf", "-inf", False),
        ("1.5", "inf", False),
        ("1e400", "inf", False),
        ("1e400", "1e500", False),
        ("0.5 YES", "0.5000000001 yes", False),
        ("YES\nNO\nYES", "NO\nYES\nYES", False),
        ("1 2", "2 1", False),
        ("1\n2", "1 2", True),
        ("a", "a\na", False),
        ("", "", True),
        ("", " \n\n", True),
        ("", "x", False),
        ("0.5", "٠.٥", False),
        ("5.0", "5_0", False),
        ("a b", "a\u00a0b", False),
        ("1.0", "1." + "0" * 500, False),
        ("-0.0", "0.0", True),
        ("0.5", "0.5f", False),
        ("0x10", "16", False),
    ],
)
def test_tokens_are_compared_as_documented(expected: str, actual: str, same: bool) -> None:
    assert same_text(expected, actual, TOKENS) is same


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [("5", "5.0000001", True), ("5", "5.1", False), ("a", "5", False), ("5", "a", False)],
)
def test_a_tolerance_holds_for_every_number(expected: str, actual: str, same: bool) -> None:
    assert same_text(expected, actual, Comparison(tolerance=1e-6)) is same


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("hello\n world", "hello\n world\n", True),
        ("hello\n world", "hello\nworld", False),
        ("a  b", "a b", False),
        ("a\r\nb", "a\nb", True),
        ("a", "a\n\n", False),
        ("0.5", "0.50", False),
    ],
)
def test_exact_whitespace_counts_every_character(expected: str, actual: str, same: bool) -> None:
    assert same_text(expected, actual, EXACT) is same


def test_exact_whitespace_with_a_tolerance_still_reads_numbers() -> None:
    how = Comparison(tolerance=0.1, exact_whitespace=True)
    assert same_text("a 0.5\n", "a 0.55\n", how)
    assert not same_text("a 0.5\n", "a  0.55\n", how)


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (1, 1.0, False),
        (1.0, 1, True),
        (0.1, 0.1 + 1e-9, True),
        (0.1, 0.2, False),
        (None, None, True),
        (None, 0, False),
        ("a", "a", True),
        ("1", 1, False),
        ([1, 2], (1, 2), True),
        ([1, 2], [1, 2, 3], False),
        ([1, [2.0]], [1, (2.0000000001,)], True),
        ([], {}, False),
        ({"a": 1}, {"a": 1}, True),
        ({"1": 2}, {1: 2}, True),
        ({"1": 2}, {1: 2, "1": 2}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (2.0, "2.0", False),
        (10.0**300, 10**400, False),
        ([1], {1}, False),
    ],
)
def test_values_are_compared_with_their_types(expected: object, actual: object, same: bool) -> None:
    assert same_value(expected, actual, TOKENS) is same  # type: ignore[arg-type]


def test_a_tolerance_lets_an_integer_be_written_as_a_real() -> None:
    assert same_value([3], [3.0000001], Comparison(tolerance=1e-6))


@given(st.lists(st.integers() | st.text("abc", min_size=1), max_size=8))
def test_any_text_equals_itself_however_it_is_spaced(tokens: list[object]) -> None:
    words = [str(token) for token in tokens]
    assert same_text(" ".join(words), "\n".join(words) + "\n", TOKENS)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_any_value_equals_itself(value: object) -> None:
    assert same_value(value, value, TOKENS)  # type: ignore[arg-type]


def test_vectors_of_a_public_judge(shared: object) -> None:
    """Vectors of another judge, with the options that exist here (it ignores case unless told, we never do)."""
    folder: Path = shared("data/judge_vectors")  # type: ignore[operator]
    seen = 0
    for case in sorted(folder.glob("test_*")):
        options = (case / "args.txt").read_text().split() if (case / "args.txt").exists() else []
        values = [float(value) for name, value in pairwise(options) if "toler" in name]
        tolerance = values[0] if values else None
        how = Comparison(tolerance, exact_whitespace="space_change_sensitive" in options)
        right = (case / "expected_exit_code.txt").read_text().strip() == "42"
        assert same_text((case / "judge.ans").read_text(), (case / "user.out").read_text(), how) is right, case.name
        seen += 1
    assert seen >= 10
