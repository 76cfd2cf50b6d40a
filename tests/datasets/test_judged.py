"""Answers judged in a real sandbox: the way from a completion to a verdict, with nothing in between replaced."""

from __future__ import annotations

from corecode.datasets import humaneval
from corecode.problems import Problem, Test
from corecode.roles.roles import role
from sandbox import Sandbox, Verdict

CODER = role("coder", "full")


def verdicts(sandbox: Sandbox, problem: Problem, completions: list[str]) -> list[Verdict]:
    programs = [CODER.parse(completion).program for completion in completions]
    return [judgement.verdict for judgement in sandbox.judge([problem.program(program) for program in programs])]


def test_humaneval_references_pass_as_fenced_function_and_as_bare_body(sandbox: Sandbox) -> None:
    quirks = {"HumanEval/10", "HumanEval/32", "HumanEval/38", "HumanEval/50", "HumanEval/64", "HumanEval/115"}
    problems = [problem for i, problem in enumerate(humaneval.read()) if i % 20 == 0 or problem.id in quirks]
    for problem in problems:
        program = problem.references[0].program
        function = program[program.index(f"def {problem.entry_point}(") :]
        completions = [
            CODER.target(problem.references[0]),
            f"Here it is:\n```python\n{function}\n```",
            function.split(":\n", 1)[1],
            f"```python\ndef {problem.entry_point}(*args):\n    return 'wrong'\n```",
        ]
        found = verdicts(sandbox, problem, completions)
        assert found[:3] == [Verdict.ACCEPTED] * 3, problem.id
        assert found[3] in (Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR), problem.id


ADD = Problem(id="add", statement="Print the sum.", tests=[Test(input="1 2\n", output="3\n")])
SUM = "print(sum(map(int,input().split())))"


def test_a_summary_in_a_fence_and_every_label_are_judged_alike(sandbox: Sandbox) -> None:
    labels = ["```py\n{}\n```", "```python3\n{}\n```", "~~~python\n{}\n~~~", "```\n{}\n```", "```python\n{}", "{}"]
    completions = [label.format(SUM) for label in labels]
    completions.append(f"```python\n{SUM}\n```\nSummary:\n```\ntime O(n), memory O(n)\n```")
    assert verdicts(sandbox, ADD, completions) == [Verdict.ACCEPTED] * 7
    assert verdicts(sandbox, ADD, ["", "I cannot."]) == [Verdict.NO_CODE] * 2


def test_drafts_in_the_reasoning_are_not_judged(sandbox: Sandbox) -> None:
    problem = Problem(id="turn", statement="Reverse the line.", tests=[Test(input="ab\n", output="ba\n")])
    draft, final = 'try\n```python\nprint("draft")\n```\n', "```python\nprint(input()[::-1])\n```"
    completions = [f"<think>{draft}</think>\n{final}", f"{draft}</think>\n{final}", f"<think>{draft}"]
    assert verdicts(sandbox, problem, completions) == [Verdict.ACCEPTED, Verdict.ACCEPTED, Verdict.NO_CODE]
