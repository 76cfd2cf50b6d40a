"""Teams that think before they write, once: chain of thought, structured chain of thought, self-planning.

Asking for the program at once (*direct prompting*) is the Coder alone, the arm ``.../alone``.
"""

from __future__ import annotations

import re

from corecode.teams.session import Desk, Draft, Work

_STEP = re.compile(r"\s*(?:[-*]\s+)?(?:\*\*)?(?:step\s+)?\d+[.):].*", re.IGNORECASE)
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


def chain_of_thought(desk: Desk) -> Work[Draft]:
    """Reasoning and program in one answer (arXiv 2201.11903; without worked examples, as in arXiv 2205.11916)."""
    return (yield from desk.reason_and_write("coder", "cot"))


def structured(desk: Desk) -> Work[Draft]:
    """SCoT (arXiv 2305.06599): first the solution's structure out of sequences, branches and loops, beginning with what
    goes in and out; then the program, which may correct the structure. Without a structure the program is asked for
    directly."""
    structure = yield from desk.ask("planner", "scot/structure")
    return (yield from _after_plan(desk, structure, "scot/code"))


def self_planning(desk: Desk) -> Work[Draft]:
    """Self-planning (arXiv 2303.06689): a short numbered plan in the manner of worked examples, then the program step
    by step along it. Where no line is numbered, the whole text is the plan; without any text the program is asked for
    directly."""
    text = yield from desk.ask("planner", "self_planning/plan")
    return (yield from _after_plan(desk, numbered(text), "self_planning/code"))


def numbered(text: str) -> str:
    """The numbered lines of a text outside of code blocks; the whole text where there is none."""
    steps = [line.strip() for line in _FENCED.sub("", text).split("\n") if _STEP.fullmatch(line)]
    return "\n".join(steps) or text.strip()


def _after_plan(desk: Desk, plan: str, template: str) -> Work[Draft]:
    if not plan:
        return (yield from desk.write("coder", "direct"))
    desk.thought = plan
    return (yield from desk.write("coder", template, plan=plan))
