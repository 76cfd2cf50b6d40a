"""A programming problem, as every dataset reader yields it and every stage reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from corecode.assemble import assemble, complete
from corecode.lines import read_rows
from sandbox import Comparison, Limits, Program, TestCase

Split = Literal["sft", "rl", "validation", "test"]


class Test(BaseModel):
    """One test; which fields count depends on the problem's ``kind``."""

    __test__ = False
    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str = ""
    """Standard input (kind ``stdio``)."""
    output: str = ""
    """Expected standard output (kind ``stdio``)."""
    call: str = ""
    """Name of the function to call (kind ``call``)."""
    args: list[object] = Field(default_factory=list)
    kwargs: dict[str, object] = Field(default_factory=dict)
    expected: object = None
    """Expected return value as plain JSON data (kind ``call``)."""
    code: str = ""
    """Assert statements (kind ``asserts``)."""


class Reference(BaseModel):
    """A reference solution, with the thought that leads to it where one is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    program: str
    thought: str | None = None


class Problem(BaseModel):
    """A problem with its tests and limits. An empty test list is refused: it could only be 'solved' by mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    statement: str
    kind: Literal["stdio", "call", "asserts"] = "stdio"
    tests: list[Test]
    split: Split = "test"
    source: str = ""
    """Name of the dataset it comes from."""
    entry_point: str | None = None
    """Function that the tests call, where the statement names it."""
    continues: bool = False
    """The statement is the beginning of a program; an answer may continue it with the body of ``entry_point``."""
    partial: str = ""
    """Beginning of the program, where the problem is to complete it: an answer is the rest, or the whole."""
    checker: str | None = None
    """Source of a checker program for problems with several right answers."""
    tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    exact_whitespace: bool = False
    setup: str = ""
    """Code that the tests need beside the program."""
    time_limit_s: float = Field(default=2.0, gt=0, le=3600, allow_inf_nan=False)
    memory_limit_mb: int = Field(default=256, ge=1, le=1024**2)
    examples: list[Test] = Field(default_factory=list)
    """Public examples, which a prompt may show."""
    references: list[Reference] = Field(default_factory=list)
    structure: str = ""
    """What the problem is made of; splits of a procedural family share no structure."""
    flags: list[str] = Field(default_factory=list)
    """Reasons to keep it out of rewards, such as ``several_answers``."""

    @model_validator(mode="after")
    def _has_tests(self) -> Problem:
        if not self.tests:
            raise ValueError(f"problem {self.id!r} has no tests")
        if self.continues and not self.entry_point:
            raise ValueError(f"problem {self.id!r} is continued by a body and has to name its entry_point")
        return self

    def whole(self, source: str) -> str:
        """The complete program that an answer stands for (see :mod:`corecode.assemble`)."""
        if self.continues and self.entry_point:
            return assemble(self.statement, self.entry_point, source)
        return complete(self.partial, source) if self.partial else source

    def program(self, source: str | None) -> Program:
        """The sandbox's job of judging ``source`` on this problem's tests."""
        if self.kind == "stdio":
            tests = tuple(TestCase.stdio(t.input, t.output) for t in self.tests)
        elif self.kind == "call":
            tests = tuple(TestCase.call(t.call, t.args, t.expected, t.kwargs) for t in self.tests)  # type: ignore[arg-type]
        else:
            tests = tuple(TestCase.asserts(t.code) for t in self.tests)
        return Program(
            None if source is None else self.whole(source),
            tests,
            limits=Limits(cpu_s=self.time_limit_s, memory_mb=self.memory_limit_mb),
            comparison=Comparison(self.tolerance, self.exact_whitespace),
            checker=self.checker,
            setup=self.setup,
        )


def write_problems(path: Path, problems: Iterable[Problem]) -> str:
    """Write one problem a line; return the content digest (sha256 of the file), which is the set's data version."""
    lines = _lines(problems)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(lines, encoding="utf-8")
    partial.replace(path)
    return hashlib.sha256(lines.encode()).hexdigest()


def content_digest(problems: Iterable[Problem]) -> str:
    """The digest that :func:`write_problems` would return."""
    return hashlib.sha256(_lines(problems).encode()).hexdigest()


def _lines(problems: Iterable[Problem]) -> str:
    return "".join(json.dumps(p.model_dump(exclude_defaults=True), ensure_ascii=False) + "\n" for p in problems)


def read_split(path: Path) -> list[Problem]:
    """Read a problem file of a run, which is empty where the profile asks for no problems of a split."""
    return read_problems(path) if path.stat().st_size else []


def read_problems(path: Path) -> list[Problem]:
    """Read a problem file.

    Raises:
        UserError: naming the file, line and field when it is missing, empty or malformed.
    """
    return [problem for _, problem in read_rows(path, Problem, "problem")]
