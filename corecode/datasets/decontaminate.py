"""Training problems that are test problems in other clothes are removed, and listed with the reason.

A problem of the training side (warm-up, reinforcement learning, validation) matches a test problem by one of these
rules, tried in this order:

- ``same_id``: the id is equal.
- ``same_statement``: the statement is equal, blanks and line breaks apart.
- ``same_words``: it is equal in its letters and digits, case and punctuation apart.
- ``shared_ngrams``: of the distinct word 8-grams of the shorter statement at least 70 % are in the other one. 8-grams
  and 70 % are the convention of PaLM (Chowdhery et al. 2022, arXiv 2204.02311, section 8). The older rule of GPT-3, any
  shared 13-gram, would remove what only shares a phrase: statements of contests have whole sentences in common ("the
  first line contains one integer"). Taking the shorter statement finds excerpts as well. Fewer than 4 shared n-grams
  prove nothing.
- ``same_tests``: at least 3 tests, and 70 % of the smaller set, are tests of the other problem too: one problem in two
  wordings.

**Procedural families.** Problems with a ``structure`` come from a generator, which makes every statement of a few
phrases: n-grams and words recur by design and say only that two problems are of one family. What makes two of them the
same problem is their derivation. So two problems of the same source that both state their structure match by an equal
statement or an equal structure (``same_structure``), and by no other rule.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from corecode.problems import Problem

Name = TypeVar("Name", bound=str)

N = 8
"""Words of an n-gram."""
THRESHOLD = 0.7
"""Share of the shorter statement's n-grams, or of the smaller set's tests, that makes a match."""
FEWEST_NGRAMS, FEWEST_TESTS = 4, 3
"""Fewer in common prove nothing."""
TEST = "test"


@dataclass(frozen=True)
class Match:
    """A training problem that was found to be a test problem."""

    split: str
    problem: str
    reason: str
    test_problem: str
    overlap: float
    """Share of n-grams or tests; 1 for the rules of equality."""


@dataclass(frozen=True)
class Decontamination:
    """What was compared and what was removed."""

    compared: dict[str, int]
    """Problems of each training split before."""
    against: int
    """Test problems."""
    removed: tuple[Match, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data, with the convention that was used."""
        return {
            "ngram_words": N,
            "threshold": THRESHOLD,
            "compared": self.compared,
            "against": self.against,
            "removed": [asdict(match) for match in self.removed],
        }


def decontaminate(splits: Mapping[Name, Sequence[Problem]]) -> tuple[dict[Name, list[Problem]], Decontamination]:
    """The splits without the training problems that match a test problem.

    Args:
        splits: problems by split; ``test`` is kept as it is, all others belong to the training side.
    """
    tests = next(problems for split, problems in splits.items() if split == TEST)
    index = _Index(tests)
    kept: dict[Name, list[Problem]] = {}
    removed: list[Match] = []
    for split, problems in splits.items():
        kept[split] = []
        for problem in problems:
            match = None if split == TEST else index.match(problem)
            if match is None:
                kept[split].append(problem)
            else:
                removed.append(Match(split, problem.id, *match))
    compared: dict[str, int] = {split: len(problems) for split, problems in splits.items() if split != TEST}
    return kept, Decontamination(compared, len(tests), tuple(removed))


def words(text: str) -> list[str]:
    """Runs of letters and digits, in small letters."""
    return re.findall(r"\w+", text.lower())


def _ngrams(problem: Problem) -> set[str]:
    found = words(problem.statement)
    return {" ".join(found[i : i + N]) for i in range(len(found) - N + 1)}


def _tests(problem: Problem) -> set[str]:
    """The tests, so written that two data sets' ways of writing them agree."""
    if problem.kind == "stdio":
        return {f"{' '.join(test.input.split())}\0{' '.join(test.output.split())}" for test in problem.tests}
    if problem.kind == "call":
        return {repr((test.call, test.args, test.kwargs, test.expected)) for test in problem.tests}
    return {" ".join(words(test.code)) for test in problem.tests}


def _family(problem: Problem) -> str | None:
    """The procedural family of a problem; None for one that was written."""
    return problem.source if problem.structure else None


def _keys(problem: Problem) -> Iterator[tuple[str, str]]:
    """What the rules of equality compare, in their order."""
    yield "same_id", problem.id
    yield "same_statement", " ".join(problem.statement.split())
    yield "same_words", " ".join(words(problem.statement))
    if problem.structure:
        yield "same_structure", problem.structure


_Found = tuple[str, str, float]
"""Reason, id of the test problem, overlap."""


class _Index:
    """Test problems, to be looked up by everything that may match."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems
        self._equal: dict[tuple[str, str], list[Problem]] = defaultdict(list)
        for problem in problems:
            for key in _keys(problem):
                self._equal[key].append(problem)
        self._overlaps: dict[str | None, list[_Overlap]] = {}

    def match(self, problem: Problem) -> _Found | None:
        """The test problem that this one is; None where it is none of them."""
        family = _family(problem)
        for rule, key in _keys(problem):
            for other in self._equal.get((rule, key), ()):
                related = family is not None and family == _family(other)
                if rule in ("same_id", "same_statement") or (rule == "same_structure") == related:
                    return rule, other.id, 1.0
        return next((found for overlap in self._outside(family) if (found := overlap.match(problem))), None)

    def _outside(self, family: str | None) -> list[_Overlap]:
        """What overlaps are looked for in: the test problems outside of a procedural family."""
        if family not in self._overlaps:
            others = [problem for problem in self._problems if family is None or _family(problem) != family]
            found = [
                _Overlap("shared_ngrams", _ngrams, FEWEST_NGRAMS, others),
                _Overlap("same_tests", _tests, FEWEST_TESTS, others),
            ]
            self._overlaps[family] = found if others else []
        return self._overlaps[family]


class _Overlap:
    """Test problems by their items (n-grams, or tests): which share enough of them with a given problem."""

    def __init__(
        self, rule: str, items: Callable[[Problem], set[str]], fewest: int, problems: Sequence[Problem]
    ) -> None:
        self.rule = rule
        self.items = items
        self.fewest = fewest
        self.problems = problems
        self.sizes: list[int] = []
        self.holders: dict[str, list[int]] = defaultdict(list)
        for number, problem in enumerate(problems):
            found = items(problem)
            self.sizes.append(len(found))
            for item in found:
                self.holders[item].append(number)

    def match(self, problem: Problem) -> _Found | None:
        """The test problem with the largest overlap, where it is large enough."""
        found = self.items(problem)
        shared = Counter(number for item in found for number in self.holders.get(item, ()))
        best: _Found | None = None
        for number, count in sorted(shared.items()):
            smaller = min(len(found), self.sizes[number])
            share = count / smaller
            if count >= self.fewest and share >= THRESHOLD and (best is None or share > best[2]):
                best = self.rule, self.problems[number].id, share
        return best
