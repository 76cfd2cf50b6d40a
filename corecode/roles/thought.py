"""The Algorithmic Thought: what a Planner writes, in four parts, with one rendering that every model reads and writes.

The four parts (input-output definition, linear progression, conditional logic, iteration) are those of arXiv
2605.24812; the rendering is ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

NONE = "none"
"""How an empty Conditions or Iteration part is written."""

_PART_NAMES = {
    "io": r"input\s*(?:[-/&]|and)?\s*output(?:\s+definition)?|i/o",
    "steps": r"(?:linear\s+)?(?:steps|progression)",
    "conditions": r"conditions?|conditional\s+logic",
    "iteration": r"iterations?|loops?",
}
_HEADING = {
    part: re.compile(
        # Bullets, quote marks and "#" may stand before the name; "**" or "__" may wrap it. Marks after the colon
        # are removed only when the same mark opened the heading, so that plain text survives a round trip.
        rf"\s*(?:[#>]+\s*|[-*•]\s+)*(?P<mark>\*\*|__|\*|)(?:{names})(?:(?P=mark)\s*:|\s*:(?P=mark))(?P<rest>.*)",
        re.IGNORECASE,
    )
    for part, names in _PART_NAMES.items()
}
_BARE_HEADING = {
    part: re.compile(rf"\s*(?:#+\s*(?:{names})\s*#*|\*\*(?:{names})\*\*)\s*", re.IGNORECASE)
    for part, names in _PART_NAMES.items()
}
_NUMBERED = re.compile(r"\s*(?:[-*•]\s+)?(?P<mark>\*\*|)(?:step\s+)?\d+[.):](?P=mark)(?:\s+(?P<rest>.*)|\s*$)", re.I)
_BULLET = re.compile(r"\s*[-*•]\s+(?P<rest>.*)")
_FENCE = re.compile(r"\s*(?:```|~~~)")


@dataclass(frozen=True)
class AlgorithmicThought:
    """A plan in four parts. Every part is one line of text: white space is collapsed on construction.

    Raises:
        ValueError: when the input-output part or the list of steps is empty, or a step is.
    """

    io: str
    """What comes in and what goes out."""
    steps: Sequence[str]
    """The linear progression, in order, at least one; kept as a tuple."""
    conditions: str = NONE
    """Decisions and special cases; ``none`` when there is none."""
    iteration: str = NONE
    """What is repeated, over what, until when; ``none`` when nothing is."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", _one_line(self.io))
        object.__setattr__(self, "steps", tuple(_one_line(step) for step in self.steps))
        object.__setattr__(self, "conditions", _one_line(self.conditions) or NONE)
        object.__setattr__(self, "iteration", _one_line(self.iteration) or NONE)
        if not self.io:
            raise ValueError("a thought needs an input-output part")
        if not self.steps or not all(self.steps):
            raise ValueError("a thought needs at least one step, and no empty one")

    def render(self) -> str:
        """The one text form; :func:`parse_thought` gives the same value back."""
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1))
        return f"Input-Output: {self.io}\nSteps:\n{steps}\nConditions: {self.conditions}\nIteration: {self.iteration}"


def parse_thought(text: str) -> AlgorithmicThought | None:
    """Read a thought; None when it is not one.

    Tolerant of case, Markdown headings, bold names, bullets, blank lines, prose before the first part and one code
    fence around the whole. All four parts must be there, once each, in order and not empty. A fence inside makes it
    invalid: a thought holds no code. A step number may start anywhere (0 is common).
    """
    lines = _without_outer_fence([line for line in text.splitlines() if line.strip()])
    sections: dict[str, list[str]] = {}
    expected = list(_PART_NAMES)
    for line in lines:
        found = _heading(line)
        if found is not None:
            part, rest = found
            if part != (expected[len(sections)] if len(sections) < len(expected) else None):
                return None
            sections[part] = [rest] if rest.strip() else []
        elif _FENCE.match(line):
            return None
        elif sections:
            sections[next(reversed(sections))].append(line)
    if len(sections) < len(expected):
        return None
    io, conditions, iteration = (_joined(sections[part]) for part in ("io", "conditions", "iteration"))
    steps = _steps(sections["steps"])
    if not (io and steps and all(steps) and conditions and iteration):
        return None
    return AlgorithmicThought(io, steps, conditions, iteration)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _heading(line: str) -> tuple[str, str] | None:
    for part, pattern in _HEADING.items():
        match = pattern.fullmatch(line)
        if match:
            return part, match["rest"]
        if _BARE_HEADING[part].fullmatch(line):
            return part, ""
    return None


def _without_outer_fence(lines: list[str]) -> list[str]:
    """Drop one fence around the thought (also an unclosed one)."""
    fences = [index for index, line in enumerate(lines) if _FENCE.match(line)]
    headings = [index for index, line in enumerate(lines) if _heading(line)]
    if not fences or not headings or fences[0] > headings[0]:
        return lines
    end = fences[1] if len(fences) > 1 else len(lines)
    return lines[fences[0] + 1 : end]


def _joined(lines: list[str]) -> str:
    """One line of a part's text; bullets become a list with semicolons."""
    pieces: list[str] = []
    for line in lines:
        bullet = _BULLET.fullmatch(line) if len(lines) > 1 else None
        if bullet and pieces:
            pieces[-1] = pieces[-1].rstrip(";") + ";"
        pieces.append(bullet["rest"] if bullet else line)
    return _one_line(" ".join(pieces))


def _steps(lines: list[str]) -> list[str]:
    """Where any line is numbered, numbers start steps and other lines continue them; else every line is a step."""
    numbered = [_NUMBERED.fullmatch(line) for line in lines]
    if not any(numbered):
        return [_one_line(bullet["rest"] if (bullet := _BULLET.fullmatch(line)) else line) for line in lines]
    steps: list[str] = []
    for line, match in zip(lines, numbered, strict=True):
        if match:
            steps.append(match["rest"] or "")
        elif steps:
            bullet = _BULLET.fullmatch(line)
            steps[-1] += " " + (bullet["rest"] if bullet else line)
    return [_one_line(step) for step in steps]
