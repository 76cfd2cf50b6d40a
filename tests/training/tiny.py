"""Tiny models, problems and an in-process sandbox for tests of training."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from corecode.config import ScratchConfig
from corecode.models import new_model, train_tokenizer
from corecode.problems import Problem, Reference, Test
from corecode.roles.extract import Extraction
from corecode.roles.roles import Artifact, Role
from sandbox import Judgement, Program, SandboxUnavailable, TestResult, Verdict, open_sandbox

SCRATCH = ScratchConfig(width=32, layers=2, heads=2, vocabulary=300)


def tiny_tokenizer(texts: Sequence[str]) -> Any:
    return train_tokenizer(texts, SCRATCH.vocabulary)


def tiny_model(tokenizer: Any, seed: int = 0) -> Any:
    return new_model(SCRATCH, tokenizer, seed)


def problem(number: int, answer: str = "1", statement: str | None = None) -> Problem:
    """A problem that prints ``answer``."""
    thought = f"Input-Output: nothing -> {answer}\nSteps:\n1. print {answer}\nConditions: none\nIteration: none"
    return Problem(
        id=f"p{number}",
        statement=statement or f"Print {answer}. Case {number}.",
        tests=[Test(input="", output=answer), Test(input="x", output=answer)],
        references=[Reference(program=f"print({answer})", thought=thought)],
    )


class LocalSandbox:
    """Runs trusted test programs in this process; the sources in ``broken`` cannot be judged."""

    backend = "test"

    def __init__(self, broken: Sequence[str] = ()) -> None:
        self.broken = set(broken)
        self.capabilities: dict[str, object] = {}
        self.sources: list[str | None] = []
        self._lock = threading.Lock()

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        with self._lock:  # standard output is one for all threads
            return [self._judge(program) for program in programs]

    def _judge(self, program: Program) -> Judgement:
        self.sources.append(program.source)
        total = len(program.tests)
        if program.source in self.broken:
            results = tuple(TestResult(Verdict.SANDBOX_ERROR) for _ in program.tests)
            return Judgement(Verdict.SANDBOX_ERROR, results, 0, total, 0.0, 0.0, 0.0, None, "broken")
        if program.source is None:
            results = tuple(TestResult(Verdict.NO_CODE) for _ in program.tests)
            return Judgement(Verdict.NO_CODE, results, 0, total, 0.0, 0.0, 0.0, 0, "")
        results = tuple(self._run(program.source, test.expected) for test in program.tests)
        passed = sum(result.verdict is Verdict.ACCEPTED for result in results)
        verdict = next((r.verdict for r in results if r.verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
        return Judgement(verdict, results, passed, total, 0.0, 0.0, 0.0, len(program.source), "")

    @staticmethod
    def _run(source: str, expected: object) -> TestResult:
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                exec(compile(source, "program", "exec"), {"input": lambda: ""})
        except BaseException as error:
            return TestResult(Verdict.RUNTIME_ERROR, detail=type(error).__name__)
        right = output.getvalue().split() == str(expected).split()
        return TestResult(Verdict.ACCEPTED if right else Verdict.WRONG_ANSWER)

    def close(self) -> None: ...

    def __enter__(self) -> LocalSandbox:
        return self

    def __exit__(self, *_exc: object) -> None: ...


class Marks(LocalSandbox):
    """A toy judge: a program passes as many tests as its first letters are at or above "n"."""

    def _judge(self, program: Program) -> Judgement:
        source = program.source or ""
        passed = sum(letter >= "n" for letter in source[:2])
        results = (TestResult(Verdict.ACCEPTED),) * passed + (TestResult(Verdict.WRONG_ANSWER),) * (2 - passed)
        name = Verdict.ACCEPTED if passed == 2 else Verdict.WRONG_ANSWER
        return Judgement(name, results, passed, 2, 0.0, 0.0, 0.0, 1)


class Verbatim(Role):
    """A Coder whose whole completion is its program: an untrained model writes nothing that reads as code."""

    def parse(self, completion: str) -> Artifact:
        return Artifact(extraction=Extraction(completion, False, 1))


def need_sandbox() -> None:
    """End the test where no real sandbox works: a failure in CI, a skip with its reason on a user's machine."""
    try:
        open_sandbox(workers=1).close()
    except SandboxUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"required in CI: {error}", pytrace=False)
        pytest.skip(f"no sandbox: {error}")
