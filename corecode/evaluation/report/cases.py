"""Examples for the report: sampled thoughts, and the problems where planning helped or hurt."""

from __future__ import annotations

import html
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from corecode.evaluation.collaboration import PairedArms
from corecode.evaluation.failures import in_words, outcome
from corecode.evaluation.rows import ArmSamples, SampleRow
from corecode.problems import Problem

LONGEST_TEXT = 4000
"""Characters of a statement, thought or program that the page shows."""
CASE_BYTES = 3_000_000
"""Room for the problems one by one: beside the plotting library (5 MB) the page stays under 10 MB."""
MARKUP_BYTES = 900
"""What the page writes around the texts of one problem, at most."""


@dataclass(frozen=True)
class Shown:
    """One sample as the page shows it."""

    thought: str | None
    program: str | None
    outcome: str
    """In words, such as ``wrong answer``."""
    accepted: bool
    passed: int
    total: int


@dataclass(frozen=True)
class Case:
    """One problem as the page shows it; ``alone`` is None where only a team is shown."""

    problem_id: str
    statement: str
    team: Shown
    alone: Shown | None = None
    team_correct: int = 0
    alone_correct: int = 0
    n: int = 0

    @property
    def effect(self) -> str:
        """``helped``, ``hurt`` or ``equal``."""
        if self.team_correct == self.alone_correct:
            return "equal"
        return "helped" if self.team_correct > self.alone_correct else "hurt"

    @property
    def size(self) -> int:
        """Bytes on the page."""
        shown = [self.team] + ([] if self.alone is None else [self.alone])
        texts = [self.problem_id, self.statement, *(text or "" for one in shown for text in (one.thought, one.program))]
        return MARKUP_BYTES + sum(len(html.escape(text).encode()) for text in texts)


@dataclass(frozen=True)
class PlanningEffect:
    """Where planning helped and where it hurt, for one Coder at one temperature."""

    helped: int
    hurt: int
    equal: int
    cases: tuple[Case, ...]
    """As many as fit into ``CASE_BYTES``, the strongest first, helped and hurt in turn, then those without effect."""
    table: tuple[tuple[int, ...], ...]
    """table[a][t] = problems with ``a`` right samples of the Coder alone and ``t`` of the team."""


def clip(text: str | None) -> str | None:
    """The start of a text, with a note of how much is left out."""
    if text is None or len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… ({len(text) - LONGEST_TEXT:,} more characters)"


def show(row: SampleRow) -> Shown:
    return Shown(
        clip(row.thought), clip(row.program), in_words(outcome(row)), row.accepted, passed=row.passed, total=row.total
    )


def sampled_thoughts(arm: ArmSamples, problems: Mapping[str, Problem], seed: int, count: int = 10) -> list[Case]:
    """Thoughts with program and verdict of ``count`` problems, drawn by the seed: not the best, not the worst."""
    found = {
        problem: next((row for row in rows if not row.lost and row.thought is not None), None)
        for problem, rows in zip(arm.problem_ids, arm.rows_P, strict=True)
    }
    usable = [problem for problem, row in found.items() if row is not None]
    chosen = random.Random(seed).sample(usable, min(count, len(usable)))
    return [
        Case(problem, _statement(problems, problem), show(row))
        for problem in chosen
        if (row := found[problem]) is not None
    ]


def planning_effect(paired: PairedArms, problems: Mapping[str, Problem], seed: int) -> PlanningEffect:
    """Compare the number of right samples with and without the Planner, problem by problem."""
    team, alone, n = paired.system, paired.baseline, paired.system.n
    table = [[0] * (n + 1) for _ in range(n + 1)]
    cases: list[Case] = []
    for problem, with_plan, without in zip(
        paired.ids, team.complete(paired.both_P), alone.complete(paired.both_P), strict=True
    ):
        right, right_alone = sum(r.accepted for r in with_plan), sum(r.accepted for r in without)
        table[right_alone][right] += 1
        cases.append(
            Case(
                problem,
                _statement(problems, problem),
                show(_first(with_plan, right - right_alone)),
                show(_first(without, right_alone - right)),
                right,
                right_alone,
                n,
            )
        )
    kinds = {kind: [case for case in cases if case.effect == kind] for kind in ("helped", "hurt", "equal")}
    helped, hurt, equal = (_strongest(kind, seed) for kind in kinds.values())
    return PlanningEffect(
        helped=len(helped),
        hurt=len(hurt),
        equal=len(equal),
        cases=tuple(_fitting([*_in_turn(helped, hurt), *equal])),
        table=tuple(tuple(row) for row in table),
    )


def _strongest(cases: list[Case], seed: int) -> list[Case]:
    """The largest differences first; ties in an order drawn by the seed, so that no kind of problem is preferred."""
    mixed = random.Random(seed).sample(cases, len(cases))
    return sorted(mixed, key=lambda case: -abs(case.team_correct - case.alone_correct))


def _in_turn(first: list[Case], second: list[Case]) -> Iterator[Case]:
    for place in range(max(len(first), len(second))):
        yield from first[place : place + 1]
        yield from second[place : place + 1]


def _fitting(cases: Iterable[Case]) -> Iterator[Case]:
    """The first cases that fit into ``CASE_BYTES`` together."""
    room = CASE_BYTES
    for case in cases:
        room -= case.size
        if room < 0:
            return
        yield case


def _first(rows: tuple[SampleRow, ...], ahead: int) -> SampleRow:
    """The first right sample of the side that is ahead, the first wrong one of the other; of equal sides the first."""
    return next((row for row in rows if row.accepted == (ahead > 0)), rows[0]) if ahead else rows[0]


def _statement(problems: Mapping[str, Problem], problem: str) -> str:
    return clip(problems[problem].statement) or "" if problem in problems else ""
