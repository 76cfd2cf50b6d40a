"""Derived thoughts: deterministic, in the four parts, bounded, and true to the program."""

from __future__ import annotations

import pytest

from corecode.datasets import humaneval
from corecode.datasets.derive import MAX_CHARACTERS, MAX_ITEMS, MAX_STEPS, thought_from_program
from corecode.roles.thought import parse_thought

SCRIPT = """import sys

def solve():
    n = int(input())
    best = 0
    for value in map(int, input().split()):
        if value > best:
            best = value
    print(best if n else -1)

if __name__ == "__main__":
    solve()
"""


def test_a_function_is_told_in_four_parts() -> None:
    source = '''
def below(numbers: list[int], limit: float) -> bool:
    """Whether some number is below the limit."""
    for number in numbers:
        if number < limit:
            return True
    return False
'''
    assert thought_from_program(source, "below").render() == (
        "Input-Output: numbers (list of integer) and limit (number) -> truth value\n"
        "Steps:\n"
        "1. for each number of numbers: if number < limit: return True\n"
        "2. return False\n"
        "Conditions: number < limit -> return True\n"
        "Iteration: for each number of numbers"
    )


def test_a_script_is_told_from_what_it_reads_to_what_it_prints() -> None:
    thought = thought_from_program(SCRIPT)
    assert thought.io == "numbers from standard input -> best if n, else -1"
    assert thought.steps[0] == "set n to a line of input as an integer"
    assert thought.conditions == "value > best -> set best to value; n -> best, else -1"
    assert thought.iteration == "for each value of int applied to each of the words of a line of input"


def test_a_program_without_decisions_and_loops_says_none() -> None:
    thought = thought_from_program("def f(a, b):\n    return a + b", "f")
    assert (thought.io, list(thought.steps)) == ("a and b -> a + b", ["return a + b"])
    assert (thought.conditions, thought.iteration) == ("none", "none")


def test_helpers_methods_and_recursion_are_told() -> None:
    source = (
        "def twice(x):\n    return 2 * x\ndef unused():\n    pass\ndef f(n):\n    return twice(f(n - 1)) if n else 1"
    )
    thought = thought_from_program(source, "f")
    assert thought.steps[0] == "helper twice of x: return 2 * x"
    assert thought.iteration == "f calls itself"
    assert "unused" not in thought.render()
    solution = "class Solution:\n    def add(self, a: str, b: int) -> 'list[int]':\n        return [a] * b"
    assert thought_from_program(solution, "add").io == "a (text) and b (integer) -> list[int]"


def test_a_long_program_stays_bounded() -> None:
    chain = "\n".join(f"    if x == {i}:\n        y += {i}\n    print(*range({i}), sep='')" for i in range(50))
    thought = thought_from_program(f"def f(x):\n    y = {list(range(500))}\n{chain}\n    return '{'z' * 5000}'", "f")
    assert len(thought.steps) == MAX_STEPS
    assert thought.steps[-1] == "then 91 more steps"
    assert len(thought.render()) < (MAX_STEPS + 2 * MAX_ITEMS + 2) * (MAX_CHARACTERS + 10)


@pytest.mark.parametrize(
    "source",
    [
        "match x:\n    case 1:\n        print(1)",
        "try:\n    print(int(input()))\nexcept ValueError as e:\n    raise SystemExit(1)\nfinally:\n    pass",
        "with open(0) as f:\n    a, *b = f\nprint(f'{a!r} {b}', end='')\ndel a\nassert b",
        "x = lambda *a: {k: v for k, v in zip(a, a)}\nprint(x(1, 2)[::2], {1, 2}, {**{}}, not x, ~3, 2 ** 5 // 3)",
        "async def main():\n    async for x in y():\n        yield await x\nx: int\nx: int = 3\nx **= 2\nx @= x",
        "class A:\n    pass\nprint(sorted(a, key=len, reverse=True), sum(1 for _ in a), (y := 5), ... )",
        "pass",
    ],
)
def test_every_kind_of_statement_is_told(source: str) -> None:
    thought = thought_from_program(source)
    assert parse_thought(thought.render()) == thought
    assert thought_from_program(source) == thought


def test_what_cannot_be_told_is_an_error_with_a_reason() -> None:
    with pytest.raises(ValueError, match="does not parse"):
        thought_from_program("def f(:")
    with pytest.raises(ValueError, match="no function 'g'"):
        thought_from_program("def f(): pass", "g")


def test_every_reference_of_humaneval_has_a_thought_that_parses() -> None:
    for problem in humaneval.read():
        thought = problem.references[0].thought
        assert thought is not None
        parsed = parse_thought(thought)
        assert parsed is not None
        assert parsed.render() == thought
        assert len(thought) < 1500
