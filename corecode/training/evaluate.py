"""The evaluation of one arm: rollouts at every temperature, each distinct program judged once, one row a sample."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corecode.config import EvaluationConfig, SamplingConfig
from corecode.errors import InfrastructureError
from corecode.execution import Executor
from corecode.generation.generator import Generator, derive_seed
from corecode.problems import Problem
from corecode.teams import Rollout, Team, rollout
from corecode.training.records import Journal
from sandbox import Judgement, Verdict

BATCHES = 4
"""Generation batches between two progress lines; short and long prompts part within them."""


def evaluate(
    arm: str,
    team: Team,
    generators: Mapping[str, Generator],
    problems: Sequence[Problem],
    config: EvaluationConfig,
    executor: Executor,
    journal: Journal,
    folder: Path,
    seed: int,
    batch: int,
) -> dict[str, float]:
    """Write ``T<temperature>.jsonl`` for each temperature and return pass@1 by temperature.

    Args:
        generators: by role name.
        executor: shared by all temperatures, so that a program is judged once for the arm.
        batch: samples that a generator takes at a time.
    """
    block = max(1, BATCHES * batch // config.samples)
    total = -(-len(problems) // block) * len(config.temperatures)
    step = 0
    results: dict[str, float] = {}
    for temperature in config.temperatures:
        sampling = {name: _sampling(name, temperature, config) for name in generators}
        rows: list[dict[str, Any]] = []
        for first in range(0, len(problems), block):
            part = problems[first : first + block]
            block_seed = derive_seed(seed, temperature, first)
            rows += _rows(arm, team, generators, sampling, part, temperature, config, executor, block_seed)
            step += 1
            judged = [row for row in rows if row["missing"] is None]
            solved = sum(row["verdict"] == Verdict.ACCEPTED.value for row in judged)
            metrics = {
                "evaluation/problems": float(first + len(part)),
                "evaluation/missing": float(len(rows) - len(judged)),
            }
            if judged:
                results[f"evaluation/pass@1/T{temperature:g}"] = solved / len(judged)
            journal.metrics(step, total, {**metrics, **results})
        _write(folder / f"T{temperature:g}.jsonl", rows)
    return results


def _sampling(role: str, temperature: float, config: EvaluationConfig) -> SamplingConfig:
    limit = {
        "planner": config.max_thought_tokens,
        "coder": config.max_program_tokens,
        "solver": config.max_thought_tokens + config.max_program_tokens,
    }[role]
    return SamplingConfig(temperature=temperature, max_tokens=limit)


def _rows(
    arm: str,
    team: Team,
    generators: Mapping[str, Generator],
    sampling: Mapping[str, SamplingConfig],
    problems: Sequence[Problem],
    temperature: float,
    config: EvaluationConfig,
    executor: Executor,
    seed: int,
) -> list[dict[str, Any]]:
    """Rows of some problems; a generator that fails twice leaves rows that say so."""
    reason = ""
    for _attempt in range(2):
        try:
            groups = rollout(team, generators, sampling, problems, config.samples, config.protocol, seed)
        except InfrastructureError as error:
            reason = f"generation: {error}"
            continue
        runs = [run for group in groups for run in group]
        judgements = executor.judge([(run.problem, run.program) for run in runs])
        return [
            _row(arm, temperature, i % config.samples, run, judgement)
            for i, (run, judgement) in enumerate(zip(runs, judgements, strict=True))
        ]
    return [_missing(arm, temperature, i, problem, reason) for problem in problems for i in range(config.samples)]


def _row(arm: str, temperature: float, sample: int, run: Rollout, judgement: Judgement) -> dict[str, Any]:
    lost = judgement.verdict is Verdict.SANDBOX_ERROR
    return {
        "problem_id": run.problem.id,
        "arm": arm,
        "temperature": temperature,
        "sample": sample,
        "thought": run.thought,
        "thought_valid": run.thought_valid,
        "completion": run.turns[-1].completion.text,
        "program": run.program,
        "verdict": None if lost else judgement.verdict.value,
        "passed": 0 if lost else judgement.passed,
        "total": judgement.total,
        "cpu_s": None if lost else judgement.cpu_s,
        "peak_mb": None if lost else judgement.peak_mb,
        "steps": None if lost else judgement.steps,
        "detail": judgement.detail,
        "tokens": run.tokens,
        "truncated": run.truncated,
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
