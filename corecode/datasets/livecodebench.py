"""LiveCodeBench (Jain et al. 2024) and the coding problems of LiveBench (White et al. 2024), which come from it.

- Private tests are plain JSON, or base64 of zlib of a pickle of JSON text. A pickle can run anything; the one read here
  refuses every class and every function, so that nothing but plain data can come out, and it bounds the size.
- Tests of type ``stdin`` are standard streams. Those of type ``functional`` call a method of ``Solution``: their input
  holds one JSON value a line for each argument, their output one JSON value.
- A completion task shows the beginning of the program (``partial_solution``); an answer may be the rest or the whole.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from typing import Any, NoReturn, cast

from corecode.datasets.converted import Converted, Origin, Refused, distinct, newlines, pairs, text
from corecode.problems import Problem, Test

Record = dict[str, Any]

TIME_LIMIT_S = 6.0
"""CPU seconds a test, as in the benchmark's own evaluator."""
MAX_BYTES = 1 << 30
"""Largest decoded size of one problem's private tests."""


class _Plain(pickle.Unpickler):
    """Reads plain data only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise Refused(f"its private tests ask for {module}.{name}: only plain data is read")

    def persistent_load(self, pid: object) -> NoReturn:
        raise Refused(f"its private tests refer to {pid!r} outside of them: only plain data is read")


def decode_private(encoded: str) -> list[dict[str, str]]:
    """The private tests of a record, as ``{"input", "output", "testtype"}``.

    Raises:
        Refused: when they are neither JSON nor an encoding of plain data, or too large.
    """
    if encoded.lstrip().startswith("["):
        return _cases(encoded, "private_test_cases")
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(encoded, validate=True), MAX_BYTES)
        if not unpacker.eof:
            raise Refused(f"its private tests are cut off, or decode to more than {MAX_BYTES} bytes")
        content = _Plain(io.BytesIO(data)).load()
    except Refused:
        raise
    except (binascii.Error, zlib.error) as error:
        raise Refused(f"its private tests cannot be decoded ({error})") from error
    except Exception as error:  # whatever a malformed pickle makes the unpickler raise
        raise Refused(f"its private tests are no pickle of plain data ({type(error).__name__})") from error
    return _cases(content, "private_test_cases")


def _cases(content: object, field: str) -> list[dict[str, str]]:
    try:
        cases = json.loads(content) if isinstance(content, str) else content
    except ValueError as error:
        raise Refused(f"the field {field!r} is not JSON ({error})") from error
    if not isinstance(cases, list):
        raise Refused(f"the field {field!r} holds no list of tests")
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
    original: Record = _mapping(record.get("original_json"))
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


def _mapping(value: object) -> Record:
    """A JSON object, given as such or as text; empty where there is none."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise Refused(f"a field is not JSON ({error})") from error
    return cast("Record", found) if isinstance(found, dict) else {}


def _problem(
    record: Record, *, name: str, source: str, statement: str, starter: str, metadata: object, partial: str = ""
) -> Converted:
    public = _cases(record.get("public_test_cases") or "[]", "public_test_cases")
    private = decode_private(record["private_test_cases"]) if record.get("private_test_cases") else []
    kinds = {case.get("testtype") for case in [*public, *private]}
    if len(kinds) > 1:
        raise Refused(f"it mixes tests of the types {sorted(map(str, kinds))}")
    functional = kinds == {"functional"}
    function = str(_mapping(metadata).get("func_name") or "").rpartition(".")[2] or None
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
            tests=tests,
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
