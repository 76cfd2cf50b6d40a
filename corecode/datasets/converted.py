"""What a reader makes of a raw record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corecode.problems import Problem, Reference, Test

MAX_REFERENCES = 3
"""Reference solutions that are kept of one problem; some data sets hold hundreds."""


class Refused(ValueError):
    """A record that no problem can be made of; the message is the reason."""


@dataclass(frozen=True)
class Origin:
    """Where a record stands."""

    name: str
    """Name of the set: of the file without its ending, or of the data set on the hub."""
    number: int
    """Position among the records of its file, from 0."""

    def id_of(self, own: object) -> str:
        """An id for the problem: the record's own, or its position."""
        return f"{self.name}/{self.number if own in (None, '') else own}"


@dataclass(frozen=True)
class Converted:
    """A problem, and what had to be put right to make it."""

    problem: Problem
    notes: tuple[str, ...] = ()


def newlines(text: str) -> str:
    """``text`` with line feeds alone, whatever ended its lines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def pairs(inputs: Iterable[str], outputs: Iterable[str], fields: str = "its tests") -> list[Test]:
    """Tests from parallel lists, which stand in ``fields``.

    Raises:
        Refused: when one list is longer.
    """
    given, expected = list(inputs), list(outputs)
    if len(given) != len(expected):
        raise Refused(f"{fields}: {len(given)} inputs and {len(expected)} outputs")
    return [Test(input=newlines(i), output=newlines(o)) for i, o in zip(given, expected, strict=True)]


def distinct(tests: Iterable[Test]) -> tuple[list[Test], tuple[str, ...]]:
    """Tests without repetitions, which would count twice in a pass ratio; and a note where there were some."""
    seen: dict[str, Test] = {}
    total = 0
    for test in tests:
        total += 1
        seen.setdefault(test.model_dump_json(), test)
    repeated = total - len(seen)
    return list(seen.values()), (f"{repeated} repeated tests dropped",) if repeated else ()


def some(tests: list[Test], fields: str) -> list[Test]:
    """The tests, which stand in ``fields``.

    Raises:
        Refused: when there are none.
    """
    if not tests:
        raise Refused(f"{fields}: it has no tests")
    return tests


def references(programs: Iterable[str]) -> list[Reference]:
    """The first few distinct programs."""
    return [Reference(program=p) for p in list(dict.fromkeys(newlines(p) for p in programs))[:MAX_REFERENCES]]


def text(record: Mapping[str, Any], field: str) -> str:
    """A field that has to hold text; line ends become line feeds.

    Raises:
        Refused: when it is missing or something else.
    """
    value = record.get(field)
    if not isinstance(value, str):
        raise Refused(f"the field {field!r} has to hold text, found {type(value).__name__}")
    return newlines(value)
