"""The faults that code for this method has had before: docs/method.md names for each the tests that rule it out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from corecode.config import GRPOConfig, RewardConfig, SamplingConfig, SFTConfig
from corecode.execution import Executor
from corecode.generation.generator import Chat, Completion
from corecode.problems import Problem, Reference, Test
from corecode.roles.roles import role
from corecode.teams import Team, rollout
from corecode.training.examples import examples
from corecode.training.scene import Scene
from sandbox import Program, SandboxUnavailable, TestCase, open_sandbox

ROOT = Path(__file__).parents[2]
PLANNER, CODER = (role(name, "full") for name in ("planner", "coder"))
THOUGHT = "Input-Output: a number -> its double\nSteps:\n1. double it\nConditions: none\nIteration: none"
DOUBLE = Problem(
    id="double",
    statement="Read a number and print its double.",
    tests=[Test(input="4", output="8")],
    examples=[Test(input="3", output="6")],
    references=[Reference(program="print(2 * int(input()))", thought=THOUGHT)],
    time_limit_s=7.5,
    memory_limit_mb=99,
)


def _named() -> list[tuple[str, str, list[str]]]:
    """Number, fault and tests of each row of the table."""
    section = (ROOT / "docs" / "method.md").read_text(encoding="utf-8").split("\n## 9. ")[1]
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", section, re.M)
    return [(number, fault, re.findall(r"`(\w+)`", tests)) for number, fault, tests in rows]


@cache
def _known() -> frozenset[str]:
    """Names of all tests of the project."""
    files = (ROOT / "tests").rglob("test_*.py")
    return frozenset(
        name for file in files for name in re.findall(r"^ *def (test_\w+)\(", file.read_text(encoding="utf-8"), re.M)
    )


def test_every_fault_is_ruled_out_by_tests_that_exist() -> None:
    named = _named()
    assert [number for number, _, _ in named] == [str(i) for i in range(1, 22)]
    assert [fault for _, fault, tests in named if not tests] == []
    assert sorted({test for _, _, tests in named for test in tests} - _known()) == []


class Remembering:
    """Plays a Planner or a Coder, and remembers what it was asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.chats: list[Chat] = []

    def generate(
        self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int, listener: object = None
    ) -> list[list[Completion]]:
        self.chats += chats
        return [[Completion(self.text, (1,), 1, False)] * n for _ in chats]


class NoSandbox:
    """Judges nothing: only prompts are looked at."""

    backend = "none"

    def __init__(self) -> None:
        self.capabilities: dict[str, object] = {}

    def judge(self, programs: Sequence[Program]) -> list[object]:
        raise AssertionError(programs)


def test_training_and_evaluation_show_the_same_prompts() -> None:
    """Warm-up, both GRPO phases and evaluation: one text for one role, problem and thought."""
    team = Team((PLANNER, CODER))
    planner, coder = Remembering(THOUGHT), Remembering("```python\nprint(1)\n```")
    sampling = dict.fromkeys(("planner", "coder"), SamplingConfig())
    rollout(team, {"planner": planner, "coder": coder}, sampling, [DOUBLE], 1, "paper", seed=0)
    (asked_planner,), (asked_coder,) = planner.chats, coder.chats
    assert DOUBLE.statement in asked_coder[0]["content"]
    assert "double it" in asked_coder[0]["content"]

    config = GRPOConfig.model_validate({"group_size": 2, "prompts_per_step": 2})
    for trained, partner, asked in (("planner", "coder", asked_planner), ("coder", "planner", asked_coder)):
        partners = {partner: Remembering(THOUGHT)}
        scene = Scene(team, trained, partners, config, RewardConfig(), Executor(NoSandbox()), "steps", seed=3)  # type: ignore[arg-type]
        (start,) = scene.open([DOUBLE], step=0)
        assert start.prompt(scene.role) == asked

    warm_up = SFTConfig(coder_without_thought=0, coder_without_problem=0)
    for taught, asked in ((PLANNER, asked_planner), (CODER, asked_coder)):
        (example,) = examples(taught, True, [DOUBLE], warm_up, seed=0)
        assert example.messages == asked


def test_a_program_runs_under_its_problems_own_limits() -> None:
    limits = DOUBLE.program("print(1)").limits
    assert (limits.cpu_s, limits.memory_mb) == (7.5, 99)


def test_the_cost_of_a_program_is_the_sum_over_its_tests_and_nothing_twice(
    missing_requirement: Callable[[str], None],
) -> None:
    """Totals that run on from test to test would grow with the square of their number."""
    source = "print(sum(i for i in range(2000)))"
    programs = [Program(source, tuple(TestCase.stdio("", "1999000") for _ in range(n))) for n in (1, 2, 3, 6)]
    try:
        opened = open_sandbox(workers=1, cost="steps")
    except SandboxUnavailable as error:
        missing_requirement(f"no sandbox: {error}")
        return
    with opened:
        steps = [judgement.steps for judgement in opened.judge(programs)]
    assert steps[0]
    assert steps == [steps[0] * n for n in (1, 2, 3, 6)]


PLACES = re.compile(
    r"(?:^|[\s'\"=])/(?:home|root|mnt|workspace|Users)/|(?://|localhost|\d\.\d+\.\d+\.\d+)[\w.-]*:\d{2,5}\b|\bcuda:\d"
)
"""Folders of one machine, ports, and numbered devices."""


def _texts(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ["corecode", "sandbox"])
def test_no_path_port_or_device_is_written_into_code(room: str) -> None:
    assert PLACES.search("http://127.0.0.1:8000/v1")
    assert PLACES.search("listens on localhost:5000")
    assert PLACES.search("/home/somebody/model")
    assert PLACES.search("cuda:1")
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text[:60]!r}"
        for file in sorted((ROOT / room).rglob("*.py"))
        for line, text in _texts(file)
        if PLACES.search(text)
    ]
    assert found == []
