"""From a program to requests for a runner, and from what the runner saw to verdicts."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sandbox import plain
from sandbox.compare import same_text, same_value
from sandbox.types import Judgement, Limits, Program, TestCase, TestResult, Verdict
from sandbox.wire import pack

STDOUT_KEPT = 4096
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(:.*)?", re.DOTALL)
CHECKER_LIMITS = Limits(cpu_s=10.0, memory_mb=512)
_CHECKER_FILES = ("input.txt", "correct_output.txt", "solution_output.txt")
_MEMORY_SLACK_MB = 1.0


@dataclass(frozen=True)
class Raw:
    """What the runner saw of one test."""

    result: dict[str, Any]
    stdout: bytes
    stderr: bytes
    channel: bytes
    """The answer to a call, or the examiner's report."""


def wall_s(limits: Limits) -> float:
    """The wall limit in force."""
    return 3 * limits.cpu_s + 1 if limits.wall_s is None else limits.wall_s


def _limits(limits: Limits) -> dict[str, Any]:
    return {
        "cpu_s": limits.cpu_s,
        "wall_s": wall_s(limits),
        "memory_bytes": limits.memory_mb << 20,
        "output_bytes": limits.output_kb << 10,
        "file_bytes": limits.file_mb << 20,
        "processes": limits.processes,
    }


def request(serial: int, program: Program, tests: Sequence[TestCase], steps: bool) -> bytes:
    """The frame that asks for ``tests``, all of one kind. It holds no expected output."""
    kind = tests[0].kind
    blobs = [(program.source or "").encode("utf-8", "surrogatepass")]
    items: list[dict[str, Any]] = []
    for test in tests:
        item: dict[str, Any] = {"in": len(blobs)}
        if kind == "stdio":
            blobs.append(test.stdin.encode("utf-8", "surrogatepass"))
        elif kind == "call":
            arguments = plain.dumps([list(test.args), dict(test.kwargs)])
            call = {"function": test.function, "arguments": arguments, "setup": program.setup}
            blobs.append(json.dumps(call).encode())
        else:
            blobs.append(json.dumps({"setup": program.setup}).encode())
            item["examiner"] = len(blobs)
            blobs.append(json.dumps({"setup": program.setup, "code": test.code}).encode())
        items.append(item)
    header = {
        "id": serial,
        "kind": kind,
        "limits": _limits(program.limits),
        "steps": steps,
        "stop": program.stop_at_first_failure,
        "tests": items,
    }
    return pack(header, blobs)


def checker_request(serial: int, checker: str, runs: Sequence[tuple[TestCase, bytes]]) -> bytes:
    """The frame that asks the checker about outputs. The program that made them is dead by then."""
    blobs = [checker.encode("utf-8", "surrogatepass"), b""]
    items: list[dict[str, Any]] = []
    for test, output in runs:
        first = len(blobs)
        blobs += [test.stdin.encode("utf-8", "surrogatepass"), expected_text(test).encode(), output]
        items.append({"in": 1, "files": {name: first + index for index, name in enumerate(_CHECKER_FILES)}})
    header = {
        "id": serial,
        "kind": "stdio",
        "name": "checker.py",
        "argv": ["checker.py", *_CHECKER_FILES],
        "limits": _limits(CHECKER_LIMITS),
        "steps": False,
        "stop": False,
        "tests": items,
    }
    return pack(header, blobs)


def expected_text(test: TestCase) -> str:
    """The expected output of a stdio test."""
    return test.expected if isinstance(test.expected, str) else json.dumps(test.expected)


def ended(raw: Raw, limits: Limits, base_kb: int, oom_kills: int) -> tuple[Verdict, str] | None:
    """Why a test failed whatever it answered, or None when its program ended normally."""
    result = raw.result
    why = result["why"]
    if why == "supervisor":
        return Verdict.RUNTIME_ERROR, "it killed or froze its supervisor"
    # A program that was examined to the end is killed at once, so its own end says nothing.
    examined = "examiner_why" in result
    code = 0 if examined and _to_the_end(raw.channel) else os.waitstatus_to_exitcode(result["status"])
    if why == "output":
        return Verdict.OUTPUT_LIMIT, f"more than {limits.output_kb} KiB"
    if why == "wall":
        return Verdict.TIME_LIMIT, f"wall time over {wall_s(limits):g} s"
    if why == "cpu" or code == -signal.SIGXCPU or result["cpu_s"] > limits.cpu_s:
        return Verdict.TIME_LIMIT, f"CPU time over {limits.cpu_s:g} s"
    if (code == -signal.SIGKILL and oom_kills) or peak_mb(raw, base_kb) > limits.memory_mb + _MEMORY_SLACK_MB:
        return Verdict.MEMORY_LIMIT, f"more than {limits.memory_mb} MiB"
    if code == -signal.SIGXFSZ:
        return Verdict.OUTPUT_LIMIT, f"a file over {limits.file_mb} MiB"
    if code < 0:
        return Verdict.RUNTIME_ERROR, _signal_name(-code)
    if code > 0:
        name = exception_name(raw.stderr) if code == 1 else None
        if name == "MemoryError":
            return Verdict.MEMORY_LIMIT, f"more than {limits.memory_mb} MiB"
        if examined and name == "AssertionError":  # a sample test of the program's own
            return Verdict.WRONG_ANSWER, name
        return Verdict.RUNTIME_ERROR, name or f"exit code {code}"
    return None


def _to_the_end(channel: bytes) -> bool:
    """Whether the examiner's report says that the tests ran, whatever came out."""
    try:
        report: dict[str, Any] = json.loads(channel)
    except ValueError:
        return False
    return not report.get("lost")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def exception_name(stderr: bytes) -> str | None:
    """The exception at the end of a traceback."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line and not line[0].isspace()]
    for line in reversed(lines):
        match = _EXCEPTION.fullmatch(line)
        if match:
            return match[1]
    return None


def peak_mb(raw: Raw, base_kb: int) -> float:
    """Peak resident memory above an empty program's, in MiB."""
    return max(0, raw.result.get("peak_kb", 0) - base_kb) / 1024


def answered(raw: Raw, program: Program, test: TestCase) -> tuple[Verdict, str]:
    """Whether a program that ended normally gave the right answer; the checker's part is not here."""
    if test.kind == "stdio":
        right = same_text(expected_text(test), raw.stdout.decode("utf-8", "replace"), program.comparison)
        return (Verdict.ACCEPTED, "") if right else (Verdict.WRONG_ANSWER, "")
    if test.kind == "call":
        return _returned(raw.channel, program, test)
    return _examined(raw.channel)


def _returned(channel: bytes, program: Program, test: TestCase) -> tuple[Verdict, str]:
    # Much longer than the expected value can be written: not worth the memory of reading it.
    if len(channel) > 65536 + 32 * len(json.dumps(test.expected)):
        return Verdict.WRONG_ANSWER, "a much longer value than expected"
    try:
        answer = cast("object", json.loads(channel))
        if not isinstance(answer, dict):
            raise plain.NotPlain("no answer")
        said = cast("dict[str, object]", answer)
        if "refused" in said:
            return Verdict.WRONG_ANSWER, str(said["refused"])[:200]
        value = plain.loads(str(said["value"]))
    except (ValueError, KeyError, RecursionError, plain.NotPlain):
        return Verdict.WRONG_ANSWER, "it ended without returning a value"
    right = same_value(test.expected, value, program.comparison)
    return (Verdict.ACCEPTED, "") if right else (Verdict.WRONG_ANSWER, "")


def _examined(channel: bytes) -> tuple[Verdict, str]:
    """The examiner's report. It read what a hostile program sent, so anything odd is a failure."""
    try:
        report: dict[str, Any] = json.loads(channel)
    except ValueError:
        return Verdict.WRONG_ANSWER, "the examination did not end"
    if report.get("passed") is True:
        return Verdict.ACCEPTED, ""
    if "broken" in report:
        return Verdict.SANDBOX_ERROR, str(report["broken"])
    if report.get("lost"):
        return Verdict.WRONG_ANSWER, "it ended before its tests"
    kind = str(report.get("failed", ""))
    if kind == "AssertionError":  # of a test, or an assert that the program itself holds
        return Verdict.WRONG_ANSWER, f"{kind} in line {report.get('line', 0)} of the test"
    if report.get("program") or kind == "NameError":
        return (Verdict.MEMORY_LIMIT if kind == "MemoryError" else Verdict.RUNTIME_ERROR), kind
    return Verdict.WRONG_ANSWER, f"{kind} in line {report.get('line', 0)} of the test"


def result_of(raw: Raw, verdict: Verdict, detail: str, base_kb: int) -> TestResult:
    """A test's result."""
    result = raw.result
    return TestResult(
        verdict,
        cpu_s=result.get("cpu_s", 0.0),
        wall_s=result.get("wall_s", 0.0),
        peak_mb=peak_mb(raw, base_kb),
        steps=result.get("steps"),
        detail=detail,
        stdout=raw.stdout[:STDOUT_KEPT].decode("utf-8", "replace"),
    )


def judgement(program: Program, tests: Sequence[TestResult]) -> Judgement:
    """The verdict of a program from those of its tests."""
    broken = [test for test in tests if test.verdict is Verdict.SANDBOX_ERROR]
    failed = broken or [test for test in tests if test.verdict is not Verdict.ACCEPTED]
    steps = [test.steps for test in tests]
    return Judgement(
        verdict=failed[0].verdict if failed else Verdict.ACCEPTED,
        tests=tuple(tests),
        passed=sum(test.verdict is Verdict.ACCEPTED for test in tests),
        total=len(program.tests),
        cpu_s=sum(test.cpu_s for test in tests),
        wall_s=sum(test.wall_s for test in tests),
        peak_mb=max((test.peak_mb for test in tests), default=0.0),
        steps=None if None in steps or not steps else sum(cast("list[int]", steps)),
        detail=failed[0].detail if failed else "",
    )


def unjudged(program: Program, verdict: Verdict, detail: str) -> Judgement:
    """The same verdict for every test, without a run."""
    return judgement(program, [TestResult(verdict, detail=detail) for _ in program.tests])
