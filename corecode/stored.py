"""A team in a folder: ``team.json`` and a model folder for each role. It answers problem statements.

The folder is all that is needed, so it is what the registry keeps and what ``corecode solve`` and a served champion
load. What it says is checked before anything is opened: it may come from another machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from corecode.assemble import continued_function
from corecode.config import ModelConfig, SamplingConfig
from corecode.errors import UserError
from corecode.problems import Problem, Test
from corecode.roles.roles import known_role

FILE = "team.json"


class TeamDescription(BaseModel):
    """What ``team.json`` says."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    version: Literal[1] = Field(default=1, alias="schema")
    """Version of this file's form."""
    run: str = Field(pattern=r"^[A-Za-z0-9_][\w.-]*$")
    """Run that trained the team; names a folder, so it holds no slash."""
    roles: tuple[Annotated[str, AfterValidator(known_role)], ...] = Field(min_length=1)
    """In the order in which they speak; each has a folder of this name."""
    prompts: Literal["full", "compact"]
    """Prompt texts that the roles were trained with."""
    sampling: dict[str, SamplingConfig]
    """By role, as the team was evaluated."""
    evaluation: dict[str, object]
    """What the team was measured on, with the figures."""
    profile: dict[str, object]
    """The run's whole profile. Only its ``model`` section is read here, so that an older version's stays loadable."""


@dataclass(frozen=True)
class Answer:
    """What a team says to one statement."""

    thought: str | None
    """None when no role writes thoughts."""
    program: str | None
    """A whole program, also where the statement is the beginning of one; None when the answer holds none."""


def read_team(folder: Path) -> TeamDescription:
    """Read a team's description.

    Raises:
        UserError: there is none, or it does not say what it has to.
    """
    path = folder / FILE
    try:
        return TeamDescription.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{folder} holds no team: cannot read {FILE} ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path} describes no team: {where + ': ' if where else ''}{first['msg']}") from error


class StoredTeam:
    """The loaded models of a team's folder."""

    def __init__(self, folder: Path) -> None:
        """Load the team, onto a GPU where torch sees one.

        Raises:
            UserError: the folder holds no team, or a role's model cannot be loaded.
        """
        import torch

        from corecode.generation.transformers import TransformersGenerator
        from corecode.models import load_model, load_tokenizer
        from corecode.roles.roles import role
        from corecode.teams import Team

        self.description = read_team(folder)
        config = ModelConfig.model_validate(self.description.profile.get("model"))
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._team = Team(tuple(role(name, self.description.prompts) for name in self.description.roles))
        self._generators = {
            name: TransformersGenerator(
                load_model(config, folder / name, device), load_tokenizer(config, folder / name), batch=1
            )
            for name in self.description.roles
        }

    def answer(self, statements: Sequence[str], seed: int = 0) -> list[Answer]:
        """Think and write a program for each statement, with the prompts and sampling the team was evaluated with.

        Each statement is answered by itself: the same statement and seed give the same answer in any company.

        Raises:
            UserError: a statement alone is longer than what a role's model can read; nothing is answered then.
        """
        for statement in statements:
            for name, generator in self._generators.items():
                tokens = len(generator.tokenizer.encode(statement, verbose=False))
                if generator.context is not None and tokens >= generator.context:
                    raise UserError(
                        f"a statement of {tokens} tokens does not fit: the {name}'s model reads {generator.context}"
                    )
        return [self._answer(statement, seed) for statement in statements]

    def _answer(self, statement: str, seed: int) -> Answer:
        from corecode.teams import rollout

        problem = as_problem(statement)
        done = rollout(self._team, self._generators, self.description.sampling, [problem], 1, "paper", seed)[0][0]
        return Answer(done.thought, None if done.program is None else problem.whole(done.program))


def as_problem(statement: str) -> Problem:
    """A bare statement as a problem. One that is the beginning of a Python function (as in HumanEval) is continued;
    any other asks for a program that reads standard input."""
    unused = [Test()]  # a problem cannot be without tests; this one is never run
    name = continued_function(statement)
    if name is None:
        return Problem(id="statement", statement=statement.strip(), tests=unused)
    return Problem(id="statement", statement=statement, kind="asserts", tests=unused, entry_point=name, continues=True)
