"""Cyclomatic complexity of Python programs (McCabe 1976), as radon counts it: a measure of maintainability."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

MAX_CHARACTERS = 20_000
"""Longer texts are counted as unparsable: they are degenerate output, and parsing them only costs time."""


@dataclass(frozen=True)
class Complexity:
    """Cyclomatic complexity over programs. Mean and median are None when none parses."""

    parsed: int
    unparsable: int
    mean: float | None
    median: float | None


def program_complexity(source: str) -> int | None:
    """1 + the decisions in the module and all functions (+ 1 a class, as radon counts); None when it does not parse."""
    from radon.visitors import ComplexityVisitor

    if len(source) > MAX_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a model's odd escape sequence is no business of the reader
            return int(ComplexityVisitor.from_code(source).total_complexity)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class ComplexityCounter:
    """Summarises programs; equal texts, frequent at low temperature, are parsed once."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def of(self, source: str) -> int | None:
        """Complexity of one program, remembered."""
        if source not in self._known:
            self._known[source] = program_complexity(source)
        return self._known[source]

    def summary(self, sources: Iterable[str]) -> Complexity:
        """Over all programs given, repeats included."""
        found = [self.of(source) for source in sources]
        parsed = [value for value in found if value is not None]
        return Complexity(
            parsed=len(parsed),
            unparsable=len(found) - len(parsed),
            mean=statistics.fmean(parsed) if parsed else None,
            median=float(statistics.median(parsed)) if parsed else None,
        )
