"""``corecode judge``: the formats, the mistakes it refuses, and that no verdict file is ever half written."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from corecode.errors import UserError
from pipelines.judge import judge_submissions, read_inputs, whole_file
from sandbox import Judgement, Program, Sandbox, SandboxUnavailable, Verdict, open_sandbox

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "judge"
GOOD_PROBLEM = {"id": "p", "tests": [{"input": "1", "output": "1"}]}
GOOD_ANSWER = {"problem_id": "p", "submission_id": "s", "program": "print(1)"}


def write_lines(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def corecode(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_the_documented_example_gives_the_documented_verdicts(sandbox: Sandbox) -> None:
    problems, answers = read_inputs(EXAMPLE / "problems.jsonl", EXAMPLE / "submissions.jsonl")
    out = io.StringIO()
    tally = judge_submissions(problems, answers, sandbox, out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    expected = [json.loads(line) for line in (EXAMPLE / "expected.jsonl").read_text().splitlines()]
    kept = ("problem_id", "submission_id", "verdict", "passed", "total")
    assert [{key: row[key] for key in kept} for row in rows] == expected
    assert [len(row["tests"]) for row in rows] == [row["total"] for row in rows]
    assert set(rows[0]) == {*kept, "tests", "cpu_s", "peak_mb", "detail"}
    assert tally.total == len(rows)


def test_what_the_manual_shows(backend: str, tmp_path: Path) -> None:
    text = (EXAMPLE.parents[1] / "sandbox.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", snippet.replace('"auto"', repr(backend))], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[:3] == [backend, "accepted", "2"]
    command, *shown = re.findall(r"```console\n\$ corecode (judge.*?)```", text, re.DOTALL)[0].strip().split("\n")
    arguments = command.replace("docs/", f"{EXAMPLE.parents[1]}/").replace("verdicts.jsonl", f"{tmp_path}/v.jsonl")
    assert corecode(*arguments.split(), "--backend", backend).stderr.split("\n")[1] == shown[1]


def test_from_the_command_line(tmp_path: Path, backend: str) -> None:
    out = tmp_path / "verdicts.jsonl"
    done = corecode(
        *("judge", "--problems", EXAMPLE / "problems.jsonl", "--submissions", EXAMPLE / "submissions.jsonl"),
        *("--backend", backend, "--out", out, "--workers", "2"),
    )
    assert done.returncode == 0, done.stderr
    assert f"sandbox: {backend}" in done.stderr
    assert done.stdout == ""
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["verdict"] for row in rows] == [
        json.loads(line)["verdict"] for line in (EXAMPLE / "expected.jsonl").read_text().splitlines()
    ]
    assert list(tmp_path.iterdir()) == [out]


def test_verdicts_go_to_standard_output_without_out(tmp_path: Path, backend: str) -> None:
    problems = write_lines(tmp_path / "p.jsonl", GOOD_PROBLEM)
    answers = write_lines(tmp_path / "s.jsonl", GOOD_ANSWER)
    done = corecode("judge", "--problems", problems, "--submissions", answers, "--backend", backend, "--cost", "steps")
    assert done.returncode == 0, done.stderr
    (row,) = (json.loads(line) for line in done.stdout.splitlines())
    assert (row["verdict"], row["passed"], row["total"]) == ("accepted", 1, 1)
    assert row["steps"] == row["tests"][0]["steps"] > 0


@pytest.mark.parametrize(
    ("problem", "answer", "sentence"),
    [
        ("{", GOOD_ANSWER, "p.jsonl, line 1: this is not JSON ("),
        ({**GOOD_PROBLEM, "tests": []}, GOOD_ANSWER, "p.jsonl, line 1: problem 'p' has no tests"),
        ({"id": "p"}, GOOD_ANSWER, "p.jsonl, line 1: tests: Field required"),
        ({**GOOD_PROBLEM, "time_limit": 3}, GOOD_ANSWER, "p.jsonl, line 1: time_limit: Extra inputs"),
        ({**GOOD_PROBLEM, "time_limit_s": "fast"}, GOOD_ANSWER, "p.jsonl, line 1: time_limit_s: "),
        ({**GOOD_PROBLEM, "time_limit_s": 0}, GOOD_ANSWER, "p.jsonl, line 1: time_limit_s: Input should be greater"),
        ("[1]", GOOD_ANSWER, "p.jsonl, line 1: a record has to be a JSON object"),
        ({**GOOD_PROBLEM, "time_limit_s": 1e12}, GOOD_ANSWER, "time_limit_s: Input should be less"),
        ({**GOOD_PROBLEM, "memory_limit_mb": 10**18}, GOOD_ANSWER, "memory_limit_mb: Input should be less"),
        ({**GOOD_PROBLEM, "memory_limit_mb": -1}, GOOD_ANSWER, "p.jsonl, line 1: memory_limit_mb: "),
        ({"id": "p", "tests": [{"code": "assert f() == 1"}]}, GOOD_ANSWER, "tests.0: a test of kind 'stdio' does not"),
        ({"id": "p", "kind": "call", "tests": [{"call": "f", "args": []}]}, GOOD_ANSWER, "needs 'expected'"),
        ({"id": "p", "kind": "call", "tests": [{"call": "f(1)", "expected": 1}]}, GOOD_ANSWER, "tests.0.call: 'f(1)'"),
        ({"id": "p", "kind": "asserts", "tests": [{"code": " "}]}, GOOD_ANSWER, "tests.0.code: there is nothing"),
        (GOOD_PROBLEM, {"problem_id": "p", "submission_id": "s"}, "s.jsonl, line 1: give exactly one of"),
        (GOOD_PROBLEM, {**GOOD_ANSWER, "completion": "x"}, "s.jsonl, line 1: give exactly one of"),
        (GOOD_PROBLEM, {**GOOD_ANSWER, "problem_id": "q"}, "s.jsonl, line 1: problem_id: "),
        (GOOD_PROBLEM, {**GOOD_ANSWER, "submission_id": 7}, "s.jsonl, line 1: submission_id: "),
        (GOOD_PROBLEM, {**GOOD_ANSWER, "Program": ""}, "s.jsonl, line 1: Program: Extra inputs"),
        (GOOD_PROBLEM, "\n", "s.jsonl holds no submission; give at least one JSON line"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    tmp_path: Path, problem: object, answer: object, sentence: str
) -> None:
    problems, answers = write_lines(tmp_path / "p.jsonl", problem), write_lines(tmp_path / "s.jsonl", answer)
    with pytest.raises(UserError) as caught:
        read_inputs(problems, answers)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_end_the_command_with_exit_code_2(tmp_path: Path) -> None:
    problems = write_lines(tmp_path / "p.jsonl", GOOD_PROBLEM)
    answers = write_lines(tmp_path / "s.jsonl", GOOD_ANSWER, GOOD_ANSWER)
    out = tmp_path / "v.jsonl"
    done = corecode("judge", "--problems", problems, "--submissions", answers, "--out", out)
    assert done.returncode == 2
    assert "s.jsonl, line 2: submission_id: 's' occurs twice" in done.stderr
    assert "Traceback" not in done.stderr
    absent = corecode("judge", "--problems", tmp_path / "none.jsonl", "--submissions", answers, "--out", out)
    assert absent.returncode == 2
    assert "none.jsonl: No such file" in absent.stderr
    write_lines(answers, GOOD_ANSWER)
    folder = corecode("judge", "--problems", problems, "--submissions", answers, "--out", tmp_path)
    assert folder.returncode == 2
    assert f"--out: {tmp_path} is a folder" in folder.stderr
    assert not out.exists()


def test_unsafe_has_to_be_said_and_warns(tmp_path: Path) -> None:
    problems, answers = write_lines(tmp_path / "p.jsonl", GOOD_PROBLEM), write_lines(tmp_path / "s.jsonl", GOOD_ANSWER)
    inputs = ("--problems", problems, "--submissions", answers)
    done = corecode("judge", *inputs, "--unsafe")
    assert done.returncode == 0, done.stderr
    assert "WARNING" in done.stderr
    assert json.loads(done.stdout)["verdict"] == "accepted"
    both = corecode("judge", *inputs, "--unsafe", "--backend", "bubblewrap")
    assert both.returncode == 2
    assert "--unsafe" in both.stderr


def test_line_separators_inside_text_do_not_end_a_line(tmp_path: Path) -> None:
    problems = write_lines(tmp_path / "p.jsonl", '{"id": "p", "tests": [{"input": "", "output": "a\u2028b"}]}')
    answers = write_lines(tmp_path / "s.jsonl", "", GOOD_ANSWER)
    by_id, rows = read_inputs(problems, answers)
    assert by_id["p"].tests[0].output == "a\u2028b"
    assert len(rows) == 1


def test_bytes_that_are_not_text_are_named_by_line(tmp_path: Path) -> None:
    problems = tmp_path / "p.jsonl"
    problems.write_bytes(json.dumps(GOOD_PROBLEM).encode() + b"\n\xff\n")
    with pytest.raises(UserError, match=r"p\.jsonl, line 2: this is not UTF-8"):
        read_inputs(problems, problems)


def test_an_interrupted_file_does_not_appear(tmp_path: Path) -> None:
    path = tmp_path / "v.jsonl"
    path.write_text("from before")

    def interrupted() -> None:
        with whole_file(path) as stream:
            stream.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "from before"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(pipe) as stream:
        stream.write("verdicts")
    assert os.read(reader, 100) == b"verdicts"
    os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]
    assert pipe.is_fifo()
    for place in (tmp_path, Path(""), tmp_path / "nowhere" / "v.jsonl"):
        with pytest.raises(UserError, match=r"^--out: "), whole_file(place):
            pass


class BrokenSandbox:
    """A sandbox in an outage."""

    def __init__(self) -> None:
        self.backend = "broken"
        self.capabilities: dict[str, object] = {}
        self.calls = 0

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        self.calls += 1
        return [Judgement(Verdict.SANDBOX_ERROR, (), 0, len(p.tests), 0.0, 0.0, 0.0, None, "gone") for p in programs]


def test_what_could_not_be_judged_has_no_score(tmp_path: Path) -> None:
    problems = write_lines(tmp_path / "p.jsonl", GOOD_PROBLEM)
    answers = write_lines(tmp_path / "s.jsonl", GOOD_ANSWER)
    broken, out = BrokenSandbox(), io.StringIO()
    tally = judge_submissions(*read_inputs(problems, answers), broken, out)  # type: ignore[arg-type]
    row = json.loads(out.getvalue())
    assert (row["verdict"], row["passed"], row["detail"]) == ("sandbox_error", None, "gone")
    assert tally.unjudged == 1
    assert broken.calls == 2


@pytest.mark.docker
def test_the_image_needs_no_registry(tmp_path: Path, missing_requirement: Callable[[str], None]) -> None:
    try:
        open_sandbox("docker", workers=1).close()
    except SandboxUnavailable as error:
        missing_requirement(str(error))
    built = corecode("sandbox", "build")
    assert built.returncode == 0, built.stderr
    problems, answers = write_lines(tmp_path / "p.jsonl", GOOD_PROBLEM), write_lines(tmp_path / "s.jsonl", GOOD_ANSWER)
    inputs = ("judge", "--problems", problems, "--submissions", answers)
    done = corecode(*inputs, "--backend", "docker", "--image", built.stdout.strip())
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "accepted"
    absent = corecode(*inputs, "--backend", "docker", "--image", "corecode-sandbox:none")
    assert absent.returncode == 1
    assert "no image corecode-sandbox:none" in absent.stderr
    wrong = corecode(*inputs, "--backend", "bubblewrap", "--image", "x")
    assert wrong.returncode == 2


def test_an_engine_that_is_not_there_is_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    problems, answers = write_lines(tmp_path / "p.jsonl", GOOD_PROBLEM), write_lines(tmp_path / "s.jsonl", GOOD_ANSWER)
    out = tmp_path / "v.jsonl"
    inputs = ("--problems", problems, "--submissions", answers, "--out", out)
    for command in (
        ("judge", *inputs, "--backend", "docker"),
        ("sandbox", "build"),
        ("sandbox", "build", "--registry"),
    ):
        done = corecode(*command)
        assert done.returncode == 1, done
        assert "no Docker engine answers" in done.stderr
        assert "Traceback" not in done.stderr
    assert not out.exists()
