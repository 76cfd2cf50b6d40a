"""CodeContests (Li et al. 2022) in three shapes, and the function mode that one of them shares.

- *Gen-Verse/CURE lists*: ``question``, ``test_input`` and ``test_output`` (lists), ``example_input`` and
  ``example_output``, ``test_time_limit``. With ``test_method`` "function" there is a ``test_list`` instead, whose only
  entry is a program ``def check(candidate): ...`` with its call. That gives all or nothing, and some calls name another
  function than the asserts do, so that a right answer fails with NameError. Each assert becomes a test that calls the
  function by its own name. The field ``prefix`` opens a fence that nothing closes; it is not used.
- *DeepMind's columns*: tests as ``{"input": [...], "output": [...]}`` in three fields, solutions with the number of
  their language.
- *A sandbox's samples*: ``content``, with ``labels`` and ``test`` as JSON text inside JSON.

Inputs may lack their last line end and outputs may be padded with blanks; tokens are compared, so neither matters.
"""

from __future__ import annotations

import json
from typing import Any, cast

from corecode.datasets import shapes
from corecode.datasets.asserts import entry_point, single_asserts, used_names
from corecode.datasets.converted import Converted, Origin, Refused, distinct, newlines, pairs, references, some, text
from corecode.problems import Problem, Test

Record = dict[str, Any]

TIME_LIMIT_S = 2.0
"""CPU seconds a test where the data state none."""
MEMORY_LIMIT_MB = 256
_PYTHON3 = 3
_SOURCES = ("unknown", "codechef", "codeforces", "hackerearth", "codejam", "atcoder", "aizu")


def convert_lists(record: Record, origin: Origin) -> Converted:
    """A record of the Gen-Verse/CURE format."""
    if record.get("test_method", "stdio") == "function":
        return _function(record, origin)
    tests, notes = distinct(
        pairs(record.get("test_input") or [], record.get("test_output") or [], "test_input and test_output")
    )
    return Converted(
        Problem(
            id=origin.id_of(record.get("task_id")),
            statement=text(record, "question"),
            tests=some(tests, "test_input"),
            examples=pairs(
                record.get("example_input") or [],
                record.get("example_output") or [],
                "example_input and example_output",
            ),
            source=origin.name,
            time_limit_s=float(record.get("test_time_limit") or TIME_LIMIT_S),
            memory_limit_mb=MEMORY_LIMIT_MB,
        ),
        notes,
    )


def _function(record: Record, origin: Origin) -> Converted:
    tests: list[Test] = []
    notes: list[str] = []
    for code in (newlines(one) for one in record.get("test_list") or []):
        found = single_asserts(code)
        if found is None:
            tests.append(Test(code=code))
            continue
        asserts, given = found
        tests += asserts
        if given is not None and not any(given in used_names(test.code) for test in asserts):
            notes.append(f"check() got the function {given!r}, which no assert calls")
    return Converted(
        Problem(
            id=origin.id_of(record.get("task_id")),
            statement=text(record, "question"),
            kind="asserts",
            tests=some(tests, "test_list"),
            source=origin.name,
            entry_point=entry_point([test.code for test in tests], None),
            time_limit_s=float(record.get("test_time_limit") or TIME_LIMIT_S),
        ),
        tuple(notes),
    )


def convert_columns(record: Record, origin: Origin) -> Converted:
    """A record of deepmind/code_contests."""
    if record.get("input_file") or record.get("output_file"):
        raise Refused("it reads or writes a named file instead of the standard streams")
    public, private, generated = (
        pairs((record.get(field) or {}).get("input") or [], (record.get(field) or {}).get("output") or [], field)
        for field in ("public_tests", "private_tests", "generated_tests")
    )
    tests, notes = distinct([*public, *private, *generated])
    solutions: dict[str, Any] = record.get("solutions") or {"language": [], "solution": []}
    languages, programs = solutions["language"], solutions["solution"]
    if len(languages) != len(programs):
        raise Refused(f"solutions: {len(languages)} languages and {len(programs)} programs")
    python = [program for language, program in zip(languages, programs, strict=True) if language == _PYTHON3]
    number = int(record.get("source") or 0)
    return Converted(
        Problem(
            id=f"code_contests/{text(record, 'name')}",
            statement=text(record, "description"),
            tests=some(tests, "public_tests, private_tests and generated_tests"),
            examples=public,
            source=f"code_contests/{_SOURCES[number] if number < len(_SOURCES) else number}",
            time_limit_s=_seconds(record.get("time_limit")),
            memory_limit_mb=int(record.get("memory_limit_bytes") or 0) // 2**20 or MEMORY_LIMIT_MB,
            references=references(python),
        ),
        notes,
    )


def _seconds(limit: object) -> float:
    """``{"seconds": 2, "nanos": 500000000}`` as a number; null means that nothing is stated."""
    parts = cast("dict[str, int]", limit or {})
    return int(parts.get("seconds") or 0) + int(parts.get("nanos") or 0) / 1e9 or TIME_LIMIT_S


def convert_sample(record: Record, origin: Origin) -> Converted:
    """A record whose ``labels`` and ``test`` are JSON text."""
    labels, cases = _json(record, "labels"), _json(record, "test")
    shapes.check(shapes.SAMPLE_CASES, cases, "test")
    shapes.check(shapes.LABELS, labels, "labels")
    tests, notes = distinct(pairs([c["input"]["stdin"] for c in cases], [c["output"]["stdout"] for c in cases]))
    name = labels.get("name") or origin.number
    return Converted(
        Problem(
            id=f"code_contests/{name}",
            statement=text(record, "content"),
            tests=some(tests, "test"),
            source=f"code_contests/{str(labels.get('source', 'unknown')).lower()}",
            time_limit_s=TIME_LIMIT_S,
            memory_limit_mb=MEMORY_LIMIT_MB,
        ),
        notes,
    )


def _json(record: Record, field: str) -> Any:
    value = record[field]
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise Refused(f"the field {field!r} is not JSON ({error})") from error
