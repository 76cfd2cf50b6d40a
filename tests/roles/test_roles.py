"""Roles: what each is shown, and that the warm-up's targets are read back by the parser used everywhere."""

from __future__ import annotations

import pytest

from corecode.errors import UserError
from corecode.problems import Problem, Reference, Test
from corecode.roles.roles import ROLES, Prompts, role
from corecode.roles.thought import AlgorithmicThought

STDIO = Problem(
    id="sum",
    statement="Print the sum of {two} {thought} numbers.",
    tests=[Test(input="1 2\n", output="3\n")],
    examples=[Test(input="4 5\n", output="9\n")],
)
CALL = Problem(
    id="add",
    statement="Write add(a, b), the sum.",
    kind="call",
    entry_point="add",
    tests=[Test(call="add", args=[1, 2], expected=3)],
    examples=[Test(call="add", args=[1], kwargs={"b": 2}, expected=3)],
)
THOUGHT = AlgorithmicThought("two integers -> one", ["add them", "print the sum"]).render()
REFERENCE = Reference(program="print(sum(map(int, input().split())))", thought=THOUGHT)


def content(name: str, prompts: Prompts, problem: Problem = STDIO, thought: str | None = None, **shown: bool) -> str:
    messages = role(name, prompts).messages(problem, thought, **shown)
    assert [message["role"] for message in messages] == ["user"]
    return messages[0]["content"]


def test_compact_prompts_are_exactly_the_documented_headings() -> None:
    statement = STDIO.statement
    assert content("planner", "compact") == f"### Problem\n{statement}\n### Thought\n"
    assert (
        content("coder", "compact", thought=THOUGHT) == f"### Problem\n{statement}\n### Thought\n{THOUGHT}\n### Code\n"
    )
    assert content("coder", "compact") == f"### Problem\n{statement}\n### Code\n"
    assert content("coder", "compact", thought=THOUGHT, show_problem=False) == f"### Thought\n{THOUGHT}\n### Code\n"
    assert content("solver", "compact") == f"### Problem\n{statement}\n### Solution\n"


def test_full_prompts_show_statement_examples_and_the_wanted_form() -> None:
    for name in ROLES:
        stdio, call = content(name, "full"), content(name, "full", CALL)
        assert STDIO.statement in stdio
        assert "Input:\n4 5\nOutput:\n9" in stdio
        assert "standard input" in stdio
        assert "add(1, b=2) returns 3" in call
        assert "function `add`" in call
        assert "standard input" not in call
        assert ("```python" in stdio) == (name != "planner")
    assert "Never write code" in content("planner", "full")
    for part in ("Input-Output:", "Steps:", "Conditions:", "Iteration:"):
        assert part in content("planner", "full")
        assert part in content("solver", "full")
    with_thought = content("coder", "full", thought=THOUGHT)
    assert THOUGHT in with_thought
    assert STDIO.statement in with_thought
    assert STDIO.statement not in content("coder", "full", thought=THOUGHT, show_problem=False)


def test_no_placeholder_is_left_and_braces_of_a_statement_stay() -> None:
    problem = STDIO.model_copy(update={"statement": "Count {a} and {statement}."})
    for prompts in ("full", "compact"):
        for name in ROLES:
            text = content(name, prompts, problem)
            assert "Count {a} and {statement}." in text
            assert "{" not in text.replace("Count {a} and {statement}.", "")


def test_the_targets_of_the_warm_up_are_read_back() -> None:
    for prompts in ("full", "compact"):
        planner = role("planner", prompts)
        artifact = planner.parse(planner.target(REFERENCE))
        assert (artifact.text, artifact.thought_valid, artifact.program) == (THOUGHT, True, None)
        coder = role("coder", prompts)
        artifact = coder.parse(coder.target(REFERENCE))
        assert (artifact.text, artifact.thought_valid, artifact.program) == (None, None, REFERENCE.program)
        solver = role("solver", prompts)
        artifact = solver.parse(solver.target(REFERENCE))
        assert (artifact.text, artifact.thought_valid, artifact.program) == (THOUGHT, True, REFERENCE.program)


def test_a_bad_completion_is_data() -> None:
    assert role("planner", "full").parse("Let me see.").thought_valid is False
    assert role("planner", "full").parse("<think>hm</think>\n" + THOUGHT).text == THOUGHT
    broken = role("solver", "compact").parse("Input-Output: x")
    assert (broken.thought_valid, broken.program) == (False, None)
    cut = role("solver", "compact").parse(f"{THOUGHT}\n### Code\nprint(1)\n<think>")
    assert cut.extraction is not None
    assert cut.extraction.truncated


def test_mistakes_of_a_caller_are_named() -> None:
    with pytest.raises(UserError, match="known roles: planner, coder, solver"):
        role("tester", "full")
    with pytest.raises(ValueError, match="takes no thought"):
        role("planner", "full").messages(STDIO, THOUGHT)
    with pytest.raises(ValueError, match="problem or a thought"):
        role("coder", "full").messages(STDIO, show_problem=False)
    with pytest.raises(ValueError, match="reference with a thought"):
        role("planner", "full").target(Reference(program="x"))
