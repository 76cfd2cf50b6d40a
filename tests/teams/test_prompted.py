"""Prompt-only teams on real problems, through the real sandbox, with answers that are prepared."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from corecode.arms import ARMS, arm
from corecode.config import PromptedConfig, SamplingConfig
from corecode.datasets import humaneval
from corecode.errors import InfrastructureError
from corecode.execution import Executor
from corecode.generation.generator import Chat, Completion
from corecode.problems import Problem, Test
from corecode.teams import Answer, session
from corecode.teams.collabcoder import decision
from corecode.teams.mapcoder import confidence, exemplars_in
from corecode.teams.prompted import PROMPTED, PromptedTeam
from corecode.teams.samples import Report, Tester, sample_tests, sandbox_tester
from corecode.teams.session import Length, play
from corecode.teams.thinking import numbered
from sandbox import Sandbox, SandboxUnavailable, Verdict, open_sandbox

HUMANEVAL = {problem.id: problem for problem in humaneval.read()}
ADD = HUMANEVAL["HumanEval/53"]
"""``add(x, y)``; its statement shows add(2, 3) and add(5, 7)."""
DOUBLE = Problem(
    id="double",
    statement="Read a number and print its double.",
    tests=[Test(input="4", output="8"), Test(input="-1", output="-2")],
    examples=[Test(input="3", output="6")],
)
RIGHT = "```python\ndef add(x, y):\n    return x + y\n```"
WRONG = "```python\ndef add(x, y):\n    return x * y\n```"
SAMPLING: dict[Length, SamplingConfig] = {
    "text": SamplingConfig(max_tokens=50),
    "program": SamplingConfig(max_tokens=60),
    "both": SamplingConfig(max_tokens=110),
}


class Prepared:
    """Gives its texts out in turn and counts a token for each word; remembers what it was asked."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.prompts: list[str] = []
        self.limits: list[int] = []
        self.seeds: list[int] = []

    def generate(self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int) -> list[list[Completion]]:
        assert n == 1
        self.seeds.append(seed)
        answers: list[list[Completion]] = []
        for chat in chats:
            self.prompts.append(chat[0]["content"])
            self.limits.append(sampling.max_tokens)
            text = self.texts.pop(0)
            answers.append([Completion(text, (), len(text.split()), False)])
        return answers


@pytest.fixture(scope="module")
def opened() -> Iterator[Sandbox]:
    try:
        sandbox = open_sandbox(workers=1)
    except SandboxUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"required in CI: {error}", pytrace=False)
        pytest.skip(f"no sandbox: {error}")
    with sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def trial(opened: Sandbox) -> Tester:
    return sandbox_tester(Executor(opened))


def solve(
    name: str, trial: Tester, problem: Problem = ADD, rounds: int = 2, plans: int = 2, **roles: Prepared
) -> Answer:
    """One attempt; every prepared text has to be used up."""
    config = PromptedConfig(rounds=rounds, plans=plans)
    ((answer,),) = play(PROMPTED[name].method, [problem], 1, roles, SAMPLING, trial, config, seed=1)
    assert {role: player.texts for role, player in roles.items()} == {role: [] for role in roles}
    assert set(answer.tokens) <= set(PROMPTED[name].roles)
    return answer


def judged(opened: Sandbox, answer: Answer) -> Verdict:
    """What the problem's own tests say."""
    return Executor(opened).judge([(answer.problem, answer.program)])[0].verdict


def test_chain_of_thought(trial: Tester, opened: Sandbox) -> None:
    coder = Prepared(f"Adding is enough.\n{RIGHT}")
    answer = solve("cot", trial, coder=coder)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert answer.tokens == {"coder": 12}
    assert coder.limits == [110], "reasoning and program share one answer"
    assert ADD.statement.strip() in coder.prompts[0]
    assert solve("cot", trial, coder=Prepared("I do not know.")).program is None


@pytest.mark.parametrize("name", ["scot", "self-planning"])
def test_a_plan_then_the_program(name: str, trial: Tester, opened: Sandbox) -> None:
    planner, coder = Prepared("Input: x, y: int\n1. add x and y"), Prepared(RIGHT)
    answer = solve(name, trial, planner=planner, coder=coder)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert answer.tokens == {"planner": 9, "coder": 9}
    assert (planner.limits, coder.limits) == ([50], [60])
    assert answer.thought is not None
    assert answer.thought in coder.prompts[0]
    assert answer.thought_valid is None


@pytest.mark.parametrize("name", ["scot", "self-planning"])
def test_without_a_plan_the_program_is_asked_for_directly(name: str, trial: Tester, opened: Sandbox) -> None:
    coder = Prepared(RIGHT)
    answer = solve(name, trial, planner=Prepared("<think>nothing comes to mind"), coder=coder)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert answer.thought is None
    assert "lan:" not in coder.prompts[0]
    assert "Sketch" not in coder.prompts[0]


def test_the_numbered_lines_are_the_plan() -> None:
    assert numbered("Sure!\n1. read\n```\n2. x = 1\n```\n**2.** print\nGood luck") == "1. read\n**2.** print"
    assert numbered("read, then print") == "read, then print"


def test_reflexion_learns_from_the_report(trial: Tester, opened: Sandbox) -> None:
    coder, reflector = Prepared(WRONG, RIGHT), Prepared("It multiplies; add instead.")
    answer = solve("reflexion", trial, coder=coder, reflector=reflector)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert answer.tokens == {"coder": 18, "reflector": 4}
    assert "`assert add(2, 3) == 5` does not hold: it gave another answer." in reflector.prompts[0]
    assert "It multiplies; add instead." in coder.prompts[1]
    hidden = [line for one in ADD.tests for line in one.code.splitlines() if "assert" in line]
    assert not any(line.strip() in prompt for line in hidden for prompt in coder.prompts + reflector.prompts)


def test_reflexion_stops_when_the_samples_pass(trial: Tester) -> None:
    reflector = Prepared()
    assert solve("reflexion", trial, coder=Prepared(RIGHT), reflector=reflector).tokens == {"coder": 9}
    assert reflector.prompts == []


def test_reflexion_ends_at_its_limit_and_keeps_a_program(trial: Tester, opened: Sandbox) -> None:
    coder = Prepared(WRONG, "No code today.", "Nor now.")
    reflector = Prepared("", "Write code.")
    answer = solve("reflexion", trial, coder=coder, reflector=reflector)
    assert judged(opened, answer) is Verdict.WRONG_ANSWER, "the last answer that holds a program"
    assert "There was no Python code block" in reflector.prompts[1]
    assert "(none)" in coder.prompts[1], "an empty reflection is not remembered"
    assert answer.tokens == {"coder": 9 + 3 + 2, "reflector": 2}


def test_standard_input_is_reported_with_what_was_printed(trial: Tester, opened: Sandbox) -> None:
    coder = Prepared("```python\nprint(int(input()) + 1)\n```", "```python\nprint(2 * int(input()))\n```")
    reflector = Prepared("Double it.")
    answer = solve("reflexion", trial, DOUBLE, coder=coder, reflector=reflector)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert "For the input\n3\nthe output should be\n6\nbut it printed\n4" in reflector.prompts[0]
    assert "-1" not in "".join(coder.prompts + reflector.prompts), "the tests that judge are not shown"


def test_mapcoder_takes_the_surest_plan_first(trial: Tester, opened: Sandbox) -> None:
    retriever = Prepared("Example 1\nProblem: multiply\nExample 2:\nProblem: sum a list")
    planner = Prepared("multiply them", "sum them", "I am 20 % sure", "85")
    coder = Prepared(RIGHT)
    answer = solve("mapcoder", trial, retriever=retriever, planner=planner, coder=coder, debugger=Prepared())
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert "Problem: multiply" in planner.prompts[0]
    assert "Problem: sum a list" in planner.prompts[1]
    assert "Plan:\nsum them" in coder.prompts[0]
    assert answer.thought == "sum them"
    assert answer.tokens == {"retriever": 10, "planner": 2 + 2 + 5 + 1, "coder": 9}
    assert len(planner.seeds) == 2, "both plans are made at the same time"


def test_mapcoder_debugs_then_goes_to_the_next_plan(trial: Tester, opened: Sandbox) -> None:
    retriever = Prepared("Example 1\nA\nExample 2\nB\nExample 3\nC")
    planner = Prepared("first", "second", "90", "10")
    coder, debugger = Prepared(WRONG, WRONG), Prepared(WRONG, "no code", WRONG, RIGHT)
    answer = solve("mapcoder", trial, retriever=retriever, planner=planner, coder=coder, debugger=debugger)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert answer.thought == "second"
    assert [("first" in p, "second" in p) for p in debugger.prompts] == [(True, False)] * 2 + [(False, True)] * 2
    assert "(there was no program)" not in debugger.prompts[1]


def test_mapcoder_ends_when_all_plans_are_used_up(trial: Tester, opened: Sandbox) -> None:
    retriever, planner = Prepared("Example 1\nA\nExample 2\nB"), Prepared("first", "second", "x", "y")
    coder, debugger = Prepared(WRONG, WRONG), Prepared(*[WRONG] * 3, "no code")
    answer = solve("mapcoder", trial, retriever=retriever, planner=planner, coder=coder, debugger=debugger)
    assert judged(opened, answer) is Verdict.WRONG_ANSWER
    assert answer.tokens["coder"] == 18


def test_mapcoder_with_malformed_recollections(trial: Tester, opened: Sandbox) -> None:
    retriever, planner, coder = Prepared(""), Prepared("add", "maybe"), Prepared(RIGHT)
    answer = solve("mapcoder", trial, retriever=retriever, planner=planner, coder=coder, debugger=Prepared())
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert "Similar problem:\n(none)" in planner.prompts[0]
    assert exemplars_in("I remember sorting.") == ["I remember sorting."]
    assert exemplars_in("Intro\n**Example 1**\na\n### Problem 2: b\nc\n") == ["a", "c"]
    assert [confidence(text) for text in ("85/100", "sure", "1234, so 7", "", "9" * 10_000)] == [85, 0, 7, 0, 0]


def look(change: str, sure: str = "80") -> str:
    return f"Because.\nChange: {change}\nConfidence: {sure}"


def test_collabcoder_changes_the_plan_or_the_code(trial: Tester, opened: Sandbox) -> None:
    planner = Prepared("multiply", "add")
    coder = Prepared(WRONG, WRONG, RIGHT)
    debugger = Prepared(
        *(look("plan"), look("code", "10"), look("plan"), "Rethink."),
        *(look("plan", "10"), look("code"), look("code"), "Use plus."),
    )
    answer = solve("collabcoder", trial, planner=planner, coder=coder, debugger=debugger)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert answer.thought == "add"
    assert "Rethink." in planner.prompts[1]
    assert "Plan:\nadd" in coder.prompts[1]
    assert "Use plus." in coder.prompts[2]
    assert "Repair 1: the plan was changed" in debugger.prompts[7]
    assert answer.tokens["planner"] == 2
    assert len(debugger.seeds) == 4, "the three looks are one round"


def test_collabcoder_with_malformed_looks_ends_at_its_limit(trial: Tester, opened: Sandbox) -> None:
    coder = Prepared(WRONG, "no code", WRONG)
    debugger = Prepared(*["hm", "", "Change: everything", ""] * 2)
    answer = solve("collabcoder", trial, planner=Prepared(""), coder=coder, debugger=debugger)
    assert judged(opened, answer) is Verdict.WRONG_ANSWER
    assert "Repair 1: the code was changed" in debugger.prompts[-1], "without a vote the code changes"
    assert answer.thought is None
    assert decision([look("plan"), look("code"), look("code")]) == "code"
    assert decision([look("plan", "100"), look("code", "60"), look("code", "60")]) == "plan"
    assert decision([look("Plan", ""), look("code", "50"), "?"]) == "plan", "0.4 x 0.5 is more than 0.3 x 0.5"


def test_attempts_part_and_stay_a_batch(trial: Tester) -> None:
    """Two problems, two attempts each: who needs no repair waits for nobody, and every answer finds its attempt."""
    double = "```python\nprint(2 * int(input()))\n```"
    coder = Prepared(RIGHT, WRONG, double, "no code", RIGHT, double)
    reflector = Prepared("add it", "double it")
    config = PromptedConfig(rounds=1)
    roles = {"coder": coder, "reflector": reflector}
    groups = play(PROMPTED["reflexion"].method, [ADD, DOUBLE], 2, roles, SAMPLING, trial, config, seed=1)
    assert [[answer.problem.id for answer in group] for group in groups] == [[ADD.id] * 2, [DOUBLE.id] * 2]
    assert [answer.completion for group in groups for answer in group] == [RIGHT, RIGHT, double, double]
    assert (len(coder.seeds), len(set(coder.seeds)), len(reflector.seeds)) == (2, 2, 1)


def test_an_outage_is_no_feedback() -> None:
    def broken(drafts: Sequence[tuple[Problem, str | None]]) -> list[Report]:
        return [Report(0, 1, "", "the runner died") for _ in drafts]

    answer = solve("reflexion", broken, coder=Prepared(RIGHT), reflector=Prepared())
    assert answer.lost == "sandbox: the runner died"

    class Silent:
        def generate(
            self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int
        ) -> list[list[Completion]]:
            raise InfrastructureError("no answer")

    with pytest.raises(InfrastructureError):
        play(PROMPTED["cot"].method, [ADD], 1, {"coder": Silent()}, SAMPLING, broken, PromptedConfig(), seed=1)


MOST_CALLS = {
    "cot": 1,
    "scot": 2,
    "self-planning": 2,
    "reflexion": 1 + 2 * 2,
    "mapcoder": 1 + 2 * 2 + 2 * 3,
    "collabcoder": 2 + 2 * 6,
}
"""Questions of one attempt with 2 repairs and 2 plans, by the formulas of docs/evaluation.md."""
GARBAGE = (
    "",
    " \n\t",
    "9" * 10_000,
    "```",
    "```python\n",
    "<think>never closed ```python\nx\n```",
    "</think>",
    "{statement} {nothing} {0} {{",
    "Change: plan\nConfidence: 999999999999",
    "change change plan code\nconfidence: -1",
    "Example 1\nExample 2\nExample 3\n\x00\x1b[2J",
    "1. " * 3000,
    "\u202e\ud7ff\U0010ffff </script><script>alert(1)</script>",
    RIGHT,
    WRONG,
)


class Babbling:
    """Answers with anything, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.asked = 0

    def generate(self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int) -> list[list[Completion]]:
        self.asked += len(chats)
        return [[Completion(self.random.choice(GARBAGE), (), 3, self.random.random() < 0.3)] for _ in chats]


@pytest.mark.parametrize("name", MOST_CALLS)
def test_garbage_neither_stops_a_team_nor_keeps_it_going(name: str) -> None:
    """300 attempts with answers that make no sense: each ends within its bound, with its tokens and its own text."""
    assert set(MOST_CALLS) == set(PROMPTED)

    def tester(drafts: Sequence[tuple[Problem, str | None]]) -> list[Report]:
        return [Report(0, 1, "it failed") for _ in drafts]

    for seed in range(300):
        one = Babbling(seed)
        roles = dict.fromkeys(PROMPTED[name].roles, one)
        config = PromptedConfig(rounds=2, plans=2)
        ((answer,),) = play(PROMPTED[name].method, [ADD], 1, roles, SAMPLING, tester, config, seed=seed)
        assert one.asked <= MOST_CALLS[name]
        assert sum(answer.tokens.values()) == 3 * one.asked
        assert answer.completion in GARBAGE
        assert answer.lost is None


def test_sample_tests_are_public(trial: Tester) -> None:
    assert [one.code for one in sample_tests(ADD)] == ["assert add(2, 3) == 5", "assert add(5, 7) == 12"]
    assert sample_tests(DOUBLE) == DOUBLE.examples
    found = {problem.id: sample_tests(problem) for problem in HUMANEVAL.values()}
    assert sum(1 for tests in found.values() if tests) > 120


def test_sample_tests_of_statements_agree_with_the_references(trial: Tester) -> None:
    known = {"HumanEval/47": "its statement is wrong", "HumanEval/130": "its statement shows parts of the result"}
    reports = trial([(problem, problem.references[0].program) for problem in HUMANEVAL.values()])
    bad = [problem for problem, report in zip(HUMANEVAL, reports, strict=True) if not report.good]
    assert bad == list(known)


def test_without_sample_tests_a_program_only_has_to_compile(trial: Tester) -> None:
    bare = DOUBLE.model_copy(update={"id": "bare", "examples": []})
    reports = trial([(bare, "print(1)"), (bare, "print(1"), (bare, None)])
    assert [report.good for report in reports] == [True, False, False]
    assert "does not compile" in reports[1].text


def test_the_documented_team_plays(trial: Tester, opened: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of docs/evaluation.md, with its prompts given here."""
    text = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    prompts = {"twice/read": "Read {program}: {report}", "twice/write": "{statement} Remark: {remark}"}
    known = session._template
    monkeypatch.setattr(session, "_template", lambda name: prompts.get(name) or known(name))
    monkeypatch.setitem(PROMPTED, "twice", PromptedTeam(("coder", "reader"), "twice", names["twice"]))
    coder, reader = Prepared(WRONG, RIGHT), Prepared("It multiplies.")
    answer = solve("twice", trial, coder=coder, reader=reader)
    assert judged(opened, answer) is Verdict.ACCEPTED
    assert coder.prompts[1].endswith("Remark: It multiplies.")


def test_every_team_is_an_arm_on_any_weights() -> None:
    for name, team in PROMPTED.items():
        for weights in ("base", "sft", "coder-grpo-only", "final", "single-direct"):
            assert arm(f"{weights}/{name}").prompted is team
    assert set(arm("final/mapcoder").stages) == {"coder_grpo"}
    assert len(ARMS) == 13 + 5 * len(PROMPTED)
