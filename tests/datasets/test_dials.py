"""The procedural family: disjoint splits, right references, tests that tell the readings apart."""

from __future__ import annotations

import itertools
import random

import pytest

from corecode.config import DatasetConfig
from corecode.datasets import dials
from corecode.problems import Problem
from corecode.roles.thought import parse_thought

SMALL = DatasetConfig(name="dials", seed=7, sft=300, rl=150, validation=40, test=150)


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Problem]]:
    return {str(split): problems for split, problems in dials.datasets(SMALL).items()}


def test_sizes_are_those_asked_for(splits: dict[str, list[Problem]]) -> None:
    assert {name: len(problems) for name, problems in splits.items()} == {
        "sft": 300,
        "rl": 150,
        "validation": 40,
        "test": 150,
    }


@pytest.mark.parametrize("part", [0, 1], ids=["operations", "turns"])
def test_no_two_splits_share_a_structure(splits: dict[str, list[Problem]], part: int) -> None:
    def found(problems: list[Problem]) -> set[str]:
        sequences = (problem.structure.split(" | ")[part] for problem in problems)
        # One operation and one or two turns occur in the warm-up only, as its easy examples.
        return {sequence for sequence in sequences if len(sequence.split()) > 1 + part}

    for one, other in itertools.combinations(splits.values(), 2):
        assert not found(one) & found(other)


def test_evaluation_problems_have_no_structure_simple_enough_to_be_shared(splits: dict[str, list[Problem]]) -> None:
    for problem in splits["rl"] + splits["validation"] + splits["test"]:
        operations, turns = problem.structure.split(" | ")
        assert len(operations.split()) in (2, 3)
        assert len(turns.split()) in (3, 4)


def test_every_reference_passes_its_own_tests(splits: dict[str, list[Problem]]) -> None:
    for problem in itertools.chain.from_iterable(splits.values()):
        for test in problem.tests:
            assert dials.run(problem.references[0].program, test.input) == test.output


def test_every_thought_parses_into_its_four_parts(splits: dict[str, list[Problem]]) -> None:
    for problem in itertools.chain.from_iterable(splits.values()):
        thought = parse_thought(problem.references[0].thought or "")
        assert thought is not None
        assert len(thought.steps) == 2 + len(problem.structure.split(" | ")[0].split())


def test_no_judged_problem_is_solved_by_a_constant(splits: dict[str, list[Problem]]) -> None:
    for problem in splits["rl"] + splits["validation"] + splits["test"]:
        assert len(problem.tests) == dials.TESTS
        assert len({test.output for test in problem.tests}) > 1


def test_statements_say_nothing_of_the_judges_conventions() -> None:
    """The same blueprint has the same wordings whoever judges it."""
    blueprint = dials.Blueprint(("sort", "join"), "list", 3, ("up", "mirror"))
    assert blueprint.statement(random.Random(1)) == blueprint.statement(random.Random(1))
    programs = {blueprint.program(dials.draw_conventions(random.Random(i))) for i in range(40)}
    assert len(programs) == 8  # two readings each of sort, join and the separator


def test_the_judge_is_drawn_from_the_seed() -> None:
    judges = {tuple(dials.draw_conventions(random.Random(f"{seed} judge")).values()) for seed in range(20)}
    assert len(judges) > 15


def test_the_same_seed_makes_the_same_problems() -> None:
    config = SMALL.model_copy(update={"sft": 20, "rl": 10, "validation": 5, "test": 10})
    assert dials.datasets(config) == dials.datasets(config)
    assert dials.datasets(config) != dials.datasets(config.model_copy(update={"seed": 8}))


def test_the_dial_turns_as_documented() -> None:
    assert [dials.turn(7, word) for word in dials.TURNS] == [8, 6, 0, 2, 2, 1]
    assert dials.turn(0, "down") == 9
    assert dials.Blueprint((), "sum", 2, ("mirror", "triple", "jump")).dial_states == [2, 7, 1, 4]


def test_nearly_every_near_miss_fails_a_test() -> None:
    """A program that reads one convention otherwise, or sets the dial wrong, is told from the right one wherever some
    input can tell them apart."""
    rng = random.Random(5)
    parts = dials.structures(random.Random(1))["test"]
    missed = told = 0
    for _ in range(60):
        conventions = dials.draw_conventions(rng)
        blueprint = dials.Blueprint(rng.choice(parts.operations[0]), "list", 4, ("up",))
        tests = dials.make_tests(blueprint, conventions, rng)
        inputs = [" ".join(str(rng.randint(-9, 9)) for _ in range(8)) for _ in range(30)]
        right = blueprint.program(conventions)
        for other, read in blueprint.departures(conventions):
            wrong = other.program(read)
            if any(dials.run(wrong, text) != dials.run(right, text) for text in inputs):
                failed = any(dials.run(wrong, test.input) != test.output for test in tests)
                told += failed
                missed += not failed
    assert missed <= 0.02 * (told + missed)
