"""LiveCodeBench (Jain et al. 2024) and the coding problems of LiveBench (White et al. 2024), which come from it.

- Private tests are plain JSON, or base64 of zlib of a pickle of JSON text. Unpickling can run anything and can ask for
  any amount of memory, so nothing is unpickled: the text is taken out of the pickle's opcodes, and its size is bounded.
- Tests of type ``stdin`` are standard streams. Those of type ``functional`` call a method of ``Solution``: their input
  holds one JSON value a line for each argument, their output one JSON value.
- A completion task shows the beginning of the program (``partial_solution``); an answer may be the rest or the whole.
"""

from __future__ import annotations

import base64
import json
import pickletools
import struct
import zlib
from typing import Any, cast

from corecode.datasets import shapes
from corecode.datasets.converted import Converted, Origin, Refused, distinct, newlines, pairs, some, text
from corecode.lines import kind_of
from corecode.problems import Problem, Test

Record = dict[str, Any]

PRIVATE = "private_test_cases"

TIME_LIMIT_S = 6.0
"""CPU seconds a test, as in the benchmark's own evaluator."""
MAX_BYTES = 1 << 30
"""Largest decoded size of one problem's private tests."""


_AROUND_TEXT = frozenset({"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"})
"""What a pickle of one text does beside holding it."""


def decode_private(encoded: str | list[object]) -> list[dict[str, str]]:
    """The private tests of a record, as ``{"input", "output", "testtype"}``: given as such, as JSON, or encoded.

    Raises:
        Refused: when they are neither JSON nor an encoding of plain data, or too large.
    """
    if not isinstance(encoded, str) or encoded.lstrip().startswith("["):
        return _cases(encoded, PRIVATE)
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(encoded, validate=True), MAX_BYTES)
        if not unpacker.eof:
            raise Refused(f"{PRIVATE}: they are cut off, or decode to more than {MAX_BYTES} bytes")
    except (ValueError, zlib.error) as error:
        raise Refused(f"{PRIVATE}: they cannot be decoded ({error})") from error
    return _cases(_pickled_text(data), PRIVATE)


def _pickled_text(data: bytes) -> str:
    """The text that a pickle holds, read from its opcodes: nothing is unpickled."""
    found: list[str] = []
    try:
        for opcode, value, _ in pickletools.genops(data):
            if isinstance(value, str) and "UNICODE" in opcode.name:
                found.append(value)
            elif opcode.name not in _AROUND_TEXT:
                raise Refused(f"{PRIVATE}: only a pickle of one text is read, this one does {opcode.name}")
    except (ValueError, struct.error) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"{PRIVATE}: they hold no pickle ({error})") from error
    if len(found) != 1:
        raise Refused(f"{PRIVATE}: only a pickle of one text is read, this one holds {len(found)}")
    return found[0]


def _cases(content: object, field: str) -> list[dict[str, str]]:
    try:
        cases = json.loads(content) if isinstance(content, str) else content
    except (ValueError, RecursionError) as error:
        raise Refused(f"the field {field!r} is not JSON ({error})") from error
    shapes.check(shapes.CASES, cases, field)
    return cast("list[dict[str, str]]", cases)


def convert(record: Record, origin: Origin) -> Converted:
    """A record of LiveCodeBench."""
    return _problem(
        record,
        name=f"livecodebench/{record['question_id']}",
        source="livecodebench",
        statement=text(record, "question_content").strip(),
        starter=newlines(record.get("starter_code") or ""),
        metadata=record.get("metadata"),
    )


def convert_livebench(record: Record, origin: Origin) -> Converted:
    """A record of LiveBench's category *coding*."""
    original: Record = _mapping(record.get("original_json"), "original_json")
    content = original.get("question_content")
    return _problem(
        record,
        name=f"livebench/{record['question_id']}",
        source=f"livebench/{record.get('task', 'coding')}",
        statement=newlines(content or record["turns"][0]).strip(),
        starter=newlines(original.get("starter_code") or ""),
        metadata=original.get("metadata"),
        partial=newlines(record.get("partial_solution") or ""),
    )


def _mapping(value: object, field: str) -> Record:
    """A JSON object, given as such or as text; empty where there is none."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise Refused(f"the field {field!r} is not JSON ({error})") from error
    if not isinstance(found, dict | None):
        raise Refused(f"the field {field!r} has to hold an object, found {kind_of(found)}")
    return cast("Record", found or {})


def _problem(
    record: Record, *, name: str, source: str, statement: str, starter: str, metadata: object, partial: str = ""
) -> Converted:
    public = _cases(record.get("public_test_cases") or "[]", "public_test_cases")
    private = decode_private(record["private_test_cases"]) if record.get("private_test_cases") else []
    kinds = {case.get("testtype") for case in [*public, *private]}
    if len(kinds) > 1:
        raise Refused(f"it mixes tests of the types {sorted(map(str, kinds))}")
    functional = kinds == {"functional"}
    function = str(_mapping(metadata, "metadata").get("func_name") or "").rpartition(".")[2] or None
    if functional and function is None:
        raise Refused("its tests call a function, but its metadata name none")
    examples = _tests(public, function if functional else None)
    tests, notes = distinct([*examples, *_tests(private, function if functional else None)])
    if partial:
        statement += f"\n\nThe program begins like this; write what follows:\n```python\n{partial}\n```"
    elif starter.strip():
        statement += f"\n\nUse this beginning:\n```python\n{starter.rstrip()}\n```"
    return Converted(
        Problem(
            id=name,
            statement=statement,
            kind="call" if functional else "stdio",
            tests=some(tests, f"public_test_cases and {PRIVATE}"),
            examples=examples,
            source=source,
            entry_point=function if functional else None,
            partial=partial,
            time_limit_s=TIME_LIMIT_S,
        ),
        notes,
    )


def _tests(cases: list[dict[str, str]], function: str | None) -> list[Test]:
    if function is None:
        return pairs([case["input"] for case in cases], [case["output"] for case in cases])
    return [_call(case, function) for case in cases]


def _call(case: dict[str, str], function: str) -> Test:
    try:
        args = [json.loads(line) for line in case["input"].split("\n") if line.strip()]
        return Test(call=function, args=args, expected=json.loads(case["output"]))
    except ValueError as error:
        raise Refused(f"a test of {function} is not JSON, one value a line ({error})") from error
