"""MapCoder (arXiv 2405.11403): recall similar problems, plan after each, write the most promising plan first, debug.

The Retriever recalls problems with their solutions from the model's own knowledge. After each the Planner plans the
problem at hand, and says how sure it is. Plans are taken in the order of that confidence: the Coder writes a
program, and while it fails the sample tests the Debugger repairs it, a set number of times; then the next plan's turn
comes.
"""

from __future__ import annotations

import re

from corecode.teams.reflexion import last_program
from corecode.teams.session import Desk, Draft, Work, fenced, spoken

_EXEMPLAR = re.compile(r"^\W*(?:example|exemplar|problem)\s*\d+\b.*$", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"(?<!\d)\d{1,3}(?!\d)")


def mapcoder(desk: Desk) -> Work[Draft]:
    """Hands in the first program that passes the sample tests, else the last one.

    A recollection that does not part into exemplars counts as one exemplar; an empty one leaves the Planner without. A
    confidence that names no number up to 100 counts as 0; equal ones keep the order of the exemplars.
    """
    exemplars = exemplars_in((yield from desk.ask("retriever", "mapcoder/retrieve", count=str(desk.config.plans))))
    chosen = exemplars[: desk.config.plans] or ["(none)"]
    plans = yield from desk.ask_all([desk.question("planner", "mapcoder/plan", exemplar=text) for text in chosen])
    texts = [spoken(plan) for plan in plans]
    votes = yield from desk.ask_all([desk.question("planner", "mapcoder/confidence", plan=text) for text in texts])
    sure = [confidence(spoken(vote)) for vote in votes]
    drafts: list[Draft] = []
    for number in sorted(range(len(texts)), key=lambda number: -sure[number]):
        desk.thought = texts[number] or None
        plan = texts[number] or "(none)"
        draft = yield from desk.write("coder", "mapcoder/code", plan=plan, exemplar=chosen[number])
        for repairs_left in range(desk.config.rounds, -1, -1):
            drafts.append(draft)
            report = yield from desk.test(draft)
            if report.good:
                return draft
            if repairs_left:
                seen = {"program": fenced(draft.program), "report": report.text}
                draft = yield from desk.write("debugger", "mapcoder/debug", plan=plan, **seen)
    return last_program(drafts)


def exemplars_in(text: str) -> list[str]:
    """The exemplars of a recollection: what stands under its headings "Example 1", "Example 2" and so on."""
    parts = [part.strip() for part in _EXEMPLAR.split(text)]
    found = [part for part in parts[1:] if part]
    return found or [part for part in parts[:1] if part]


def confidence(text: str) -> int:
    """The first whole number from 0 to 100 in a text; 0 without one. (A model may write digits without end.)"""
    return next((number for number in map(int, _NUMBER.findall(text)) if number <= 100), 0)
