"""Examples for the report: sampled thoughts, and the problems where planning helped or hurt."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from corecode.evaluation.collaboration import PairedArms
from corecode.evaluation.failures import in_words, outcome
from corecode.evaluation.rows import ArmSamples, SampleRow
from corecode.problems import Problem

LONGEST_TEXT = 4000
"""Characters of a statement, thought or program that the page shows; it stays under 10 MB with 90 cases."""
CASES_EACH = 40
"""Problems shown where planning helped, and as many where it hurt."""


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
        return "helped" if self.team_correct > self.alone_correct else "hurt"


@dataclass(frozen=True)
class PlanningEffect:
    """Where planning helped and where it hurt, for one Coder at one temperature."""

    helped: int
    hurt: int
    equal: int
    cases: tuple[Case, ...]
    """The strongest of each kind, bounded by ``CASES_EACH``."""
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
    ids = [problem for problem, both in zip(team.problem_ids, paired.both_P, strict=True) if both]
    table = [[0] * (n + 1) for _ in range(n + 1)]
    cases: list[Case] = []
    for problem, with_plan, without in zip(
        ids, team.complete(paired.both_P), alone.complete(paired.both_P), strict=True
    ):
        right, right_alone = sum(r.accepted for r in with_plan), sum(r.accepted for r in without)
        table[right_alone][right] += 1
        if right != right_alone:
            helped = right > right_alone
            cases.append(
                Case(
                    problem,
                    _statement(problems, problem),
                    show(_first(with_plan, accepted=helped)),
                    show(_first(without, accepted=not helped)),
                    right,
                    right_alone,
                    n,
                )
            )
    helped_cases = [case for case in cases if case.effect == "helped"]
    hurt_cases = [case for case in cases if case.effect == "hurt"]
    return PlanningEffect(
        helped=len(helped_cases),
        hurt=len(hurt_cases),
        equal=len(ids) - len(cases),
        cases=tuple(_strongest(helped_cases, seed) + _strongest(hurt_cases, seed)),
        table=tuple(tuple(row) for row in table),
    )


def _strongest(cases: list[Case], seed: int) -> list[Case]:
    """The largest differences; ties in an order drawn by the seed, so that no kind of problem is preferred."""
    mixed = random.Random(seed).sample(cases, len(cases))
    return sorted(mixed, key=lambda case: -abs(case.team_correct - case.alone_correct))[:CASES_EACH]


def _first(rows: tuple[SampleRow, ...], accepted: bool) -> SampleRow:
    """The first sample with this result; it exists, since one side has more right samples than the other."""
    return next((row for row in rows if row.accepted == accepted), rows[0])


def _statement(problems: Mapping[str, Problem], problem: str) -> str:
    return clip(problems[problem].statement) or "" if problem in problems else ""
