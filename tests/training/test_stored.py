"""A team in a folder answers by itself, the same whoever else asks, and nothing in its description leads elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny import SCRATCH, tiny_model, tiny_tokenizer

from corecode.errors import UserError
from corecode.models import save_model
from corecode.stored import StoredTeam, as_problem, read_team

CONTINUED = 'from typing import List\n\n\ndef double(x: int) -> int:\n    """Twice x."""\n'


def description(**changes: Any) -> dict[str, Any]:
    sampling = {"temperature": 1.0, "max_tokens": 12}
    return {
        "schema": 1,
        "run": "tiny-seed0-abc",
        "roles": ["planner", "coder"],
        "prompts": "compact",
        "sampling": {"planner": sampling, "coder": sampling},
        "evaluation": {"digest": "d"},
        "profile": {"model": {"scratch": SCRATCH.model_dump()}, "of an older version": True},
    } | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("team")
    tokenizer = tiny_tokenizer(["Print 1.", "Steps", "print(1)"])
    for seed, role in enumerate(("planner", "coder")):
        save_model(tiny_model(tokenizer, seed), tokenizer, made / role)
    (made / "team.json").write_text(json.dumps(description()), encoding="utf-8")
    return made


def test_an_answer_depends_on_statement_and_seed_alone(folder: Path) -> None:
    team = StoredTeam(folder)
    together = team.answer(["Print 1.", CONTINUED, "Print 2."], seed=4)
    assert together == [team.answer([text], seed=4)[0] for text in ("Print 1.", CONTINUED, "Print 2.")]
    assert together[0].thought
    assert team.answer(["Print 1."], seed=5) != together[:1]


def test_a_statement_that_no_model_can_read_is_said_before_anything_is_answered(folder: Path) -> None:
    team = StoredTeam(folder)
    with pytest.raises(UserError, match=r"a statement of \d+ tokens does not fit: the planner's model reads 2048"):
        team.answer(["Print 1.", "and then " * 2000])


def test_a_begun_function_is_continued_and_anything_else_is_a_program() -> None:
    problem = as_problem(CONTINUED)
    assert (problem.kind, problem.entry_point, problem.continues) == ("asserts", "double", True)
    assert problem.whole("return 2 * x") == f"{CONTINUED.rstrip()}\n    return 2 * x\n"
    for statement in ("Print 1.", "x", "def f(x):\n    return x\n", "class A:\n    '''Text.'''\n", "def f(:\n"):
        plain = as_problem(statement)
        assert (plain.kind, plain.continues) == ("stdio", False)
        assert plain.whole("print(1)") == "print(1)"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"run": "../../etc"}, "run"),
        ({"roles": ["planner", "../coder"]}, "roles"),
        ({"prompts": "../../secrets"}, "prompts"),
        ({"schema": 2}, "schema"),
        ({"command": "rm"}, "command"),
    ],
)
def test_a_description_that_leads_elsewhere_is_refused(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    (tmp_path / "team.json").write_text(json.dumps(description(**changes)), encoding="utf-8")
    with pytest.raises(UserError, match=f"describes no team: {where}"):
        read_team(tmp_path)


def test_a_folder_without_a_team(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no team: cannot read team\.json"):
        StoredTeam(tmp_path)
