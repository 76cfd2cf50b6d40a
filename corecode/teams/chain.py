"""Teams: an ordered chain of roles that ends in a program, and what happens when one works on problems.

The same two steps serve training, evaluation and ``corecode solve``: *extend* asks one role to continue rollouts, and
*rollout* runs the whole chain. Nothing is special to two roles: every role but the last writes text that the next one
reads, the last one writes the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from corecode.config import SamplingConfig
from corecode.generation.generator import Completion, Generator, derive_seed
from corecode.problems import Problem
from corecode.roles.roles import Artifact, Message, Role
from corecode.teams.answer import Answer

Protocol = Literal["paper", "independent"]
"""``paper``: the helpers speak once, the last role writes n programs. ``independent``: n separate runs of the chain."""


@dataclass(frozen=True)
class Turn:
    """What one role contributed."""

    role: str
    completion: Completion
    artifact: Artifact


@dataclass(frozen=True)
class Rollout:
    """A problem and the turns taken on it so far."""

    problem: Problem
    turns: tuple[Turn, ...] = ()

    @property
    def thought(self) -> str | None:
        """The latest thought; None when no role wrote one."""
        return next((t.artifact.text for t in reversed(self.turns) if t.artifact.text is not None), None)

    @property
    def thought_valid(self) -> bool | None:
        """Whether the latest thought parses; None when no role wrote one."""
        return next((t.artifact.thought_valid for t in reversed(self.turns) if t.artifact.text is not None), None)

    @property
    def program(self) -> str | None:
        """The program; None when none was found in the last turn."""
        return self.turns[-1].artifact.program if self.turns else None

    @property
    def truncated(self) -> bool:
        """Whether any turn was cut by its token limit."""
        return any(turn.completion.truncated for turn in self.turns)

    @property
    def tokens(self) -> dict[str, int]:
        """Sampled tokens by role."""
        return {turn.role: turn.completion.tokens for turn in self.turns}

    def answer(self) -> Answer:
        """What the team hands in, once the last role has spoken."""
        return Answer(
            problem=self.problem,
            completion=self.turns[-1].completion.text,
            program=self.program,
            tokens=self.tokens,
            truncated=self.truncated,
            thought=self.thought,
            thought_valid=self.thought_valid,
        )

    def prompt(self, role: Role) -> list[Message]:
        """The chat that asks ``role`` to go on."""
        return role.messages(self.problem, self.thought)

    def add(self, role: Role, completion: Completion) -> Rollout:
        return replace(self, turns=(*self.turns, Turn(role.name, completion, role.parse(completion.text))))


@dataclass(frozen=True)
class Player:
    """A role with the model that plays it."""

    role: Role
    generator: Generator
    sampling: SamplingConfig


@dataclass(frozen=True)
class Team:
    """Ordered roles, the last of which writes the program."""

    roles: tuple[Role, ...]

    def __post_init__(self) -> None:
        names = [role.name for role in self.roles]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a team needs distinct roles, not {names}")
        if [role.writes_program for role in self.roles] != [False] * (len(names) - 1) + [True]:
            raise ValueError(f"a team's last role, and only that, writes the program: {names}")

    def split(self, name: str) -> tuple[tuple[Role, ...], Role, tuple[Role, ...]]:
        """The roles before ``name``, the role itself, the roles after it.

        Raises:
            ValueError: when it is not in the team.
        """
        place = [role.name for role in self.roles].index(name)
        return self.roles[:place], self.roles[place], self.roles[place + 1 :]


Watcher = Callable[[Rollout], None]
"""Told of a finished rollout as soon as it is known."""


def extend(
    player: Player, rollouts: Sequence[Rollout], n: int, seed: int, watcher: Watcher | None = None
) -> list[list[Rollout]]:
    """Ask one role to continue each rollout ``n`` times; results in input order. ``watcher`` may hear of some earlier,
    from another thread."""
    chats = [rollout.prompt(player.role) for rollout in rollouts]
    if watcher is None:
        answers = player.generator.generate(chats, n, player.sampling, seed)
    else:
        answers = player.generator.generate(
            chats, n, player.sampling, seed, lambda index, answer: watcher(rollouts[index].add(player.role, answer))
        )
    return [
        [rollout.add(player.role, completion) for completion in completions]
        for rollout, completions in zip(rollouts, answers, strict=True)
    ]


def finish(
    players: Sequence[Player], rollouts: Sequence[Rollout], n: int, seed: int, watcher: Watcher | None = None
) -> list[list[Rollout]]:
    """Let the remaining roles finish each rollout: all but the last speak once, the last writes ``n`` programs.
    ``watcher`` is told of what the last one wrote."""
    current = list(rollouts)
    for player in players[:-1]:
        current = [group[0] for group in extend(player, current, 1, derive_seed(seed, player.role.name))]
    last = players[-1]
    return extend(last, current, n, derive_seed(seed, last.role.name), watcher)


def rollout(
    team: Team,
    generators: Mapping[str, Generator],
    sampling: Mapping[str, SamplingConfig],
    problems: Sequence[Problem],
    n: int,
    protocol: Protocol,
    seed: int,
) -> list[list[Rollout]]:
    """Run a team on problems: ``n`` finished rollouts a problem, in the order of the problems.

    Args:
        generators, sampling: by role name.
    """
    players = [Player(role, generators[role.name], sampling[role.name]) for role in team.roles]
    starts = [Rollout(problem) for problem in problems]
    if protocol == "paper" or len(players) == 1:
        return finish(players, starts, n, seed)
    finished = finish(players, [start for start in starts for _ in range(n)], 1, seed)
    return [[group[0] for group in finished[i : i + n]] for i in range(0, len(finished), n)]
