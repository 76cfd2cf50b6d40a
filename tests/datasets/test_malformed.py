"""Records and files that are not what they should be: one sentence with file, record and field, and never a crash."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import pickletools
import zlib
from pathlib import Path
from typing import Any

import pytest

from corecode.datasets import livecodebench, records
from corecode.datasets.converted import Refused
from corecode.datasets.livecodebench import decode_private
from corecode.datasets.reading import read
from corecode.errors import UserError

CASES = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
CHECK = "def check(candidate):\n    assert candidate(1) == 2\n"
PROMPT = "def up(x):\n    '''Add one.'''\n"
RECORDS: dict[str, dict[str, Any]] = {
    "corecode": {
        "id": "a",
        "statement": "Add one.",
        "tests": [{"input": "1", "output": "2"}],
        "setup": "",
        "flags": [],
    },
    "mbpp": {
        "task_id": 11,
        "text": "Add one.",
        "code": "def up(x): return x + 1",
        "test_list": ["assert up(1) == 2"],
        "challenge_test_list": ["assert up(3) == 4"],
        "test_setup_code": "import math",
    },
    "mbpp-sanitized": {
        "task_id": 11,
        "prompt": "Add one.",
        "code": "def up(x): return x + 1",
        "test_list": ["assert up(1) == 2"],
        "test_imports": ["import math"],
    },
    "evalplus": {
        "task_id": "HumanEval/0",
        "prompt": PROMPT,
        "entry_point": "up",
        "canonical_solution": "    return x + 1\n",
        "base_input": [[1]],
        "plus_input": [[2]],
        "atol": 0,
    },
    "humaneval": {
        "task_id": "HumanEval/0",
        "prompt": PROMPT,
        "entry_point": "up",
        "canonical_solution": "    return x + 1\n",
        "test": CHECK,
    },
    "gen-verse-function": {
        "question": "Add one.",
        "test_method": "function",
        "test_list": [CHECK + "\n\ncheck(up)"],
        "test_time_limit": 1,
    },
    "gen-verse": {
        "task_id": 3,
        "question": "Add one.",
        "test_input": ["1\n", "2\n"],
        "test_output": ["2\n", "3\n"],
        "example_input": ["1\n"],
        "example_output": ["2\n"],
        "test_time_limit": 1,
    },
    "code_contests": {
        "name": "1_A",
        "description": "Add one.",
        "public_tests": {"input": ["1\n"], "output": ["2\n"]},
        "private_tests": {"input": ["2\n"], "output": ["3\n"]},
        "generated_tests": {"input": [], "output": []},
        "solutions": {"language": [3], "solution": ["print(int(input()) + 1)"]},
        "source": 2,
        "time_limit": {"seconds": 2, "nanos": 0},
        "memory_limit_bytes": 256000000,
        "input_file": "",
    },
    "sandbox-sample": {
        "content": "Add one.",
        "labels": json.dumps({"name": "1_A", "source": "CODEFORCES"}),
        "test": json.dumps([{"input": {"stdin": "1"}, "output": {"stdout": "2"}}]),
    },
    "codeforces": {
        "contest_id": 1,
        "id": "1/A",
        "title": "Up",
        "description": "Add one.",
        "input_format": "A number.",
        "note": "None.",
        "interaction_format": "",
        "input_mode": "stdio",
        "official_tests": [{"input": "1\r\n", "output": "2\r\n"}],
        "examples": [{"input": "1", "output": "2"}],
        "generated_checker": "print(1)",
        "time_limit": 1.5,
        "memory_limit": 256,
    },
    "livebench": {
        "question_id": "q",
        "turns": ["Add one."],
        "original_json": {"question_content": "Add one.", "starter_code": ""},
        "partial_solution": "",
        "public_test_cases": json.dumps(CASES),
        "private_test_cases": json.dumps(CASES),
    },
    "livecodebench": {
        "question_id": "q",
        "question_content": "Add one.",
        "starter_code": "",
        "metadata": "{}",
        "public_test_cases": json.dumps(CASES),
        "private_test_cases": json.dumps(CASES),
    },
}
"""A small record of each format with every field that is read."""
FREE = {("codeforces", "contest_id")}
"""Fields that tell a format, and that nothing reads."""
WRONG: dict[str, object] = {"half a character": "x\ud800", "list of a number": [7], "number": 7.5, "null": None}


def said(path: Path, *lines: dict[str, Any]) -> str:
    """What is said of the records of a file: each refusal, or the error."""
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    try:
        _, summary = read(path)
    except UserError as error:
        return str(error)
    return "\n".join(f"{issue.problem}: {issue.detail}" for issue in summary.refused)


@pytest.mark.parametrize("name", RECORDS)
def test_the_small_records_are_good(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.jsonl"
    assert said(path, RECORDS[name]) == ""
    assert read(path)[1].formats == {name: 1}


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("name", RECORDS)
def test_a_field_of_another_kind_is_named_with_file_and_line(tmp_path: Path, name: str, value: str) -> None:
    """A list of text with a text in its place would otherwise become one test a character."""
    path = tmp_path / "data.jsonl"
    for field in RECORDS[name]:
        found = said(path, {**RECORDS[name], field: WRONG[value]})
        if (name, field) in FREE or (not found and value in ("null", "number")):
            continue  # empty in some sets, or a number
        assert field in found or value == "null", (field, found)
        assert f"{path}, line 1: " in found
        assert "\n" not in found


@pytest.mark.parametrize("name", RECORDS)
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data.jsonl"
    for field in RECORDS[name]:
        rest = {key: value for key, value in RECORDS[name].items() if key != field}
        found = said(path, rest)
        assert not found or field in found or "no known format" in found, (field, found)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("mbpp", {"test_list": [], "challenge_test_list": None}, "test_list: it has no tests"),
        ("mbpp", {"test_list": "assert up(1) == 2"}, "test_list: Input should be a valid list, found text"),
        ("mbpp", {"text": " \n"}, "text: is empty"),
        ("mbpp", {"task_id": "eleven"}, "task_id: Input should be a valid integer"),
        ("gen-verse", {"test_output": ["2\n"]}, "test_input and test_output: 2 inputs and 1 outputs"),
        ("gen-verse", {"test_input": ["1", None]}, "test_input.1: Input should be a valid string, found null"),
        (
            "gen-verse",
            {"test_input": "12", "test_output": "23"},
            "test_input: Input should be a valid list, found text",
        ),
        ("gen-verse", {"test_time_limit": -1}, "test_time_limit: Input should be greater than or equal to 0"),
        ("code_contests", {"source": -1}, "source: Input should be greater than or equal to 0"),
        ("code_contests", {"public_tests": {"input": ["1"], "output": []}}, "public_tests: 1 inputs and 0 outputs"),
        ("code_contests", {"private_tests": {"input": ["1"]}}, "private_tests.output: Field required"),
        ("code_contests", {"solutions": {"language": [3], "solution": []}}, "solutions: 1 languages and 0 programs"),
        ("codeforces", {"official_tests": []}, "official_tests: it has no tests"),
        ("codeforces", {"official_tests": [{"input": "1"}]}, "official_tests.0.output: Field required"),
        ("humaneval", {"canonical_solution": "    return ("}, "canonical_solution: the program does not parse"),
        (
            "humaneval",
            {"entry_point": "down"},
            "prompt: it is no beginning of a program that defines entry_point 'down'",
        ),
        ("evalplus", {"prompt": "def up(x:"}, "prompt: it is no beginning of a program"),
        ("evalplus", {"base_input": [], "plus_input": []}, "base_input and plus_input: it has no inputs"),
        ("livecodebench", {"public_test_cases": "[{}]"}, "public_test_cases.0.input: Field required"),
        ("livecodebench", {"public_test_cases": "[" * 100_000}, "the field 'public_test_cases' is not JSON"),
        ("livecodebench", {"metadata": "[]"}, "the field 'metadata' has to hold an object, found a list"),
        ("livecodebench", {"question_id": None}, "question_id: is empty"),
        ("sandbox-sample", {"test": '[{"input": {}}]'}, "test.0.input.stdin: Field required"),
        ("corecode", {"statement": ""}, "statement: is empty"),
        ("corecode", {"tests": [{"input": "\udc00"}]}, "tests.0.input: holds half of a surrogate pair"),
    ],
)
def test_what_is_said(tmp_path: Path, name: str, change: dict[str, Any], sentence: str) -> None:
    found = said(tmp_path / "data.jsonl", {**RECORDS[name], **change})
    assert sentence in found
    assert f"{tmp_path / 'data.jsonl'}, line 1: " in found


def test_one_bad_record_does_not_cost_the_others(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    found = said(path, RECORDS["mbpp"], {**RECORDS["mbpp"], "task_id": 12, "test_list": None})
    assert found == f"{path}, line 2: test_list: Input should be a valid list, found null"
    assert [problem.id for problem in read(path, split="test")[0]] == ["mbpp/11"]


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    deep = "(" * 5000 + ")" * 5000
    for change in ({"canonical_solution": f"    return {deep}\n"}, {"test": deep}, {"prompt": deep}):
        assert said(tmp_path / "data.jsonl", {**RECORDS["humaneval"], **change})
    path = tmp_path / "deep.jsonl"
    path.write_text("[" * 200_000)
    with pytest.raises(UserError, match=r"deep\.jsonl, line 1: this is not JSON"):
        read(path)


# Files.


def test_a_byte_order_mark_and_other_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    line, other = json.dumps(RECORDS["mbpp"]), RECORDS["mbpp"] | {"task_id": 12, "text": "Once more."}
    path.write_bytes(b"\xef\xbb\xbf" + f"{line}\r\n\r\n{json.dumps(other)}".encode())
    assert [problem.id for problem in read(path)[0]] == ["mbpp/11", "mbpp/12"]
    whole = tmp_path / "data.json"
    whole.write_bytes(f"[{line}]".encode("utf-8-sig"))
    assert len(read(whole)[0]) == 1


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.jsonl", b"\xff\xfe{\x00}\x00", "line 1: this is not UTF-8 text"),
        ("a.jsonl", b"", "holds no problem (0 records)"),
        ("a.jsonl", b"\x00\x00", "line 1: this is not JSON"),
        ("a.jsonl", b"[{}]\n", "line 1: a record has to be a JSON object, found a list"),
        ("a.json", b'{"a": 1}\n{"a": 2}', "this is not JSON"),
        ("a.json", b"{}", "has to hold one array of records"),
        ("a.json", b"[7]", "record 1: a record has to be a JSON object, found a number"),
        ("a.jsonl.gz", b"no gzip", "this is not a whole gzip file"),
        ("a.json.gz", gzip.compress(b"[" + b" " * 100_000)[:-20], "this is not a whole gzip file"),
        ("a.jsonl.gz", gzip.compress(json.dumps(RECORDS["mbpp"]).encode())[:-9], "this is not a whole gzip file"),
        ("a.parquet", b"PAR1 nothing PAR1", "this is not a Parquet file that can be read"),
    ],
)
def test_files_that_are_no_such_file(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        read(path)
    assert sentence in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_gzip_file_with_a_broken_middle(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(b"\n".join(json.dumps({"n": n, "s": "x" * n}).encode() for n in range(500))))
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "a.jsonl.gz").write_bytes(bytes(data))
    with pytest.raises(UserError):
        list(records.records_of(tmp_path / "a.jsonl.gz"))


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.json.gz"])
def test_a_file_that_unpacks_to_more_than_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(records, "MAX_BYTES", 1_000_000)
    (tmp_path / name).write_bytes(gzip.compress(b" " * 50_000_000))
    with pytest.raises(UserError, match="this is larger than"):
        read(tmp_path / name)


# The private tests of LiveCodeBench.


def packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_one_text_is_read_without_unpickling(protocol: int, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.dumps([*CASES, {**CASES[0], "input": "ü👩\n" * 40_000}])
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "Unpickler", None)
    assert decode_private(packed(pickle.dumps(content, protocol))) == json.loads(content)


def test_what_a_pickle_could_do_beside_holding_a_text_is_refused() -> None:
    """The memo index of the second makes Python's unpickler ask for 64 GB; the third would call a function."""
    text = b"X" + (2).to_bytes(4, "little") + b"[]"
    attacks = {
        "REDUCE": b"cos\nsystem\n(S'true'\ntR.",
        "LONG_BINPUT": b"\x80\x02]r\xff\xff\xff\xff.",
        "GLOBAL": b"\x80\x02cbuiltins\neval\n.",
        "BYTEARRAY8": b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"x.",
        "PERSID": b"Pelsewhere\n.",
        "nested": b"\x80\x04" + b"]" * 100_000 + b".",
        "two": text + text + b".",
        "none": b"N.",
        "cut": text[:-1],
        "empty": b"",
    }
    for data in attacks.values():
        with pytest.raises(Refused, match="private_test_cases: "):
            decode_private(packed(data))
    assert "LONG_BINPUT" in {opcode.name for opcode, _, _ in pickletools.genops(attacks["LONG_BINPUT"])}


def test_a_bomb_of_private_tests_is_refused_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livecodebench, "MAX_BYTES", 1_000_000)
    layers = zlib.compress(zlib.compress(b"0" * 200_000_000))
    for data in (packed(b"0" * 50_000_000), base64.b64encode(layers).decode()):
        with pytest.raises(Refused, match="private_test_cases: "):
            decode_private(data)


def test_tests_in_an_encoding_inside_the_encoding_are_not_followed() -> None:
    inner = packed(pickle.dumps(json.dumps(CASES)))
    with pytest.raises(Refused, match="'private_test_cases' is not JSON"):
        decode_private(packed(pickle.dumps(inner)))
