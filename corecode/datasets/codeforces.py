"""open-r1/codeforces: problems of Codeforces with official tests, limits, and checkers where an answer is not unique.

- Tests end their lines with CRLF; they become line feeds. Examples carry no last line end.
- ``generated_checker`` is a program ``checker.py INPUT ANSWER OUTPUT`` that prints 0 or 1, as the sandbox expects.
- Interactive problems, and those that read or write a file, cannot be judged through the standard streams: refused.
- Limits are the problem's own: ``time_limit`` in seconds, ``memory_limit`` in MB.

Gen-Verse/CodeForces has another form: the lists that :mod:`corecode.datasets.codecontests` reads.
"""

from __future__ import annotations

from typing import Any

from corecode.datasets.codecontests import MEMORY_LIMIT_MB, TIME_LIMIT_S
from corecode.datasets.converted import Converted, Origin, Refused, distinct, newlines, pairs, some, text
from corecode.problems import Problem, Test

Record = dict[str, Any]

_PARTS = (("Input", "input_format"), ("Output", "output_format"), ("Note", "note"))


def convert(record: Record, origin: Origin) -> Converted:
    """A record of open-r1/codeforces."""
    if record.get("interaction_format"):
        raise Refused("it is interactive: it needs a program to talk to")
    if (record.get("input_mode") or "stdio") != "stdio":
        raise Refused(f"its input mode is {record['input_mode']!r}, not the standard streams")
    tests, notes = distinct(_tests(record.get("official_tests")))
    if record.get("official_tests_complete") is False:
        notes = (*notes, "the official tests are not complete")
    checker = record.get("generated_checker")
    return Converted(
        Problem(
            id=f"codeforces/{text(record, 'id')}",
            statement=_statement(record),
            tests=some(tests, "official_tests"),
            examples=_tests(record.get("examples")),
            source="codeforces",
            checker=newlines(checker) if checker else None,
            time_limit_s=float(record.get("time_limit") or TIME_LIMIT_S),
            memory_limit_mb=int(record.get("memory_limit") or MEMORY_LIMIT_MB),
        ),
        notes,
    )


def _tests(cases: list[dict[str, str]] | None) -> list[Test]:
    return pairs([case["input"] for case in cases or []], [case["output"] for case in cases or []])


def _statement(record: Record) -> str:
    title = str(record.get("title") or "").strip()
    parts = [title, text(record, "description").strip()]
    parts += [f"{name}\n{newlines(record[field]).strip()}" for name, field in _PARTS if record.get(field)]
    return "\n\n".join(part for part in parts if part)
