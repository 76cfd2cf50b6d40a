"""``corecode solve``: a stored team works on one problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corecode.errors import UserError
from pipelines.home import home_folder

if TYPE_CHECKING:
    from corecode.teams import Rollout


def solve_problem(statement: str, model: str, seed: int) -> None:
    """Print the thought and the program of the champion, or of the team in a folder.

    Raises:
        UserError: there is no such team.
    """
    folder = team_folder(model)
    answer = think_and_write(folder, statement, seed)
    if answer.thought is not None:
        print(f"Thought\n\n{answer.thought.strip()}\n")
    print(f"Program\n\n{answer.program or '(no program found in the answer)'}")


def team_folder(model: str) -> Path:
    """The folder of ``champion`` or of a path."""
    folder = home_folder() / "champion" if model == "champion" else Path(model).expanduser()
    if not (folder / "team.json").is_file():
        if model == "champion":
            raise UserError(f"there is no champion in {home_folder()} yet; 'corecode run quickstart' trains one")
        raise UserError(f"model: {model} holds no team.json; give 'champion' or a run's champion folder")
    return folder


def think_and_write(folder: Path, statement: str, seed: int) -> Rollout:
    """Let the team in ``folder`` work on a statement, with the prompts and sampling it was evaluated with."""
    from transformers.utils import logging

    from corecode.config import Profile, SamplingConfig
    from corecode.generation.transformers import TransformersGenerator
    from corecode.models import load_model, load_tokenizer
    from corecode.problems import Problem, Test
    from corecode.roles.roles import role
    from corecode.teams import Team, rollout

    logging.disable_progress_bar()
    team: dict[str, Any] = json.loads((folder / "team.json").read_text(encoding="utf-8"))
    roles = tuple(role(name, team["prompts"]) for name in team["roles"])
    config = Profile.model_validate(team["profile"]).model
    generators = {
        one.name: TransformersGenerator(
            load_model(config, folder / one.name), load_tokenizer(config, folder / one.name), batch=1
        )
        for one in roles
    }
    sampling = {name: SamplingConfig.model_validate(values) for name, values in team["sampling"].items()}
    # A problem cannot be without tests; this one is never run.
    problem = Problem(id="statement", statement=statement.strip(), tests=[Test()])
    return rollout(Team(roles), generators, sampling, [problem], 1, "paper", seed)[0][0]
