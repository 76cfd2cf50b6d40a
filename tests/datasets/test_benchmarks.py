"""Real benchmark data: how many records a file holds, what each quirk of it becomes, and what is refused or flagged."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corecode.datasets import ImportSummary, read
from corecode.datasets.validate import static_flags
from corecode.errors import UserError
from corecode.execution import Executor
from corecode.problems import Problem
from sandbox import Sandbox, Verdict, open_sandbox

Shared = Callable[[str], Path]

COUNTS = {
    "mbpp/mbpp.jsonl": 974,
    "mbpp/sanitized-mbpp.json": 427,
    "mbpp/mbppplus_slice.jsonl.gz": 399,
    "mbpp/judge_validation_mbpp.jsonl": 26,
    "humaneval/HumanEvalPlus-Mini.jsonl.gz": 164,
    "codecontests/derived_cure_format.json": 20,
    "genverse_mbpp/MBPP_train.json": 472,
    "sft_plan_code/mbpp_train_plan_code.jsonl": 99,
    "derived_shapes/cure_shape.json": 8,
    "derived_shapes/code_contests_deepmind_shape.jsonl": 5,
    "derived_shapes/codeforces_openr1_shape.jsonl": 5,
    "derived_shapes/livecodebench_shape.jsonl": 3,
    "derived_shapes/livebench_shape.jsonl": 5,
}
"""Records of each file, as its description states them."""

_READ: dict[Path, tuple[dict[str, Problem], ImportSummary]] = {}


def loaded(path: Path) -> tuple[dict[str, Problem], ImportSummary]:
    """The problems of a file by id, and its summary; each file is read once."""
    if path not in _READ:
        problems, summary = read(path)
        _READ[path] = ({problem.id: problem for problem in problems}, summary)
    return _READ[path]


def issues(summary: ImportSummary, reason: str) -> dict[str, str]:
    found = [*summary.refused, *summary.flagged, *summary.notes]
    return {issue.problem: issue.detail for issue in found if issue.reason == reason}


@pytest.mark.parametrize("name", COUNTS)
def test_every_record_becomes_a_problem(shared: Shared, name: str) -> None:
    problems, summary = loaded(shared(f"data/{name}"))
    assert (summary.records, summary.problems, len(problems)) == (COUNTS[name],) * 3
    assert summary.refused == ()
    assert len(summary.digest) == 64
    for problem in problems.values():
        texts = [problem.statement, problem.setup, *(reference.program for reference in problem.references)]
        texts += [text for test in problem.tests for text in (test.input, test.output, test.code)]
        assert not any("\r" in text for text in texts), problem.id


# MBPP.


def test_mbpp_statements_name_the_function_and_hide_the_other_asserts(shared: Shared) -> None:
    full, _ = loaded(shared("data/mbpp/mbpp.jsonl"))
    sanitized, _ = loaded(shared("data/mbpp/sanitized-mbpp.json"))
    first = full["mbpp/2"]
    assert first.statement == (
        "Write a function to find the similar elements from the given two tuple lists.\n"
        "Your code should pass the test:\nassert similar_elements((3, 4, 5, 6),(5, 7, 4, 10)) == (4, 5)"
    )
    assert (first.entry_point, first.kind, len(first.tests)) == ("similar_elements", "asserts", 3)
    # The two sets differ in wording and asserts; neither is mixed with the other.
    other = sanitized["mbpp-sanitized/2"]
    assert "shared elements" in other.statement
    assert other.tests[0].code.startswith("assert set(similar_elements(")
    assert all(problem.entry_point for problem in [*full.values(), *sanitized.values()])


def test_mbpp_setup_and_challenge_asserts_belong_to_the_problem(shared: Shared) -> None:
    problems, _ = loaded(shared("data/mbpp/mbpp.jsonl"))
    assert {name for name, problem in problems.items() if problem.setup} == {"mbpp/367", "mbpp/927"}
    assert "root = Node(1)" in problems["mbpp/367"].setup
    assert "root = Node(1)" in problems["mbpp/367"].statement, "nothing else says that the program needs this class"
    assert sum(len(problem.tests) > 3 for problem in problems.values()) == 11
    sanitized, _ = loaded(shared("data/mbpp/sanitized-mbpp.json"))
    assert sum("import math" in problem.setup for problem in sanitized.values()) == 13
    assert problems["mbpp/123"].time_limit_s > 7


def test_mbpp_has_the_splits_of_its_authors(shared: Shared) -> None:
    for name, sizes in (("mbpp.jsonl", (10, 500, 90, 374)), ("sanitized-mbpp.json", (7, 257, 43, 120))):
        path = shared(f"data/mbpp/{name}")
        found = [read(path, split=split)[1].problems for split in ("prompt", "test", "validation", "train")]
        assert tuple(found) == sizes
    with pytest.raises(UserError, match="no problem of the split 'dev'"):
        read(shared("data/mbpp/mbpp.jsonl"), split="dev")


def test_the_same_task_twice_is_flagged_by_name(shared: Shared) -> None:
    _, summary = loaded(shared("data/mbpp/mbpp.jsonl"))
    assert issues(summary, "duplicate_statement") == {"mbpp/347": "the statement of mbpp/76"}


def test_plans_in_free_text_are_not_taken_for_thoughts(shared: Shared) -> None:
    problems, _ = loaded(shared("data/sft_plan_code/mbpp_train_plan_code.jsonl"))
    assert all(problem.references[0].thought is None for problem in problems.values())
    assert all("```" not in problem.references[0].program for problem in problems.values())


# Gen-Verse's function mode.


def test_a_check_of_another_function_is_put_right(shared: Shared) -> None:
    problems, summary = loaded(shared("data/genverse_mbpp/MBPP_train.json"))
    repaired = [issue.problem for issue in summary.notes]
    assert len(repaired) == 19
    assert "MBPP_train/11" in repaired
    problem = problems["MBPP_train/11"]
    assert problem.entry_point == "count_element_freq"
    assert [test.code[:26] for test in problem.tests] == ["assert count_element_freq("] * 3
    assert problem.time_limit_s == 1.0
    assert not any("```" in problem.statement for problem in problems.values()), "the prefix is no statement"


# CodeContests.


def test_codecontests_flags_the_problems_with_several_answers(shared: Shared) -> None:
    _, summary = loaded(shared("data/codecontests/derived_cure_format.json"))
    several = {name.rpartition("/")[2] for name in issues(summary, "several_answers")}
    assert several == {"4", "7", "10", "13", "15"}
    assert {issue.problem: issue.reason for issue in summary.notes} == {
        "derived_cure_format/4": "2 repeated tests dropped"
    }


def test_codecontests_keeps_inputs_without_a_line_end_and_padded_outputs(shared: Shared) -> None:
    problems, _ = loaded(shared("data/codecontests/derived_cure_format.json"))
    assert not any(test.input.endswith("\n") for test in problems["derived_cure_format/2"].tests)
    assert problems["derived_cure_format/9"].tests[0].output.startswith("      ")
    assert any("1000000000000000000" in test.input for test in problems["derived_cure_format/19"].tests)
    assert problems["derived_cure_format/3"].time_limit_s == 1.0


def test_deepmind_columns(shared: Shared) -> None:
    problems, summary = loaded(shared("data/derived_shapes/code_contests_deepmind_shape.jsonl"))
    shirts = problems["code_contests/1000_A. Codehorses T-shirts"]
    assert (shirts.source, shirts.time_limit_s, shirts.memory_limit_mb) == ("code_contests/codeforces", 2.0, 244)
    assert len(shirts.examples) == 3
    assert [reference.program[:4] for reference in shirts.references] == ["from", "impo", "impo"]
    jump = problems["code_contests/digjump"]
    assert (jump.source, jump.time_limit_s, jump.memory_limit_mb) == ("code_contests/codechef", 2.0, 256)
    assert list(issues(summary, "several_answers")) == ["code_contests/1025_B. Weakened Common Divisor"]


def test_json_inside_json(tmp_path: Path) -> None:
    """The raw form of the slice: labels and tests are texts, the last line has no end."""
    cases = [{"input": {"stdin": "1 2"}, "output": {"stdout": "3\n"}}]
    labels = {"difficulty": "A", "name": "1_A. Sum", "source": "CODEFORCES"}
    record = {"id": 3, "content": "Add.", "labels": json.dumps(labels), "test": json.dumps(cases)}
    broken = {**record, "test": "[{"}
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(broken), encoding="utf-8")
    (problem,), summary = read(path)
    assert (problem.id, problem.source) == ("code_contests/1_A. Sum", "code_contests/codeforces")
    assert (problem.tests[0].input, problem.tests[0].output) == ("1 2", "3\n")
    assert [(issue.reason, "not JSON" in issue.detail) for issue in summary.refused] == [("malformed", True)]


# Codeforces.


def test_codeforces_line_ends_limits_and_checkers(shared: Shared) -> None:
    problems, summary = loaded(shared("data/derived_shapes/codeforces_openr1_shape.jsonl"))
    divisor = problems["codeforces/1025/B"]
    assert divisor.checker is not None
    assert divisor.flags == [], "its checker settles that several answers are right"
    assert (divisor.time_limit_s, divisor.memory_limit_mb) == (1.5, 256)
    assert "\nInput\n" in f"\n{divisor.statement}"
    assert problems["codeforces/1000/A"].tests[0].input == "1\nXXXS\nXXXL\n"
    assert len(summary.notes) == 5, "all say that their tests are not complete"


def test_codeforces_problems_that_streams_cannot_judge_are_refused(shared: Shared, tmp_path: Path) -> None:
    lines = shared("data/derived_shapes/codeforces_openr1_shape.jsonl").read_text(encoding="utf-8").split("\n")
    record = json.loads(lines[0])
    variants: list[dict[str, Any]] = [
        record,
        {**record, "id": "9/X", "interaction_format": "Ask and read."},
        {**record, "id": "9/Y", "input_mode": "file"},
        {**record, "id": "9/Z", "official_tests": []},
    ]
    path = tmp_path / "codeforces.jsonl"
    path.write_text("\n".join(map(json.dumps, variants)), encoding="utf-8")
    _, summary = read(path)
    assert [issue.detail.split(":")[0] for issue in summary.refused] == [
        "it is interactive",
        "its input mode is 'file', not the standard streams",
        "official_tests",
    ]


# LiveCodeBench and LiveBench.


def test_private_tests_are_decoded_and_functions_are_called(shared: Shared) -> None:
    problems, _ = loaded(shared("data/derived_shapes/livecodebench_shape.jsonl"))
    assert [(p.kind, len(p.examples) < len(p.tests)) for p in problems.values()] == [
        ("stdio", True),
        ("call", True),
        ("stdio", True),
    ]
    seniors = problems["livecodebench/2727"]
    assert seniors.entry_point == "countSeniors"
    assert seniors.tests[0].args == [["7868190130M7522", "5303914400F9211", "9273338290F4010"]]
    assert seniors.tests[0].expected == 2
    assert "class Solution" in seniors.statement
    bench, summary = loaded(shared("data/derived_shapes/livebench_shape.jsonl"))
    assert bench["livebench/derived-2727"].tests == seniors.tests
    assert "You are an expert" not in bench["livebench/derived-2727"].statement
    plain = bench["livebench/derived-1873_A-plainprivate"]
    assert len(plain.tests) == 2
    assert list(issues(summary, "duplicate_statement")) == [plain.id]


class Attack:
    """Unpickled by an ordinary unpickler, this writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def encoded(content: object, protocol: int = 4) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(content, protocol))).decode()


def test_a_pickle_that_asks_for_anything_but_data_is_refused(shared: Shared, tmp_path: Path) -> None:
    lines = shared("data/derived_shapes/livecodebench_shape.jsonl").read_text(encoding="utf-8").split("\n")
    record = json.loads(lines[0])
    marker = tmp_path / "was-here"
    bombs = [encoded(Attack(marker)), encoded(Attack(marker), 0), encoded(json.dumps), encoded({1, 2}, 2)]
    broken = ["@@", base64.b64encode(b"nothing").decode(), base64.b64encode(zlib.compress(b"\x80\x04c")).decode()]
    broken += [encoded(7), record["private_test_cases"][:-40] + "===="]
    variants = [{**record, "question_id": f"q{i}", "private_test_cases": text} for i, text in enumerate(bombs + broken)]
    path = tmp_path / "livecodebench.jsonl"
    path.write_text("\n".join(map(json.dumps, [record, *variants])), encoding="utf-8")
    _, summary = read(path)
    assert [issue.reason for issue in summary.refused] == ["malformed"] * 9
    assert ["only a pickle of one text is read" in issue.detail for issue in summary.refused[:4]] == [True] * 4
    assert not marker.exists()


def test_a_completion_task_takes_the_rest_and_the_whole(shared: Shared, sandbox: Sandbox) -> None:
    problems, _ = loaded(shared("data/derived_shapes/livebench_shape.jsonl"))
    problem = problems["livebench/derived-2727-completion"]
    assert problem.partial.endswith("total = 0")
    assert problem.partial in problem.statement
    rest = "        for d in details:\n            total += int(d[11:13]) > 60\n        return total"
    whole = f"{problem.partial}\n{rest}"
    bare = "for d in details:\n    total += int(d[11:13]) > 60\nreturn total"
    answers = [rest, rest.strip(), bare, whole, "        return total"]
    judged = sandbox.judge([problem.program(answer) for answer in answers])
    assert [one.verdict for one in judged] == [Verdict.ACCEPTED] * 4 + [Verdict.WRONG_ANSWER]


# EvalPlus.


def test_evalplus_tests_carry_their_reference_and_the_types_of_the_asserts(shared: Shared) -> None:
    problems, _ = loaded(shared("data/humaneval/HumanEvalPlus-Mini.jsonl.gz"))
    assert sum(len(problem.tests) for problem in problems.values()) <= 164 * 50
    assert problems["HumanEval/32"].continues
    assert "_SCOPE['poly']" in problems["HumanEval/32"].tests[0].code
    mbpp, _ = loaded(shared("data/mbpp/mbppplus_slice.jsonl.gz"))
    assert "for _arguments in [[(3, 4, 5, 6), (5, 7, 4, 10)]]" in mbpp["Mbpp/2"].tests[0].code
    assert "assert set(_found) == set(_expected)" in mbpp["Mbpp/2"].tests[0].code
    assert "bool(_found) == bool(_expected)" in mbpp["Mbpp/787"].tests[0].code
    assert "(4, (6, (2, 4)), 6, 8)" not in mbpp["Mbpp/580"].tests[0].code, "expected values are computed"
    assert "(4, 5, (7, 6, (2, 4)), 6, 8)" in mbpp["Mbpp/580"].tests[0].code
    assert "2j" in mbpp["Mbpp/124"].tests[2].code


# References in the sandbox: a sample of what is not judged elsewhere, and a broken one by name.


@pytest.fixture(scope="module")
def judge() -> Any:
    with open_sandbox(workers=2) as opened:
        yield Executor(opened).judge


SAMPLES: dict[str, Callable[[int, dict[str, Any]], bool]] = {
    "humaneval/HumanEvalPlus-Mini.jsonl.gz": lambda number, record: number in (0, 2, 32, 38, 50, 106, 127),
    "mbpp/mbppplus_slice.jsonl.gz": lambda number, record: (
        record["task_id"] in ("Mbpp/2", "Mbpp/124", "Mbpp/252", "Mbpp/404", "Mbpp/580", "Mbpp/787", "Mbpp/803")
    ),
    "derived_shapes/code_contests_deepmind_shape.jsonl": lambda number, record: True,
    "mbpp/mbpp.jsonl": lambda number, record: record["task_id"] in (1, 76, 122, 207, 367, 645, 927),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_references_are_right(shared: Shared, tmp_path: Path, judge: Any, name: str) -> None:
    path = sample(shared(f"data/{name}"), tmp_path, SAMPLES[name])
    problems, summary = read(path, judge=judge)
    assert summary.references_checked
    assert issues(summary, "broken_tests") == {}
    assert all(problem.references for problem in problems)


def sample(path: Path, folder: Path, keep: Callable[[int, dict[str, Any]], bool]) -> Path:
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")
    records = [json.loads(line) for line in lines if line]
    kept = [record for number, record in enumerate(records) if keep(number, record)]
    target = folder / "sample.jsonl"
    target.write_text("\n".join(map(json.dumps, kept)), encoding="utf-8")
    return target


LARGEST = """
numbers = list(map(int, open(0).read().split()))[1:]
pairs = list(zip(numbers[::2], numbers[1::2]))
found = [-1]
for n in pairs[0]:
    p = 2
    while n > 1:
        if p * p > n:
            p = n
        if n % p == 0:
            if all(a % p == 0 or b % p == 0 for a, b in pairs):
                found.append(p)
            while n % p == 0:
                n //= p
        p += 1
print(max(found))
"""
"""Answers 1025/B with the largest prime that is right, where the stored answers are others."""


def test_a_checker_accepts_what_plain_comparison_calls_wrong(shared: Shared, sandbox: Sandbox) -> None:
    problems, _ = loaded(shared("data/derived_shapes/codeforces_openr1_shape.jsonl"))
    checked = problems["codeforces/1025/B"]
    plain = checked.model_copy(update={"checker": None})
    jobs = [(checked, LARGEST), (checked, "print(-1)"), (plain, LARGEST)]
    judged = sandbox.judge([problem.program(code) for problem, code in jobs])
    assert [one.verdict for one in judged] == [Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.WRONG_ANSWER]
    assert list(static_flags(plain)) == ["several_answers"]


def test_broken_tests_are_flagged_by_name(shared: Shared, tmp_path: Path, judge: Any) -> None:
    lines = shared("data/mbpp/mbpp.jsonl").read_text(encoding="utf-8").split("\n")
    right, broken = json.loads(lines[1]), json.loads(lines[2])
    broken["test_list"][1] = "assert is_not_prime(10) == False"
    path = tmp_path / "mbpp.jsonl"
    path.write_text(f"{json.dumps(right)}\n{json.dumps(broken)}\n", encoding="utf-8")
    problems, summary = read(path, judge=judge)
    assert issues(summary, "broken_tests") == {"mbpp/3": "its reference solutions fail: wrong_answer on 1 tests"}
    assert [problem.flags for problem in problems] == [[], ["broken_tests"]]


# Sources.


def test_a_folder_gives_its_test_split_unless_another_is_asked_for(shared: Shared, tmp_path: Path) -> None:
    lines = shared("data/derived_shapes/livecodebench_shape.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "test.jsonl").write_text(lines[0], encoding="utf-8")
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[1:]).encode()))
    assert [p.id for p in read(tmp_path)[0]] == ["livecodebench/1873_A"]
    assert len(read(tmp_path, split="train")[0]) == 2
    with pytest.raises(UserError, match=r"has no file of the split 'validation'; it has test\.jsonl, train\.jsonl\.gz"):
        read(tmp_path, split="validation")
    with pytest.raises(UserError, match="belong to no split"):
        read(tmp_path / "test.jsonl", split="test")
    (tmp_path / "train.jsonl.gz").write_bytes(b"\x1f\x8b but no more")
    with pytest.raises(UserError, match="not a whole gzip file"):
        read(tmp_path, split="train")


def test_parquet_files_are_read_like_the_others(shared: Shared, tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    path = shared("data/derived_shapes/code_contests_deepmind_shape.jsonl")
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "part.parquet")
    assert read(tmp_path / "part.parquet")[0] == read(path)[0]
    (tmp_path / "part.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="not a Parquet file"):
        read(tmp_path / "part.parquet")


def test_the_hubs_old_and_new_names_are_both_found(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is played by a function: it knows one set, under the new name."""
    import datasets
    from datasets.exceptions import DatasetNotFoundError

    records = json.loads(shared("data/derived_shapes/cure_shape.json").read_text(encoding="utf-8"))

    def splits(name: str) -> list[str]:
        if name != "Gen-Verse/LiveBench-ReasonFlux":
            raise DatasetNotFoundError(name)
        return ["train", "test"]

    def stream(name: str, split: str, streaming: bool) -> Any:
        assert streaming
        return iter(records if split == "test" else records[:3])

    monkeypatch.setattr(datasets, "get_dataset_split_names", splits)
    monkeypatch.setattr(datasets, "load_dataset", stream)
    monkeypatch.setattr("corecode.datasets.records.hub_answers", lambda: True)
    by_name, by_new, by_old = (
        read(source)[0] for source in ("livebench", "Gen-Verse/LiveBench-ReasonFlux", "Gen-Verse/LiveBench")
    )
    assert by_name == by_new == by_old
    assert len(by_name) == 8
    assert len(read("Gen-Verse/LiveBench", limit=2, split="train")[0]) == 2
    with pytest.raises(UserError, match="has the splits train, test, not 'dev'"):
        read("Gen-Verse/LiveBench", split="dev")
    with pytest.raises(UserError, match="has no data set Gen-Verse/Nothing"):
        read("Gen-Verse/Nothing")


def test_sets_whose_check_needs_numpy_are_refused_with_the_remedy(tmp_path: Path) -> None:
    human = {
        "task_id": "HumanEval/0",
        "prompt": "def f(a):\n    '''Same.'''\n",
        "entry_point": "f",
        "canonical_solution": "    return a\n",
    }
    plus = {
        "task_id": 2,
        "prompt": "Add.",
        "code": "def f(a): return a",
        "test_list": ["assert f(1) == 1"],
        "test": "x",
    }
    path = tmp_path / "plus.jsonl"
    for record in (
        {**human, "test": "import numpy as np\n\ndef check(candidate):\n    assert candidate(1) == 1\n"},
        plus,
    ):
        path.write_text(json.dumps(record), encoding="utf-8")
        with pytest.raises(UserError, match=r"needs numpy.* use the .*file with base_input"):
            read(path)
