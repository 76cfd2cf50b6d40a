"""Body or whole function: both stand for the same program."""

from __future__ import annotations

import pytest

from corecode.assemble import assemble, continued_function
from corecode.problems import Problem, Test

STATEMENT = '''from typing import List
BASE = 10


def helper(x: int) -> int:
    """One more."""
    return x + 1


def total(xs: List[int]) -> int:
    """ The sum of the numbers, each plus one.
    >>> total([1, 2])
    5
    """
'''
BODY = "    result = 0\n    for x in xs:\n        result += helper(x)\n    return result"


def run(source: str) -> object:
    scope: dict[str, object] = {}
    exec(compile(assemble(STATEMENT, "total", source), "program", "exec"), scope)
    return scope["total"]([1, BASE])  # type: ignore[operator]


BASE = 10


@pytest.mark.parametrize(
    "source",
    [
        BODY,
        "\n" + BODY + "\n",
        BODY.lstrip(),
        "\n".join(line[4:] for line in BODY.split("\n")),
        STATEMENT + BODY,
        f"def total(xs):\n{BODY}",
        f"def total(xs: List[int]) -> int:\n{BODY}\n\nprint(total([BASE]))",
        f"from __future__ import annotations\nimport math\n\ndef total(xs: List[int]) -> int:\n{BODY}",
        f"def helper(x):\n    return x + 1\n\ndef total(xs):\n{BODY}",
        "    return sum(helper(x) for x in xs)",
        "return sum(helper(x) for x in xs)",
        "    def one(x):\n        return x + 1\n    return sum(one(x) for x in xs)",
    ],
)
def test_body_and_whole_function_are_the_same_program(source: str) -> None:
    assert run(source) == 13


@pytest.mark.parametrize(
    "source", ["def other(xs):\n    return 13", "def total(xs:\n    return 13", "print(13)", "???", ""]
)
def test_anything_else_fails_as_what_it_is(source: str) -> None:
    with pytest.raises((SyntaxError, KeyError)):
        run(source)


def test_the_sandbox_gets_the_whole_program() -> None:
    problem = Problem(
        id="total",
        statement=STATEMENT,
        kind="call",
        entry_point="total",
        continues=True,
        tests=[Test(call="total", args=[[1]], expected=2)],
    )
    assert problem.program(BODY).source == f"{STATEMENT.rstrip()}\n{BODY}\n"
    assert problem.program(None).source is None
    assert problem.model_copy(update={"continues": False}).program(BODY).source == BODY
    with pytest.raises(ValueError, match="has to name its entry_point"):
        Problem(id="x", statement="def f():", continues=True, tests=[Test(input="1")])


def test_the_function_that_a_statement_begins() -> None:
    """Every statement of HumanEval, and nothing that is no beginning."""
    from corecode.datasets import humaneval

    problems = humaneval.read()
    assert len(problems) == 164
    assert {p.id: continued_function(p.statement) for p in problems} == {p.id: p.entry_point for p in problems}
    for text in ("Print the sum.", "", "x = 1", "def f():\n    return 1", "def f(:", "import os"):
        assert continued_function(text) is None
