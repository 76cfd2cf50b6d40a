"""What is wrong with problems: some are refused, some are kept with a flag that keeps them out of rewards.

Refused: a record that is no problem (no tests, no text), an id that is already there, a problem that is there with the
same statement and tests. Flagged:

- ``several_answers``: the statement allows several right answers, or the tests show a certificate beside a yes, and
  there is no checker. A plain comparison would call right answers wrong.
- ``names_differ``: the tests call another function than the statement shows.
- ``contradictory_tests``: the same input with different outputs, and no checker.
- ``duplicate_statement``: the statement of an earlier problem, with other tests.
- ``needs_image``: the statement shows a picture where it states what is asked.
- ``broken_tests``: no reference solution passes the tests in the sandbox (:func:`check_references`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from corecode.datasets.asserts import used_names
from corecode.errors import InfrastructureError
from corecode.problems import Problem
from sandbox import Judgement, Verdict

Judge = Callable[[Sequence[tuple[Problem, str]]], Sequence[Judgement]]
"""Judges programs on their problems, in order."""

_SEVERAL = re.compile(
    r"\b(?:print|output|find|display|choose|report|return|give|write|show) any\b"
    r"|\bany of (?:them|these|those)\b"
    r"|\bany (?:valid|correct|suitable|acceptable|optimal|such|one|possible) (?:answer|solution|of (?:them|these))\b"
    r"|\b(?:multiple|several|many|more than one|different) (?:\w+ ){0,2}(?:answers?|solutions?) "
    r"(?:exists?|are possible|is possible|possible|satisfy|to)\b"
    r"|\bin any order\b"
    r"|\b(?:if )?there (?:are|is) (?:multiple|several|many|more than one) (?:\w+ ){0,2}(?:answers?|solutions?)\b",
    re.IGNORECASE,
)
_SHOWN = re.compile(r"\bdef\s+(\w+)\s*\(")
_YES_NO = {"yes", "no"}


@dataclass(frozen=True)
class Issue:
    """What was found about one record or problem."""

    problem: str
    """Its id, or where the record stands."""
    reason: str
    detail: str = ""


@dataclass
class Examined:
    """Problems after the checks that need no sandbox."""

    problems: list[Problem] = field(default_factory=list[Problem])
    refused: list[Issue] = field(default_factory=list[Issue])
    flagged: list[Issue] = field(default_factory=list[Issue])


def examine(problems: Iterable[Problem]) -> Examined:
    """Refuse duplicates, flag what rewards must not use. Order is kept."""
    result = Examined()
    ids: set[str] = set()
    contents: dict[str, str] = {}
    statements: dict[str, str] = {}
    for problem in problems:
        statement = " ".join(problem.statement.split())
        content = _digest(statement, *(test.model_dump_json() for test in problem.tests))
        if problem.id in ids:
            result.refused.append(Issue(problem.id, "duplicate_id", "an earlier problem has this id"))
            continue
        if content in contents:
            result.refused.append(Issue(problem.id, "duplicate", f"the same as {contents[content]}"))
            continue
        found = static_flags(problem)
        if statement in statements:
            found["duplicate_statement"] = f"the statement of {statements[statement]}"
        ids.add(problem.id)
        contents[content] = problem.id
        statements.setdefault(statement, problem.id)
        result.flagged += [Issue(problem.id, reason, detail) for reason, detail in found.items()]
        result.problems.append(with_flags(problem, found))
    return result


def _digest(*parts: str) -> str:
    """Stands for the parts: a data set's tests can be larger than memory should hold twice."""
    found = hashlib.sha256()
    for part in parts:
        found.update(f"{len(part)} {part}".encode(errors="surrogatepass"))
    return found.hexdigest()


def with_flags(problem: Problem, flags: Iterable[str]) -> Problem:
    """The problem with more flags; itself where they are there already."""
    all_flags = list(dict.fromkeys([*problem.flags, *flags]))
    return problem if all_flags == problem.flags else problem.model_copy(update={"flags": all_flags})


def static_flags(problem: Problem) -> dict[str, str]:
    """Flags of a problem by itself, each with its detail."""
    found: dict[str, str] = {}
    if problem.checker is None and problem.kind != "asserts":
        phrase = _SEVERAL.search(problem.statement)
        if phrase:
            found["several_answers"] = f"the statement says {' '.join(phrase[0].split())!r} and there is no checker"
        elif problem.kind == "stdio" and _has_certificates([test.output for test in problem.tests]):
            found["several_answers"] = "a yes comes with a certificate and there is no checker"
        elif _contradictory(problem):
            found["contradictory_tests"] = "an input has two different outputs"
    differing = _other_name(problem)
    if differing:
        found["names_differ"] = differing
    if "<image>" in problem.statement.partition("\nNote")[0].partition("\nInput")[0] and not problem.examples:
        found["needs_image"] = "the statement shows a picture and there is no example"
    return found


def _has_certificates(outputs: Sequence[str]) -> bool:
    """Whether a line "yes" is followed by anything but such words, and another output is a plain "no"."""
    lines = [[line.strip().lower() for line in output.strip().split("\n")] for output in outputs]
    shown = any(
        line == "yes" and after and not set(after.split()) <= _YES_NO for one in lines for line, after in pairwise(one)
    )
    return shown and ["no"] in lines


def _contradictory(problem: Problem) -> bool:
    outputs: dict[str, str] = {}
    for test in problem.tests:
        given = test.input if problem.kind == "stdio" else repr((test.call, test.args, test.kwargs))
        expected = " ".join(test.output.split()) if problem.kind == "stdio" else repr(test.expected)
        if outputs.setdefault(given, expected) != expected:
            return True
    return False


def _other_name(problem: Problem) -> str:
    """Where the tests call none of the functions that the statement shows; empty where they agree."""
    if problem.kind == "stdio":
        return ""
    shown = set(_SHOWN.findall(problem.statement))
    for line in problem.statement.split("\n"):
        if line.strip().startswith("assert "):
            shown |= used_names(line.strip())
    if not shown:
        return ""
    for number, test in enumerate(problem.tests, 1):
        used = {test.call} if problem.kind == "call" else used_names(test.code)
        if not used & shown and used:
            wanted = problem.entry_point or ", ".join(sorted(used))
            return f"test {number} calls {wanted}, the statement shows {', '.join(sorted(shown))}"
    return ""


def check_references(problems: Sequence[Problem], judge: Judge) -> tuple[list[Problem], list[Issue]]:
    """Judge every reference solution; a problem of which none is right gets the flag ``broken_tests``.

    Raises:
        InfrastructureError: when a reference could not be judged.
    """
    jobs = [(problem, reference.program) for problem in problems for reference in problem.references]
    judgements = iter(judge(jobs))
    checked: list[Problem] = []
    issues: list[Issue] = []
    for problem in problems:
        failures: list[str] = []
        for _ in problem.references:
            judgement = next(judgements)
            if judgement.verdict is Verdict.SANDBOX_ERROR:
                raise InfrastructureError(f"the reference of problem {problem.id!r} has no verdict: {judgement.detail}")
            if judgement.verdict is not Verdict.ACCEPTED:
                failures.append(f"{judgement.verdict.value} on {judgement.total - judgement.passed} tests")
        if failures and len(failures) == len(problem.references):
            issues.append(Issue(problem.id, "broken_tests", f"its reference solutions fail: {', '.join(failures)}"))
            problem = with_flags(problem, ["broken_tests"])
        checked.append(problem)
    return checked, issues
