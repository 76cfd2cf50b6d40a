"""Measures of one system on a set of problems.

Names end in their shape: ``_PN`` problems x samples, ``_P`` problems. docs/method.md has each formula with a worked
example.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import numpy.typing as npt

from corecode.errors import UserError
from corecode.evaluation.statistics import Floats

Ints = npt.NDArray[np.int64]


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate of the chance that at least one of ``k`` samples is right, from ``n`` samples.

    ``1 - C(n - c, k) / C(n, k)`` (Chen et al. 2021, arXiv 2107.03374).

    Raises:
        UserError: for k > n (nothing can be said about more samples than were drawn) or k < 1.
        ValueError: for a count of right samples outside 0..n.
    """
    if not 0 <= correct <= n:
        raise ValueError(f"{correct} right samples of {n}")
    if k < 1:
        raise UserError(f"pass@{k} is not defined; k starts at 1")
    if k > n:
        raise UserError(f"pass@{k} needs at least {k} samples a problem, there are {n}; raise evaluation.samples")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def pass_at_k_per_problem(correct_P: Ints, n: int, k: int) -> Floats:
    """:func:`pass_at_k` of each problem, from its number of right samples."""
    by_count = np.array([pass_at_k(n, c, k) for c in range(n + 1)])
    return by_count[correct_P]


def reported_ks(n: int) -> list[int]:
    """The k of the report: 1, 2, 3, 5, 10, 20, 50 and so on up to n, and n itself."""
    steps = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
    return sorted({k for k in steps if k <= n} | {n})


def compared_ks(n: int) -> list[int]:
    """The k that systems are compared at: 1, 5 where there are as many samples, and n."""
    return sorted({1, min(5, n), n})


def average_pass_ratio(ratios_PN: Floats) -> Floats:
    """Mean share of passed tests of each problem; its mean over problems is APR macro, the headline form."""
    return ratios_PN.mean(axis=1)


def average_pass_ratio_micro(passed: Ints, total: Ints) -> float:
    """APR micro: all passed tests / all tests. Problems with many tests weigh more; never mixed with macro.

    Raises:
        ValueError: without tests.
    """
    tests = int(total.sum())
    if tests == 0:
        raise ValueError("no tests: an empty test list is an error of the data, not a score")
    return int(passed.sum()) / tests


RATIO_BINS = ("none", "up to a quarter", "up to half", "up to three quarters", "almost all", "all tests")


def ratio_bins(passed: Ints, total: Ints) -> list[int]:
    """How many programs pass none, (0, 1/4], (1/4, 1/2], (1/2, 3/4], (3/4, 1) and all of their tests."""
    inner = np.clip(-((-4 * passed) // total), 1, 4)  # ceil(4 p / t), exact in integers
    index = np.where(passed == 0, 0, np.where(passed == total, 5, inner))
    return np.bincount(index, minlength=6).astype(int).tolist()


def common_solved(costs_first: Sequence[Sequence[float]], costs_second: Sequence[Sequence[float]]) -> Floats:
    """Costs on the problems that both systems solve.

    Args:
        costs_first: for each problem the costs of the first system's accepted programs (empty: not solved).
        costs_second: the same of the second system, same order of problems.

    Returns:
        shape (problems both solve, 2): each system's mean cost over its accepted programs of that problem.
    """
    rows = [(sum(a) / len(a), sum(b) / len(b)) for a, b in zip(costs_first, costs_second, strict=True) if a and b]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)
