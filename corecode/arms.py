"""Arms: the systems that are evaluated, as a team of roles and the stage each role's weights come from."""

from __future__ import annotations

from dataclasses import dataclass

from corecode.errors import UserError
from corecode.teams.prompted import PROMPTED, PromptedTeam


@dataclass(frozen=True)
class Arm:
    """A system under evaluation."""

    name: str
    roles: tuple[str, ...]
    """The team, in order; the last role writes the program."""
    stages: tuple[str, ...]
    """For each role the stage folder that holds its weights."""
    description: str
    prompted: PromptedTeam | None = None
    """The prompt-only team that works; None: the chain of roles."""


def _arm(name: str, description: str, **stages: str) -> Arm:
    return Arm(name, tuple(stages), tuple(stages.values()), description)


PROMPTED_ON = {
    "base": ("base/coder", "before any training"),
    "sft": ("sft_warmup/coder", "after the warm-up"),
    "coder-grpo-only": ("baselines/coder_grpo_only", "after Coder GRPO only"),
    "final": ("coder_grpo", "after both GRPO phases"),
    "single-direct": ("baselines/single_direct", "on one model"),
}
"""Weights that prompt-only teams may work with: what stands before the slash in the arm's name, the stage folder, and
where that is in the story."""

ARMS = {
    arm.name: arm
    for arm in (
        _arm("base/alone", "Coder before any training", coder="base/coder"),
        _arm("base/team", "Planner and Coder before any training", planner="base/planner", coder="base/coder"),
        _arm("sft/alone", "Coder alone after the warm-up", coder="sft_warmup/coder"),
        _arm("sft/team", "Planner and Coder after the warm-up", planner="sft_warmup/planner", coder="sft_warmup/coder"),
        _arm(
            "planner-grpo/team",
            "after Planner GRPO (without Coder RL)",
            planner="planner_grpo",
            coder="sft_warmup/coder",
        ),
        _arm("coder-grpo-only/alone", "Coder alone, without Planner RL", coder="baselines/coder_grpo_only"),
        _arm(
            "coder-grpo-only/team",
            "after Coder GRPO with the warm-up Planner (without Planner RL)",
            planner="sft_warmup/planner",
            coder="baselines/coder_grpo_only",
        ),
        _arm("final/alone", "Coder alone after both GRPO phases", coder="coder_grpo"),
        _arm("final/team", "Planner and Coder after both GRPO phases", planner="planner_grpo", coder="coder_grpo"),
        _arm(
            "single-direct/sft", "one model, statement to code, after the warm-up", coder="baselines/single_direct_sft"
        ),
        _arm("single-direct/final", "one model, statement to code, whole budget", coder="baselines/single_direct"),
        _arm(
            "single-thought/sft",
            "one model, thought and code in one completion, after the warm-up",
            solver="baselines/single_thought_sft",
        ),
        _arm(
            "single-thought/final",
            "one model, thought and code in one completion, whole budget",
            solver="baselines/single_thought",
        ),
        *(
            Arm(f"{weights}/{name}", team.roles, (stage,) * len(team.roles), f"{team.description}, {when}", team)
            for weights, (stage, when) in PROMPTED_ON.items()
            for name, team in PROMPTED.items()
        ),
    )
}


def arm(name: str) -> Arm:
    """Look an arm up.

    Raises:
        UserError: for an unknown name, listing the known ones.
    """
    try:
        return ARMS[name]
    except KeyError:
        trained = ", ".join(one.name for one in ARMS.values() if one.prompted is None)
        raise UserError(
            f"unknown arm {name!r}; known arms: {trained}, and a team of {', '.join(PROMPTED)} on the weights of"
            f" {', '.join(PROMPTED_ON)}, such as base/cot"
        ) from None
