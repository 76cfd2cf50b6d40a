"""What goes into the sandbox and what comes out: frozen values shared by both backends.

A :class:`Program` is one source text with the tests that judge it. Expected outputs stay on the host; what enters
the sandbox is the source and, test by test, its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class Verdict(StrEnum):
    """What the sandbox says of a program or of one of its tests."""

    ACCEPTED = "accepted"
    """Every test passed."""
    WRONG_ANSWER = "wrong_answer"
    """It ended normally and its answer differs."""
    RUNTIME_ERROR = "runtime_error"
    """It ended with an exception, a signal of its own or a non-zero exit code, or does not compile."""
    TIME_LIMIT = "time_limit"
    """It used up its CPU time, or its wall time while sleeping."""
    MEMORY_LIMIT = "memory_limit"
    """It asked for more memory than it may have."""
    OUTPUT_LIMIT = "output_limit"
    """It wrote more than it may."""
    NO_CODE = "no_code"
    """There was no program to run."""
    SANDBOX_ERROR = "sandbox_error"
    """The sandbox could not judge. This says nothing about the program: retry, then mask."""


@dataclass(frozen=True)
class Limits:
    """What one run of a program may use. Every field applies to a single test."""

    cpu_s: float = 2.0
    """CPU seconds, user and system, of the program and its children."""
    wall_s: float | None = None
    """Wall seconds; None means three times ``cpu_s`` plus one second (a loaded machine must not fail a program)."""
    memory_mb: int = 256
    """Peak memory above the bare interpreter's, in MiB."""
    output_kb: int = 16384
    """Standard output and standard error together, in KiB."""
    file_mb: int = 16
    """Largest file it may write, in MiB."""
    processes: int = 16
    """Processes and threads at a time."""


@dataclass(frozen=True)
class TestCase:
    """One test in exactly one of three forms: ``stdio``, ``call`` or ``asserts``; use the constructors below."""

    __test__ = False  # not a pytest class

    kind: Literal["stdio", "call", "asserts"]
    stdin: str = ""
    expected: JsonValue = None
    """Expected standard output (stdio) or expected return value as plain JSON data (call)."""
    function: str = ""
    args: tuple[JsonValue, ...] = ()
    kwargs: tuple[tuple[str, JsonValue], ...] = ()
    code: str = ""
    """Statements that run after the program and raise when it is wrong (asserts)."""

    @staticmethod
    def stdio(stdin: str, expected: str) -> TestCase:
        return TestCase("stdio", stdin=stdin, expected=expected)

    @staticmethod
    def call(
        function: str, args: Sequence[JsonValue], expected: JsonValue, kwargs: dict[str, JsonValue] | None = None
    ) -> TestCase:
        named = tuple((kwargs or {}).items())
        return TestCase("call", function=function, args=tuple(args), kwargs=named, expected=expected)

    @staticmethod
    def asserts(code: str) -> TestCase:
        return TestCase("asserts", code=code)


@dataclass(frozen=True)
class Comparison:
    """How an answer is compared with the expected one (tokens, case-sensitive, unless said otherwise)."""

    tolerance: float | None = None
    """Absolute or relative tolerance for every number; None means 1e-6 for numbers that the reference writes with a
    point or exponent, exact for all others."""
    exact_whitespace: bool = False
    """Compare the text as it is instead of token by token."""


@dataclass(frozen=True)
class Program:
    """A source text and the tests that judge it."""

    source: str | None
    """Python source; None when no program could be extracted (verdict ``no_code``)."""
    tests: tuple[TestCase, ...]
    limits: Limits = field(default_factory=Limits)
    comparison: Comparison = field(default_factory=Comparison)
    checker: str | None = None
    """Source of a checker: run as ``checker.py INPUT EXPECTED OUTPUT`` (three files); it accepts by exit code 0 and
    output that is empty or starts with a number above 0."""
    setup: str = ""
    """Source that runs before asserts, after the program (helper classes of a data set). The program can read it: no
    expected value belongs here."""
    stop_at_first_failure: bool = False
    """Skip the tests after the first failure: for pass/fail use, never for pass ratios."""


@dataclass(frozen=True)
class TestResult:
    """One test's verdict and costs."""

    __test__ = False

    verdict: Verdict
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0
    """Peak resident memory above the bare interpreter's, in MiB."""
    steps: int | None = None
    """Deterministic count of executed bytecode events; None unless the sandbox was opened with ``cost="steps"``."""
    detail: str = ""
    """For a runtime error the exception's type; for a limit which one; for a sandbox error the reason."""
    stdout: str = ""
    """First 4 KiB of standard output."""


@dataclass(frozen=True)
class Judgement:
    """What the sandbox says of one program. ``tests`` keeps the order of the program's tests."""

    verdict: Verdict
    """Accepted when every test is; else the first failing test's verdict; a sandbox error anywhere wins."""
    tests: tuple[TestResult, ...]
    passed: int
    total: int
    cpu_s: float
    """Sum over the tests."""
    wall_s: float
    peak_mb: float
    """Maximum over the tests."""
    steps: int | None
    """Sum over the tests; None unless counted."""
    detail: str = ""

    @property
    def pass_ratio(self) -> float:
        """Share of the tests passed, in [0, 1].

        Raises:
            ValueError: for a sandbox error, which has no ratio.
        """
        if self.verdict is Verdict.SANDBOX_ERROR:
            raise ValueError(f"a sandbox error has no pass ratio: {self.detail}")
        return self.passed / self.total


class Sandbox(Protocol):
    """Runs untrusted programs. Context manager, synchronous and asynchronous.

    Raises on opening: :class:`sandbox.SandboxUnavailable` naming the remedy. Never raises for what a program does.
    """

    backend: str
    capabilities: dict[str, object]
    """What this backend enforces, e.g. ``{"isolation": "container", "memory": "cgroup", "seccomp": True}``."""

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        """Judge a batch; results in input order. Raises ValueError for a program without tests."""
        ...

    async def judge_one(self, program: Program) -> Judgement:
        """Judge one program; many may be awaited at once."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Sandbox: ...

    def __exit__(self, *exc: object) -> None: ...
