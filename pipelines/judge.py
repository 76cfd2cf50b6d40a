"""Judge a file of submissions on a file of problems: the work behind ``corecode judge`` (formats: docs/sandbox.md).

Both inputs are read and checked whole before the first program runs, so a mistake in the last line costs nothing.
Verdicts come in the order of the submissions.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, model_validator

from corecode.errors import UserError
from corecode.execution import Executor
from corecode.lines import read_rows
from corecode.problems import Problem
from corecode.roles.extract import extract_program
from sandbox import Judgement, Sandbox, TestResult, Verdict

BATCH = 512
"""Submissions judged at a time: bounds memory, and keeps every worker busy."""

_FIELDS = {
    "stdio": ({"input", "output"}, set[str]()),
    "call": ({"call", "args", "kwargs", "expected"}, {"call", "expected"}),
    "asserts": ({"code"}, {"code"}),
}
"""For each kind of problem: the fields that a test may have, and those that it must have."""


class JudgedProblem(Problem):
    """A problem as ``corecode judge`` reads it: judging needs no statement."""

    statement: str = ""

    @model_validator(mode="after")
    def _tests_fit_the_kind(self) -> JudgedProblem:
        # A test read as the wrong kind would compare nothing with nothing, and accept.
        allowed, required = _FIELDS[self.kind]
        for number, test in enumerate(self.tests):
            given = test.model_fields_set
            strange, missing = sorted(given - allowed), sorted(required - given)
            if strange or missing or not given:
                wrong = f"does not take {strange[0]!r}" if strange else f"needs {(missing or sorted(allowed))[0]!r}"
                raise ValueError(f"tests.{number}: a test of kind {self.kind!r} {wrong}")
            if "call" in required and not test.call.isidentifier():
                raise ValueError(f"tests.{number}.call: {test.call!r} is not the name of a function")
            if "code" in required and not test.code.strip():
                raise ValueError(f"tests.{number}.code: there is nothing to run")
        return self


class Submission(BaseModel):
    """One answer to a problem: a model's raw text, or a bare program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    problem_id: str
    submission_id: str
    completion: str | None = None
    """A model's whole text; the program is extracted by the rule that training uses."""
    program: str | None = None
    """Python source, judged as it is."""

    @model_validator(mode="after")
    def _one_answer(self) -> Submission:
        if (self.completion is None) == (self.program is None):
            raise ValueError("give exactly one of 'completion' and 'program'")
        return self

    def source(self) -> str | None:
        """The program to judge; None when the completion holds none."""
        if self.completion is not None:
            return extract_program(self.completion).program
        return self.program


@dataclass(frozen=True)
class Tally:
    """How many submissions got which verdict."""

    verdicts: Counter[Verdict]

    @property
    def total(self) -> int:
        return sum(self.verdicts.values())

    @property
    def unjudged(self) -> int:
        """Submissions without a verdict of their own, because the sandbox failed twice."""
        return self.verdicts[Verdict.SANDBOX_ERROR]


def read_inputs(problems: Path, submissions: Path) -> tuple[dict[str, JudgedProblem], list[Submission]]:
    """Read and check both files.

    Raises:
        UserError: one sentence that names the file, the line and the field.
    """
    by_id: dict[str, JudgedProblem] = {}
    for number, problem in read_rows(problems, JudgedProblem, "problem"):
        if problem.id in by_id:
            raise UserError(f"{problems}, line {number}: id: the problem {problem.id!r} occurs twice")
        by_id[problem.id] = problem
    seen: set[tuple[str, str]] = set()
    answers: list[Submission] = []
    for number, answer in read_rows(submissions, Submission, "submission"):
        key = (answer.problem_id, answer.submission_id)
        if answer.problem_id not in by_id:
            raise UserError(
                f"{submissions}, line {number}: problem_id: {problems} has no problem {answer.problem_id!r}"
            )
        if key in seen:
            raise UserError(
                f"{submissions}, line {number}: submission_id: {answer.submission_id!r} occurs twice for problem "
                f"{answer.problem_id!r}"
            )
        seen.add(key)
        answers.append(answer)
    return by_id, answers


def judge_submissions(
    problems: dict[str, JudgedProblem], submissions: Sequence[Submission], sandbox: Sandbox, out: IO[str]
) -> Tally:
    """Judge every submission and write one JSON line for each, in order. A sandbox failure is retried once."""
    executor = Executor(sandbox)
    verdicts: Counter[Verdict] = Counter()
    for start in range(0, len(submissions), BATCH):
        batch = submissions[start : start + BATCH]
        judgements = executor.judge([(problems[answer.problem_id], answer.source()) for answer in batch])
        for answer, judgement in zip(batch, judgements, strict=True):
            out.write(json.dumps(verdict_row(answer, judgement), ensure_ascii=False) + "\n")
            verdicts[judgement.verdict] += 1
    return Tally(verdicts)


def verdict_row(submission: Submission, judgement: Judgement) -> dict[str, object]:
    """One line of the verdict file. What could not be judged has no score: its ``passed`` is null."""
    unjudged = judgement.verdict is Verdict.SANDBOX_ERROR
    row: dict[str, object] = {
        "problem_id": submission.problem_id,
        "submission_id": submission.submission_id,
        "verdict": judgement.verdict.value,
        "passed": None if unjudged else judgement.passed,
        "total": judgement.total,
        "tests": [_test_row(test) for test in judgement.tests],
        "cpu_s": round(judgement.cpu_s, 6),
        "peak_mb": round(judgement.peak_mb, 3),
        "detail": judgement.detail,
    }
    if judgement.steps is not None:
        row["steps"] = judgement.steps
    return row


@contextmanager
def whole_file(path: Path) -> Iterator[IO[str]]:
    """Open a text file for writing that appears only once it is complete. What is there and is no file (a pipe, a
    terminal) is written to as it is.

    Raises:
        UserError: the file cannot be written there.
    """
    if path.is_dir():
        raise UserError(f"--out: {path} is a folder; name a file")
    plain = path.is_file() or not path.exists()
    partial = path.with_name(path.name + ".partial") if plain else path
    try:
        stream = partial.open("w", encoding="utf-8")
    except OSError as error:
        raise UserError(f"--out: cannot write {path}: {error.strerror}") from error
    try:
        with stream:
            yield stream
            stream.flush()
            if plain:
                os.fsync(stream.fileno())
        if plain:
            partial.replace(path)
    except BaseException:
        if plain:
            partial.unlink(missing_ok=True)
        raise


def _test_row(test: TestResult) -> dict[str, object]:
    row: dict[str, object] = {
        "verdict": test.verdict.value,
        "cpu_s": round(test.cpu_s, 6),
        "wall_s": round(test.wall_s, 6),
        "peak_mb": round(test.peak_mb, 3),
        "detail": test.detail,
    }
    if test.steps is not None:
        row["steps"] = test.steps
    return row
