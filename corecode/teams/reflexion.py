"""Reflexion (arXiv 2303.11366): try, reflect on what went wrong in words, remember that, and try again.

The evaluator is the sample tests. (In the paper the model writes tests of its own where a benchmark has none; here a
program is then only checked for being one.)
"""

from __future__ import annotations

from corecode.teams.session import Desk, Draft, Work, fenced

MEMORY = 3
"""Reflections that are remembered, the latest ones."""


def reflexion(desk: Desk) -> Work[Draft]:
    """Hands in the first program that passes, else the last one. An empty reflection leaves the report alone to learn
    from; an answer without a program is reported as that, and an earlier program stands in for it at the end."""
    drafts = [(yield from desk.write("coder", "direct"))]
    memory: list[str] = []
    for _ in range(desk.config.rounds):
        draft = drafts[-1]
        report = yield from desk.test(draft)
        if report.good:
            return draft
        seen = {"program": fenced(draft.program), "report": report.text}
        reflection = yield from desk.ask("reflector", "reflexion/reflect", **seen)
        if reflection:
            memory = [*memory, reflection][-MEMORY:]
        remembered = "\n\n".join(memory) or "(none)"
        drafts.append((yield from desk.write("coder", "reflexion/again", reflections=remembered, **seen)))
    return last_program(drafts)


def last_program(drafts: list[Draft]) -> Draft:
    """The last draft that holds a program; the last one when none does."""
    return next((draft for draft in reversed(drafts) if draft.program is not None), drafts[-1])
