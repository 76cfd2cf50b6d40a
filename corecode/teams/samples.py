"""Sample tests: what a team may try its programs on. They are public; the tests that judge are never shown.

They are the problem's public examples. Where a problem has none, calls with their results are read from its statement
(``>>> f(2)`` and the line below, ``f(2) == 4``, ``f(2) -> 4``), which everybody can read too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from corecode.execution import Executor
from corecode.problems import Problem, Test
from sandbox import TestResult, Verdict

SHOWN = 3
"""Failing tests that a report tells of."""
LONGEST = 300
"""Characters of an input or output in a report."""
_PROMPT = re.compile(r"\s*>>>\s*(?P<call>.+)")
_ARROW = r"\s*(?:==|=>|->|➞|→|=|#?\s*(?:should\s+)?returns?:?)\s*(?P<value>.+)"
_SAID = {
    Verdict.RUNTIME_ERROR: "it failed with {detail}",
    Verdict.TIME_LIMIT: "it took too long",
    Verdict.MEMORY_LIMIT: "it used too much memory",
    Verdict.OUTPUT_LIMIT: "it printed too much",
}


@dataclass(frozen=True)
class Report:
    """How a program did on the sample tests."""

    passed: int
    total: int
    """0 where the problem has none: then a program that compiles counts as good."""
    text: str
    """What went wrong, for a prompt; empty when nothing did."""
    lost: str | None = None
    """Why nothing is known: the sandbox failed."""

    @property
    def good(self) -> bool:
        """No reason to change the program."""
        return not self.text and self.lost is None


Tester = Callable[[Sequence[tuple[Problem, str | None]]], list[Report]]
"""Tries programs on their problems' sample tests; reports in input order."""


def sample_tests(problem: Problem) -> list[Test]:
    """The public tests of a problem; empty when there is none."""
    if problem.examples or problem.kind == "stdio" or not problem.entry_point:
        return list(problem.examples)
    return [Test(code=code) for code in stated_asserts(problem.statement, problem.entry_point)]


def stated_asserts(statement: str, entry_point: str) -> list[str]:
    """Assert statements for the calls of a function whose results a statement gives as plain values."""
    arrow = re.compile(rf"(?P<call>{re.escape(entry_point)}\(.*\)){_ARROW}")
    lines = statement.split("\n")
    found: list[str] = []
    for number, line in enumerate(lines):
        prompt = _PROMPT.fullmatch(line)
        if prompt:
            result = lines[number + 1] if number + 1 < len(lines) else ""
            code = _assert(prompt["call"], result, entry_point)
        else:
            match = arrow.search(line)
            code = _assert(match["call"], match["value"], entry_point) if match else None
        if code is not None and code not in found:
            found.append(code)
    return found


def _assert(call: str, value: str, entry_point: str) -> str | None:
    """The assert, when both sides are what they should be: a call of the function with plain data, and plain data."""
    try:
        tree = ast.parse(call.strip(), mode="eval")
        expected = ast.literal_eval(value.strip().removesuffix("."))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _names(node.func, entry_point)]
        for argument in (argument for one in calls for argument in (*one.args, *(k.value for k in one.keywords))):
            ast.literal_eval(argument)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return f"assert {ast.unparse(tree)} == {expected!r}" if calls else None


def _names(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def sandbox_tester(executor: Executor) -> Tester:
    """A tester that runs programs in a sandbox. Give it an executor of its own: it sees other tests."""

    def test(drafts: Sequence[tuple[Problem, str | None]]) -> list[Report]:
        public = {problem.id: sample_tests(problem) for problem, _ in drafts}
        jobs = [(_with(p, public[p.id]), source) for p, source in drafts if source is not None and public[p.id]]
        judgements = iter(executor.judge(jobs))
        reports: list[Report] = []
        for problem, source in drafts:
            tests = public[problem.id]
            if source is None:
                reports.append(Report(0, len(tests), "There was no Python code block in the answer."))
            elif not tests:
                reports.append(_compiled(problem, source))
            else:
                judged = next(judgements)
                lost = judged.detail if judged.verdict is Verdict.SANDBOX_ERROR else None
                reports.append(Report(judged.passed, judged.total, _text(problem, tests, judged.tests), lost))
        return reports

    return test


def _with(problem: Problem, tests: list[Test]) -> Problem:
    kind: Any = "asserts" if tests[0].code else problem.kind
    return problem.model_copy(update={"tests": tests, "kind": kind})


def _compiled(problem: Problem, source: str) -> Report:
    try:
        compile(problem.whole(source), "program", "exec", flags=ast.PyCF_ONLY_AST)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return Report(0, 0, f"The program does not compile: {error}")
    return Report(0, 0, "")


def _text(problem: Problem, tests: Sequence[Test], results: Sequence[TestResult]) -> str:
    failed = [pair for pair in zip(tests, results, strict=True) if pair[1].verdict is not Verdict.ACCEPTED]
    return "\n".join(_failure(problem, test, result) for test, result in failed[:SHOWN])


def _failure(problem: Problem, test: Test, result: TestResult) -> str:
    said = _SAID.get(result.verdict, "it gave another answer").format(detail=result.detail or "an error")
    if test.code:
        return f"- `{_clip(test.code)}` does not hold: {said}."
    if problem.kind == "call":
        arguments = ", ".join([*map(repr, test.args), *(f"{name}={value!r}" for name, value in test.kwargs.items())])
        return f"- {test.call}({_clip(arguments)}) should return {_clip(repr(test.expected))}: {said}."
    if result.verdict is Verdict.WRONG_ANSWER:
        said = f"it printed\n{_clip(result.stdout) or '(nothing)'}"
    return f"- For the input\n{_clip(test.input)}\nthe output should be\n{_clip(test.output)}\nbut {said}"


def _clip(text: str) -> str:
    text = text.strip()
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."
