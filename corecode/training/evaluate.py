"""The evaluation of one arm: rollouts at every temperature, each distinct program judged once, one row a sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corecode.config import EvaluationConfig, SamplingConfig
from corecode.errors import InfrastructureError
from corecode.execution import Executor
from corecode.generation.generator import Generator, derive_seed
from corecode.problems import Problem
from corecode.roles.roles import WRITES
from corecode.teams import Answer, Team, rollout
from corecode.teams.prompted import PromptedTeam
from corecode.teams.samples import sandbox_tester
from corecode.teams.session import Length, play
from corecode.training.ledger import UNFINISHED, Ledger, Recorded, recorded_tester
from corecode.training.records import Journal
from sandbox import Judgement, Verdict

BATCHES = 4
"""Generation batches of a chunk, unless the profile sets its size; short and long prompts part within them."""


@dataclass(frozen=True)
class Bench:
    """What the evaluation of an arm works with."""

    arm: str
    team: Team | PromptedTeam
    generators: Mapping[str, Generator]
    """By role name."""
    config: EvaluationConfig
    executor: Executor
    """Shared by all temperatures, so that a program is judged once for the arm."""
    seed: int
    batch: int
    """Samples that a generator takes at a time."""

    @property
    def chunk(self) -> int:
        """Problems that are sampled together, and kept together."""
        return self.config.chunk or max(1, BATCHES * self.batch // self.config.samples)


def evaluate(
    bench: Bench, problems: Sequence[Problem], journal: Journal, folder: Path, identity: str
) -> dict[str, float]:
    """Write ``T<temperature>.jsonl`` for each temperature and return pass@1 by temperature.

    Problems go in chunks, each with a seed of its own. What was sampled and judged is kept as it comes, so that a rerun
    after a kill buys no sample twice and ends with the same rows (``cpu_s`` and ``peak_mb`` are measured again where
    judging was cut off). A chunk whose sampling failed is not kept: a rerun tries it again.

    Args:
        identity: names everything that decides the rows; what was kept under another one does not count.
    """
    config, chunk = bench.config, bench.chunk
    total = -(-len(problems) // chunk) * len(config.temperatures)
    step = 0
    results: dict[str, float] = {}
    for temperature in config.temperatures:
        name = f"T{temperature:g}"
        kept = Ledger(folder / UNFINISHED / f"{name}.rows.jsonl", identity)
        calls = Ledger(folder / UNFINISHED / f"{name}.calls.jsonl", identity)
        rows: list[dict[str, Any]] = []
        for first in range(0, len(problems), chunk):
            part = problems[first : first + chunk]
            rows += _chunk_rows(bench, part, temperature, derive_seed(bench.seed, temperature, first), kept, calls)
            step += 1
            judged = [row for row in rows if row["missing"] is None]
            solved = sum(row["verdict"] == Verdict.ACCEPTED.value for row in judged)
            metrics = {
                "evaluation/problems": float(first + len(part)),
                "evaluation/missing": float(len(rows) - len(judged)),
            }
            if judged:
                results[f"evaluation/pass@1/{name}"] = solved / len(judged)
            journal.metrics(step, total, {**metrics, **results})
        _write(folder / f"{name}.jsonl", rows)
    return results


def _chunk_rows(
    bench: Bench, part: Sequence[Problem], temperature: float, seed: int, kept: Ledger, calls: Ledger
) -> list[dict[str, Any]]:
    """Rows of a chunk, from ``kept`` as far as they are there; a generator that fails twice leaves rows that say so."""
    known = {record["problem"]: record["rows"] for record in kept.records}
    waiting = [problem for problem in part if problem.id not in known]
    if waiting:
        try:
            # Also what is kept is sampled again, from the recorded calls: a chunk is one draw.
            groups = _sampled(bench, part, temperature, seed, calls)
        except InfrastructureError as error:
            reason = f"generation: {error}"
            lost = range(bench.config.samples)
            known |= {p.id: [_missing(bench.arm, temperature, i, p, reason) for i in lost] for p in waiting}
        else:
            known |= _judged(bench, [group for group in groups if group[0].problem.id not in known], temperature, kept)
            calls.clear()
    return [row for problem in part for row in known[problem.id]]


def _sampled(bench: Bench, part: Sequence[Problem], temperature: float, seed: int, calls: Ledger) -> list[list[Answer]]:
    """The answers to a chunk; a second attempt repeats only the calls that failed."""
    try:
        return _attempt(bench, part, temperature, seed, calls)
    except InfrastructureError:
        return _attempt(bench, part, temperature, seed, calls)


def _attempt(bench: Bench, part: Sequence[Problem], temperature: float, seed: int, calls: Ledger) -> list[list[Answer]]:
    config = bench.config
    generators = {name: Recorded(name, generator, calls) for name, generator in bench.generators.items()}
    limits: dict[Length, int] = {
        "text": config.max_thought_tokens,
        "program": config.max_program_tokens,
        "both": config.max_thought_tokens + config.max_program_tokens,
    }
    sampling: dict[Length, SamplingConfig] = {
        kind: SamplingConfig(temperature=temperature, max_tokens=limit) for kind, limit in limits.items()
    }
    if isinstance(bench.team, PromptedTeam):
        # An executor of its own: sample tests are not the problem's tests.
        test = recorded_tester(sandbox_tester(Executor(bench.executor.sandbox)), calls)
        return play(bench.team.method, part, config.samples, generators, sampling, test, config.prompted, seed)
    by_role = {name: sampling[WRITES[name]] for name in generators}
    groups = rollout(bench.team, generators, by_role, part, config.samples, config.protocol, seed)
    return [[run.answer() for run in group] for group in groups]


def _judged(
    bench: Bench, groups: Sequence[Sequence[Answer]], temperature: float, kept: Ledger
) -> dict[str, list[dict[str, Any]]]:
    """Rows by problem, which are kept from now on."""
    whole = [answer for group in groups for answer in group if answer.lost is None]
    judgements = iter(bench.executor.judge([(answer.problem, answer.program) for answer in whole]))
    rows = {
        group[0].problem.id: [
            _row(bench.arm, temperature, i, answer, next(judgements))
            if answer.lost is None
            else _missing(bench.arm, temperature, i, answer.problem, answer.lost)
            for i, answer in enumerate(group)
        ]
        for group in groups
    }
    kept.append([{"problem": problem, "rows": one} for problem, one in rows.items()])
    return rows


def _row(arm: str, temperature: float, sample: int, answer: Answer, judgement: Judgement) -> dict[str, Any]:
    lost = judgement.verdict is Verdict.SANDBOX_ERROR
    return {
        "problem_id": answer.problem.id,
        "arm": arm,
        "temperature": temperature,
        "sample": sample,
        "thought": answer.thought,
        "thought_valid": answer.thought_valid,
        "completion": answer.completion,
        "program": answer.program,
        "verdict": None if lost else judgement.verdict.value,
        "passed": 0 if lost else judgement.passed,
        "total": judgement.total,
        "cpu_s": None if lost else judgement.cpu_s,
        "peak_mb": None if lost else judgement.peak_mb,
        "steps": None if lost else judgement.steps,
        "detail": judgement.detail,
        "tokens": answer.tokens,
        "truncated": answer.truncated,
        "missing": f"sandbox: {judgement.detail}" if lost else None,
    }


def _missing(arm: str, temperature: float, sample: int, problem: Problem, reason: str) -> dict[str, Any]:
    return {
        "problem_id": problem.id,
        "arm": arm,
        "temperature": temperature,
        "sample": sample,
        "thought": None,
        "thought_valid": None,
        "completion": "",
        "program": None,
        "verdict": None,
        "passed": 0,
        "total": len(problem.tests),
        "cpu_s": None,
        "peak_mb": None,
        "steps": None,
        "detail": "",
        "tokens": {},
        "truncated": False,
        "missing": reason,
    }


def _write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(
        "".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    partial.replace(path)
