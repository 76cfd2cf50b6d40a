"""``corecode solve``: a stored team works on one problem."""

from __future__ import annotations

import re
from pathlib import Path

from corecode.errors import UserError
from pipelines.home import home_folder

_REGISTERED = re.compile(r"(?:models:/corecode(?:@|/))?(champion|challenger|\d+)")


def solve_problem(statement: str, model: str, seed: int) -> None:
    """Print the thought and the program of the champion, or of another team.

    Raises:
        UserError: there is no such team.
    """
    folder = team_folder(model)
    from transformers.utils import logging

    from corecode.stored import StoredTeam

    logging.disable_progress_bar()
    [answer] = StoredTeam(folder).answer([statement], seed)
    if answer.thought is not None:
        print(f"Thought\n\n{answer.thought.strip()}\n")
    print(f"Program\n\n{answer.program or '(no program found in the answer)'}")


def team_folder(model: str) -> Path:
    """The folder of a registered team (``champion``, ``challenger``, ``models:/corecode/3``), or of a path."""
    registered = _REGISTERED.fullmatch(model)
    if registered is None or Path(model).is_dir():
        folder = Path(model).expanduser()
        if not (folder / "team.json").is_file():
            raise UserError(f"model: {model} holds no team.json; give 'champion' or a run's champion folder")
        return folder
    from pipelines.registry.promotion import champion_folder
    from pipelines.tracking import Tracking

    found = champion_folder(home_folder(), Tracking(home_folder()), registered[1])
    if found is None:
        raise UserError(
            f"there is no {model} in {home_folder()} or its registry; 'corecode champions' lists what there is, and"
            " 'corecode run quickstart' trains one"
        )
    return found
