"""The course of one program's judgement: what to ask a runner, one request after the other."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from sandbox.judging import (
    CHECKER_LIMITS,
    Raw,
    answered,
    checker_request,
    ended,
    judgement,
    request,
    result_of,
)
from sandbox.types import Judgement, Program, TestCase, TestResult, Verdict

MAX_INPUT_BYTES = 32 << 20
"""A longer input or expected output does not fit into a sandbox."""
_REQUEST_BYTES = 8 << 20
_REQUEST_TESTS = 64
_CHECKER_RUNS = 16

Exchange = Generator[bytes, "Reply", Judgement]
"""Yields requests, takes the runner's replies, returns the judgement."""


@dataclass
class Reply:
    """All that a runner said to one request."""

    base_kb: int
    raws: list[Raw] = field(default_factory=list[Raw])
    oom_kills: int = 0


def exchange(program: Program, serial: int, steps: bool) -> Exchange:
    """The requests that judge ``program``; each has the id ``serial``."""
    results: list[TestResult] = []
    for tests in _chunks(program):
        if max(map(_size, tests)) > MAX_INPUT_BYTES:
            reason = f"a test of more than {MAX_INPUT_BYTES >> 20} MiB"
            results += [TestResult(Verdict.SANDBOX_ERROR, detail=reason) for _ in tests]
            continue
        reply = yield request(serial, program, tests, steps)
        if len(reply.raws) != len(tests) and not (program.stop_at_first_failure and reply.raws):
            raise RuntimeError(f"the runner answered {len(reply.raws)} of {len(tests)} tests")
        chunk = [_result(program, test, raw, reply) for test, raw in zip(tests, reply.raws, strict=False)]
        if program.checker is not None:
            yield from _check(program, program.checker, serial, tests, reply.raws, chunk)
        results += chunk
        if program.stop_at_first_failure and any(one.verdict is not Verdict.ACCEPTED for one in chunk):
            break
    if program.stop_at_first_failure:
        failed = [index for index, one in enumerate(results) if one.verdict is not Verdict.ACCEPTED]
        results = results[: failed[0] + 1] if failed else results
    if len(results) != len(program.tests) and all(one.verdict is Verdict.ACCEPTED for one in results):
        raise RuntimeError(f"only {len(results)} of {len(program.tests)} tests were run")
    return judgement(program, results)


def _size(test: TestCase) -> int:
    expected = len(test.expected) if isinstance(test.expected, str) else 0
    return max(len(test.stdin), len(test.code), expected)


def _chunks(program: Program) -> Iterator[list[TestCase]]:
    """Tests in requests of one kind and bounded size; small first when the first failure ends it."""
    most = 1 if program.stop_at_first_failure else _REQUEST_TESTS
    for _, group in groupby(program.tests, lambda test: test.kind):
        chunk: list[TestCase] = []
        size = 0
        for test in group:
            if chunk and (len(chunk) >= most or size + _size(test) > _REQUEST_BYTES):
                yield chunk
                chunk, size = [], 0
                most = min(4 * most, _REQUEST_TESTS)
            chunk.append(test)
            size += _size(test)
        yield chunk


def _result(program: Program, test: TestCase, raw: Raw, reply: Reply) -> TestResult:
    verdict, detail = ended(raw, program.limits, reply.base_kb, reply.oom_kills) or answered(raw, program, test)
    return result_of(raw, verdict, detail, reply.base_kb)


def _check(
    program: Program, checker: str, serial: int, tests: Sequence[TestCase], raws: Sequence[Raw], chunk: list[TestResult]
) -> Generator[bytes, Reply, None]:
    """Let the checker decide about every stdio test whose program ended normally; changes ``chunk`` in place."""
    decided = (Verdict.ACCEPTED, Verdict.WRONG_ANSWER)
    open_ones = [i for i, one in enumerate(chunk) if one.verdict in decided and tests[i].kind == "stdio"]
    for start in range(0, len(open_ones), _CHECKER_RUNS):
        part = open_ones[start : start + _CHECKER_RUNS]
        reply = yield checker_request(serial, checker, [(tests[i], raws[i].stdout) for i in part])
        for index, raw in zip(part, reply.raws, strict=True):
            verdict, detail = _opinion(raw, reply)
            chunk[index] = result_of(raws[index], verdict, detail, reply.base_kb)


def _opinion(raw: Raw, reply: Reply) -> tuple[Verdict, str]:
    """A checker accepts by exit code 0 and output that is empty or starts with a number above 0."""
    failure = ended(raw, CHECKER_LIMITS, reply.base_kb, reply.oom_kills)
    if failure is not None and failure[1] in ("SyntaxError", "IndentationError", "TabError"):
        return Verdict.SANDBOX_ERROR, f"the checker does not compile: {failure[1]}"
    if failure is not None:
        return Verdict.WRONG_ANSWER, f"the checker said no: {failure[1]}"
    words = raw.stdout.split(maxsplit=1)
    if not words:
        return Verdict.ACCEPTED, ""
    try:
        score = float(words[0])
    except ValueError:
        return Verdict.WRONG_ANSWER, "the checker said no"
    return (Verdict.ACCEPTED, "") if score > 0 else (Verdict.WRONG_ANSWER, "the checker said no")
