"""The teams that need no training: each lives of its prompts, on whatever weights it is given."""

from __future__ import annotations

from dataclasses import dataclass

from corecode.teams.collabcoder import collabcoder
from corecode.teams.mapcoder import mapcoder
from corecode.teams.reflexion import reflexion
from corecode.teams.session import Method
from corecode.teams.thinking import chain_of_thought, self_planning, structured


@dataclass(frozen=True)
class PromptedTeam:
    """A team out of the literature. All its roles are played by one model, the Coder's."""

    roles: tuple[str, ...]
    """Whom the method asks; tokens are counted for each."""
    description: str
    method: Method


PROMPTED = {
    "cot": PromptedTeam(("coder",), "chain of thought", chain_of_thought),
    "scot": PromptedTeam(("planner", "coder"), "structured chain of thought (SCoT)", structured),
    "self-planning": PromptedTeam(("planner", "coder"), "self-planning", self_planning),
    "reflexion": PromptedTeam(("coder", "reflector"), "Reflexion on sample tests", reflexion),
    "mapcoder": PromptedTeam(("retriever", "planner", "coder", "debugger"), "MapCoder", mapcoder),
    "collabcoder": PromptedTeam(("planner", "coder", "debugger"), "CollabCoder", collabcoder),
}
