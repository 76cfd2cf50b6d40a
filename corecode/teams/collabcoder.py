"""CollabCoder (arXiv 2604.13946): plan and code change together; before each repair the team decides which of the two.

When a program fails the sample tests, the failure is looked at three times: at the plan, at the code, and at whether
they agree. Each look names what should change and how sure it is; the votes are weighed and added. A plan that changes
is written again and coded anew; otherwise the code is repaired. A trajectory of what was tried and how it went leads to
a strategy for every next repair. Weights of the looks are the paper's; wording, formats and fallbacks are ours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from corecode.teams.reflexion import last_program
from corecode.teams.session import Desk, Draft, Work, fenced, spoken

LOOKS = {"plan": 0.4, "code": 0.3, "agreement": 0.3}
"""Weight of the vote of each look."""
UNSURE = 0.5
"""Confidence of a look that does not name one."""
REMEMBERED = 3
"""Steps of the trajectory that a prompt shows."""
_CHANGE = re.compile(r"^\W*change\W*\b(plan|code)\b", re.IGNORECASE | re.MULTILINE)
_CONFIDENCE = re.compile(r"^\W*confidence\W*(\d{1,3})\b", re.IGNORECASE | re.MULTILINE)


def collabcoder(desk: Desk) -> Work[Draft]:
    """Hands in the first program that passes the sample tests, else the last one.

    A look that names neither plan nor code has no vote; without any vote, and when votes are equal, the code changes.
    An empty plan is none: the program is then asked for directly, and a new plan that is empty leaves the old one.
    """
    plan = yield from desk.ask("planner", "collabcoder/plan")
    desk.thought = plan or None
    draft = yield from desk.write("coder", "collabcoder/code" if plan else "direct", plan=plan)
    drafts = [draft]
    trajectory: list[str] = []
    for number in range(1, desk.config.rounds + 1):
        report = yield from desk.test(draft)
        if report.good:
            return draft
        seen = {"plan": plan or "(none)", "program": fenced(draft.program), "report": report.text}
        questions = [desk.question("debugger", f"collabcoder/look_at_{name}", **seen) for name in LOOKS]
        looks = [spoken(look) for look in (yield from desk.ask_all(questions))]
        change = decision(looks)
        seen["looks"] = "\n\n".join(look for look in looks if look) or "(none)"
        seen["trajectory"] = "\n\n".join(trajectory[-REMEMBERED:]) or "(nothing yet)"
        strategy = yield from desk.ask("debugger", "collabcoder/strategy", change=change, **seen)
        seen["strategy"] = strategy or "(none)"
        trajectory.append(f"Repair {number}: the {change} was changed because of\n{report.text}\nStrategy: {strategy}")
        if change == "plan":
            plan = (yield from desk.ask("planner", "collabcoder/new_plan", **seen)) or plan
            desk.thought = plan or None
            draft = yield from desk.write("coder", "collabcoder/code" if plan else "direct", plan=plan)
        else:
            draft = yield from desk.write("coder", "collabcoder/repair", **seen)
        drafts.append(draft)
    return last_program(drafts)


def decision(looks: Sequence[str]) -> str:
    """``plan`` or ``code``: what the looks, given in the order of :data:`LOOKS`, want to change."""
    votes = {"plan": 0.0, "code": 0.0}
    for weight, look in zip(LOOKS.values(), looks, strict=True):
        named = _CHANGE.search(look)
        if named:
            sure = _CONFIDENCE.search(look)
            votes[named[1].lower()] += weight * (min(int(sure[1]), 100) / 100 if sure else UNSURE)
    return "plan" if votes["plan"] > votes["code"] else "code"
