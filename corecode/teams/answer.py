"""What any team hands in for a problem."""

from __future__ import annotations

from dataclasses import dataclass

from corecode.problems import Problem


@dataclass(frozen=True)
class Answer:
    """One attempt of a team."""

    problem: Problem
    completion: str
    """The text that holds the program, as it was written."""
    program: str | None
    """None when there is none in it."""
    tokens: dict[str, int]
    """Sampled tokens by role, over everything that the role said."""
    truncated: bool
    """A text that decides the program was cut at its token limit."""
    thought: str | None = None
    """The plan that the program follows; None without one."""
    thought_valid: bool | None = None
    """Whether an Algorithmic Thought parses; None for other plans."""
    lost: str | None = None
    """Why nothing is known about this attempt (infrastructure failed); None normally."""
