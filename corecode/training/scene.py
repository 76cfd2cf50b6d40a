"""What surrounds the trained role: the frozen roles before it, those after it, execution and reward.

Training role *r* of a team means: the roles before *r* build its prompt, *r* is sampled from the policy, the roles
after *r* finish the work, the programs are executed, and the outcome is *r*'s reward. This module is all of that except
the policy; it knows nothing of tensors.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Generator as Yields
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from corecode.config import GRPOConfig, RewardConfig
from corecode.errors import InfrastructureError
from corecode.execution import Executor
from corecode.generation.generator import Completion, Generator, derive_seed
from corecode.problems import Problem
from corecode.rewards import Outcome, Reward, helper_rewards, outcome, program_rewards
from corecode.teams import Player, Rollout, Team, finish
from sandbox import Judgement

LOSS_WINDOW = 200
"""Samples over which the share of infrastructure failures is measured."""
SHOWN_SAMPLES = 4
"""Samples written to ``samples.jsonl`` at a step that is recorded."""


@dataclass(frozen=True)
class Scores:
    """What a batch of samples earned, in input order."""

    rewards: list[float | None]
    """None: no verdict, so no reward; the sample must not count in anything."""
    informative: list[bool]
    """Whether the sample's group has two different rewards, so that there is something to learn from it."""
    metrics: dict[str, float]
    samples: list[dict[str, Any]]
    """A few of the samples with their reward terms, for people to read."""


@dataclass(frozen=True)
class Rated:
    """One sample with all that came of it."""

    sample: Rollout
    runs: list[Rollout]
    """The sample finished by the roles after it, once or several times."""
    judgements: list[Judgement]
    """Of the runs' programs."""
    outcomes: list[Outcome | None]
    """None where there is no verdict."""
    reward: Reward


class Scene:
    """Plays the frozen part of a team around one trained role."""

    def __init__(
        self,
        team: Team,
        role: str,
        partners: Mapping[str, Generator],
        config: GRPOConfig,
        rewards: RewardConfig,
        executor: Executor,
        cost: Literal["cpu_time", "steps"],
        seed: int,
    ) -> None:
        """``partners``: generators of the frozen roles, by name.

        Raises:
            ValueError: when the role is not in the team or a frozen role has no generator.
        """
        before, self.role, after = team.split(role)
        self.team = team
        self.config = config
        self.rewards = rewards
        self.executor = executor
        self.cost: Literal["cpu_time", "steps"] = cost
        self.seed = seed
        self.seconds: dict[str, float] = {}
        """Wall seconds by activity since the last look; the reader clears it."""
        self.tokens = 0
        """Tokens sampled by all roles since the last look; the reader clears it."""
        self._before = [Player(r, partners[r.name], config.partner_sampling) for r in before]
        self._after = [Player(r, partners[r.name], config.partner_sampling) for r in after]
        self._expected: tuple[Sequence[Problem], int] | None = None
        self._opened: tuple[list[Rollout], int] | None = None
        self._reference_cost: dict[str, float | None] = {}
        self._recent: deque[tuple[int, int]] = deque()

    @property
    def helps(self) -> bool:
        """Whether the trained role writes something that others read, rather than the program."""
        return bool(self._after)

    def open(self, problems: Sequence[Problem], step: int) -> list[Rollout]:
        """Let the roles before the trained one speak, once for each problem; results in input order."""
        for problem, reference in self._unmeasured(problems).values():
            self.executor.begin(problem, reference)
        opened, self._opened = self._opened, None
        if opened is not None and opened[1] == step and [start.problem for start in opened[0]] == list(problems):
            return opened[0]
        return self._speak(problems, step)

    def expect(self, problems: Sequence[Problem], step: int) -> None:
        """Tell which problems come next, so that they are opened while verdicts of this step are awaited. May be left
        out, and nothing is wrong when others come."""
        self._expected = (problems, step) if self._before and problems else None

    def _open_ahead(self, running: Sequence[Sequence[Rollout]]) -> None:
        """Open the problems that come next while the programs of this step run."""
        expected, self._expected = self._expected, None
        if expected is not None:
            for run in (run for runs in running for run in runs):
                self._begin(run)
            self._opened = (self._speak(*expected), expected[1])

    def _speak(self, problems: Sequence[Problem], step: int) -> list[Rollout]:
        rollouts = [Rollout(problem) for problem in problems]
        if self._before:
            with self.timed("partner"):
                seed = derive_seed(self.seed, "before", step)
                rollouts = [group[0] for group in finish(self._before, rollouts, 1, seed)]
            self.tokens += sum(sum(rollout.tokens.values()) for rollout in rollouts)
        return rollouts

    def score(self, starts: Sequence[Rollout], completions: Sequence[Completion], step: int) -> Scores:
        """Finish, execute and rate one batch of samples, and sum it up: :meth:`rate` and :meth:`report`."""
        return self.report(self.rate(starts, completions, step), step)

    def rate(
        self, starts: Sequence[Rollout], completions: Sequence[Completion], step: int, attempt: int = 0
    ) -> list[Rated]:
        """Finish, execute and rate samples.

        Args:
            starts: for each sample the rollout it continues; the samples of a group stand together.
            completions: what the policy answered, in the same order.
            attempt: counts the samplings of these groups in this step.

        Raises:
            InfrastructureError: when too many samples have no verdict.
        """
        samples = [start.add(self.role, answer) for start, answer in zip(starts, completions, strict=True)]
        finished = self._finish(samples, derive_seed(self.seed, "after", step, *([attempt] if attempt else [])))
        self._count_tokens(samples, finished)
        judged = self._judge(finished)
        outcomes = [[outcome(judgement, self.cost) for judgement in row] for row in judged]
        size = self.config.group_size
        rewards: list[Reward] = []
        for first in range(0, len(samples), size):
            group = slice(first, first + size)
            rewards += self._rate(samples[group], outcomes[group])
        self._watch(rewards)
        return [Rated(*parts) for parts in zip(samples, finished, judged, outcomes, rewards, strict=True)]

    def flat_groups(self, rated: Sequence[Rated]) -> list[int]:
        """Numbers of the groups whose samples were all rated, and all alike."""
        size = self.config.group_size
        totals = [one.reward.total for one in rated]
        groups = [totals[first : first + size] for first in range(0, len(totals), size)]
        return [number for number, group in enumerate(groups) if None not in group and len(set(group)) == 1]

    def report(self, rated: Sequence[Rated], step: int) -> Scores:
        """What a step's samples earned, with metrics over them."""
        size = self.config.group_size
        shown = [
            _sample_row(step, one.runs[0], one.judgements[0], one.reward)
            for one in rated[:: max(size, 1)][:SHOWN_SAMPLES]
        ]
        totals = [one.reward.total for one in rated]
        informative = _informative(totals, size)
        metrics = self._metrics(rated)
        metrics["group/uninformative"] = 1.0 - sum(informative) / len(informative)
        return Scores(totals, informative, metrics, shown)

    def _finish(self, samples: list[Rollout], seed: int) -> list[list[Rollout]]:
        if not self._after:
            return [[sample] for sample in samples]
        with self.timed("partner"):
            return finish(self._after, samples, self.config.programs_per_sample, seed, self._begin)

    def hear(self, start: Rollout, answer: Completion) -> None:
        """A sample of the trained role is known, others are not yet: a program can begin to run. May be left out."""
        if not self.helps:
            self._begin(start.add(self.role, answer))

    def _begin(self, run: Rollout) -> None:
        self.executor.begin(run.problem, run.program)

    def _count_tokens(self, samples: Sequence[Rollout], finished: Sequence[Sequence[Rollout]]) -> None:
        """Count the tokens of the samples and of the turns after them."""
        self.tokens += sum(sample.turns[-1].completion.tokens for sample in samples)
        for sample, runs in zip(samples, finished, strict=True):
            after = len(sample.turns)
            self.tokens += sum(turn.completion.tokens for run in runs for turn in run.turns[after:])

    def _judge(self, finished: Sequence[Sequence[Rollout]]) -> list[list[Judgement]]:
        """Judgements of the programs; the reference solutions of new problems are measured in the same batch."""
        references = self._unmeasured([runs[0].problem for runs in finished])
        self._open_ahead(finished)
        with self.timed("sandbox"):
            judgements = self.executor.judge(
                [(run.problem, run.program) for runs in finished for run in runs] + list(references.values())
            )
        count = len(judgements) - len(references)
        for key, judgement in zip(references, judgements[count:], strict=True):
            measured = outcome(judgement, self.cost)
            if measured is not None:
                self._reference_cost[key] = measured.cost if measured.all_pass else None
        rest = iter(judgements[:count])
        return [[next(rest) for _ in runs] for runs in finished]

    def _unmeasured(self, problems: Sequence[Problem]) -> dict[str, tuple[Problem, str]]:
        """By problem, the reference solutions whose cost the reward asks for and nobody has measured yet."""
        if not self.helps or self.rewards.preset != "paper" or not self.rewards.time_weight:
            return {}
        return {
            problem.id: (problem, problem.references[0].program)
            for problem in problems
            if problem.references and problem.id not in self._reference_cost
        }

    def _rate(self, samples: Sequence[Rollout], outcomes: Sequence[Sequence[Outcome | None]]) -> list[Reward]:
        """Rewards of one group."""
        artifacts = [sample.turns[-1].artifact for sample in samples]
        thought_ok = [artifact.thought_valid is not False for artifact in artifacts]
        if self.helps:
            reference = self._reference_cost.get(samples[0].problem.id)
            return helper_rewards(outcomes, thought_ok, self.rewards, reference)
        one_program = [a.extraction is not None and a.extraction.blocks == 1 for a in artifacts]
        formats = [one and valid for one, valid in zip(one_program, thought_ok, strict=True)]
        return program_rewards([row[0] for row in outcomes], formats, self.rewards)

    def _watch(self, rewards: Sequence[Reward]) -> None:
        """Stop when infrastructure fails too often: more than the allowed share of the recent samples, or a whole
        batch."""
        lost = sum(reward.total is None for reward in rewards)
        self._recent.append((lost, len(rewards)))
        while sum(count for _, count in self._recent) - self._recent[0][1] >= LOSS_WINDOW:
            self._recent.popleft()
        missing = sum(count for count, _ in self._recent)
        share = missing / max(LOSS_WINDOW, sum(count for _, count in self._recent))
        allowed = self.config.max_infrastructure_loss
        if share > allowed or (lost == len(rewards) and allowed < 1):
            recent = sum(count for _, count in self._recent)
            raise InfrastructureError(
                f"the sandbox gave no verdict on {missing} of the last {recent} samples"
                f" ({lost} of {len(rewards)} in this step), more than max_infrastructure_loss"
                f" {allowed} allows; see `corecode doctor`"
            )

    def _metrics(self, rated: Sequence[Rated]) -> dict[str, float]:
        """Means over what was scored; a mean over nothing is left out."""
        rewards = [one.reward for one in rated]
        samples = [one.sample for one in rated]
        runs = [run for one in rated for run in one.runs]
        totals = [reward.total for reward in rewards if reward.total is not None]
        programs = [o for one in rated for o in one.outcomes if o is not None]
        metrics = {
            "infrastructure/lost": float(len(rewards) - len(totals)),
            "completion/truncated": _mean([sample.turns[-1].completion.truncated for sample in samples]),
            "completion/tokens": _mean([sample.turns[-1].completion.tokens for sample in samples]),
            "program/distinct": len({(run.problem.id, run.program) for run in runs}) / len(runs),
            "reward/mean": _mean(totals),
            "program/pass_ratio": _mean([o.pass_ratio for o in programs]),
            "program/all_pass": _mean([o.all_pass for o in programs]),
            "thought/valid": _mean([s.thought_valid for s in samples if s.thought_valid is not None]),
        }
        for name in dict.fromkeys(name for reward in rewards for name in reward.terms):
            metrics[f"reward/{name}"] = _mean([reward.terms[name] for reward in rewards if name in reward.terms])
        return {name: value for name, value in metrics.items() if not math.isnan(value)}

    def state(self) -> dict[str, Any]:
        """What later steps depend on, as JSON."""
        return {"recent": list(self._recent), "reference_cost": self._reference_cost}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take :meth:`state` back."""
        self._recent = deque((lost, count) for lost, count in state["recent"])
        self._reference_cost = dict(state["reference_cost"])

    @contextmanager
    def timed(self, activity: str) -> Yields[None]:
        """Add the wall time of a block to ``seconds``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add_seconds(activity, time.perf_counter() - start)

    def add_seconds(self, activity: str, seconds: float) -> None:
        """Add to ``seconds``."""
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _informative(totals: Sequence[float | None], size: int) -> list[bool]:
    """For each sample whether its group has at least two scored members that differ."""
    groups = [totals[first : first + size] for first in range(0, len(totals), size)]
    return [len({total for total in group if total is not None}) > 1 for group in groups for _ in group]


def _sample_row(step: int, run: Rollout, judgement: Judgement, reward: Reward) -> dict[str, Any]:
    return {
        "step": step,
        "problem_id": run.problem.id,
        "statement": run.problem.statement,
        "thought": run.thought,
        "thought_valid": run.thought_valid,
        "program": run.program,
        "verdict": judgement.verdict.value,
        "passed": judgement.passed,
        "total": judgement.total,
        "reward": reward.total,
        "terms": reward.terms,
    }
