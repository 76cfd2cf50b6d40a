"""The validation curves: what the team and its last role alone solve, greedily, while one of the roles is trained."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from corecode.config import GRPOConfig
from corecode.execution import Executor
from corecode.generation.generator import Generator
from corecode.problems import Problem
from corecode.teams import Player, Rollout, Team, Watcher, finish
from sandbox import Sandbox, Verdict

Tally = dict[str, tuple[float, int]]
"""Sums and counts by name, which add up over ranks."""


class Validator:
    """Measures a team on validation problems. What does not depend on the trained role is measured once."""

    def __init__(
        self,
        team: Team,
        role: str,
        generators: Mapping[str, Generator],
        config: GRPOConfig,
        problems: Sequence[Problem],
        sandbox: Sandbox,
    ) -> None:
        """``generators``: of every role by name, the trained one's included; it reads the policy as it then is."""
        greedy = {
            r.name: Player(
                r,
                generators[r.name],
                (config.sampling if r.name == role else config.partner_sampling).model_copy(
                    update={"temperature": 0.0, "top_p": 1.0}
                ),
            )
            for r in team.roles
        }
        before, trained, after = team.split(role)
        self._before = [greedy[r.name] for r in before]
        self._rest = [greedy[r.name] for r in (trained, *after)]
        self._trained_writes_program = not after
        self._problems = list(problems)
        self._executor = Executor(sandbox, pass_or_fail=True)
        self._starts: list[Rollout] | None = None
        self._alone: tuple[float, int] | None = None
        self.sandbox_seconds = 0.0
        """Wall seconds of the latest measurement in which programs were judged."""

    def measure(self) -> Tally:
        """Measure the policy now."""
        if self._starts is None:
            self._starts = self._run(self._before, [Rollout(problem) for problem in self._problems])
        finished = self._run(self._rest, self._starts, self._begin)
        alone: list[Rollout] = []
        if len(self._before) + len(self._rest) > 1 and (self._alone is None or self._trained_writes_program):
            alone = self._run(self._rest[-1:], [Rollout(problem) for problem in self._problems], self._begin)
        solved = self._judge([*finished, *alone])
        tally: Tally = {"team": _share(solved[: len(finished)])}
        thoughts = [run.thought_valid for run in finished if run.thought_valid is not None]
        if thoughts:
            tally["thought_valid"] = (float(sum(thoughts)), len(thoughts))
        if alone:
            self._alone = _share(solved[len(finished) :])
        if self._alone is not None:
            tally["alone"] = self._alone
        return tally

    def _run(
        self, players: Sequence[Player], starts: Sequence[Rollout], watcher: Watcher | None = None
    ) -> list[Rollout]:
        # Greedy, so the seed is of no consequence.
        return [group[0] for group in finish(players, starts, 1, 0, watcher)] if players else list(starts)

    def _begin(self, run: Rollout) -> None:
        self._executor.begin(run.problem, run.program)

    def _judge(self, finished: Sequence[Rollout]) -> list[bool | None]:
        """Whether each program passes all its tests; None where it could not be judged."""
        start = time.perf_counter()
        judgements = self._executor.judge([(run.problem, run.program) for run in finished])
        self.sandbox_seconds = time.perf_counter() - start
        return [None if j.verdict is Verdict.SANDBOX_ERROR else j.verdict is Verdict.ACCEPTED for j in judgements]


def _share(solved: Sequence[bool | None]) -> tuple[float, int]:
    """How many solved their problem, of those that could be judged."""
    judged = [one for one in solved if one is not None]
    return float(sum(judged)), len(judged)


def curves(tally: Tally) -> dict[str, float]:
    """Metrics of a tally. Collaboration Gain is left out where the last role alone solves nothing (undefined)."""
    means = {name: total / count for name, (total, count) in tally.items() if count}
    names = {"team": "pass@1/team", "alone": "pass@1/alone", "thought_valid": "thought_valid"}
    metrics = {f"validation/{names[name]}": value for name, value in means.items()}
    if "alone" in means and "team" in means:
        metrics["validation/cg_abs"] = means["team"] - means["alone"]
        if means["alone"] > 0:
            metrics["validation/cg"] = metrics["validation/cg_abs"] / means["alone"]
    return metrics
