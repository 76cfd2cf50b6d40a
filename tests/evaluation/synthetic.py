"""Made-up runs: sample rows, problems and training curves with known properties, and nothing else of a run."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from corecode.config import DatasetConfig, EvaluationConfig, ModelConfig, Profile, ScratchConfig
from corecode.problems import Problem, Test, write_problems

TESTS = 8
RATES = {
    "sft/alone": 0.14,
    "sft/team": 0.30,
    "planner-grpo/team": 0.58,
    "final/alone": 0.22,
    "final/team": 0.72,
    "single-direct/final": 0.55,
    "single-thought/final": 0.70,
}
"""Mean pass@1 of each arm."""

PROGRAM = """import sys


def solve(numbers, k):
    result = []
    for number in numbers:
        if number %% k == 0 and number > 3:
            result.append(number)
        elif number < 0:
            result.append(-number)
    return result


tokens = sys.stdin.read().split()
k = int(tokens[0])
print(*solve([int(token) for token in tokens[1:]], k) or [%d])
"""
THOUGHT = """Input-Output: a dial word list and a list of numbers; print the numbers that are kept
Steps:
1. k 2 mirror 7 triple 1
2. keep x with x % k == 0 and x > 3
3. replace x < 0 by -x
Conditions: empty -> {number}
Iteration: over the numbers, first to last"""


def make_profile(arms: Sequence[str] = tuple(RATES), n: int = 5, **changes: object) -> Profile:
    """A profile whose evaluation fits a made-up run."""
    temperatures = changes.pop("temperatures", [0.2, 1.0])
    profile = Profile(
        name="synthetic",
        description="made up",
        hardware="none",
        expected_minutes=1,
        seed=7,
        dataset=DatasetConfig(name="dials"),
        model=ModelConfig(scratch=ScratchConfig()),
        evaluation=EvaluationConfig(arms=list(arms), samples=n, temperatures=temperatures),  # type: ignore[arg-type]
    )
    return profile.model_copy(update=changes)


def make_problems(count: int, sources: Sequence[str] = ("dials",)) -> list[Problem]:
    return [
        Problem(
            id=f"dials/{i:05d}",
            statement=f"Problem {i}. A dial starts at {i % 10}. Mirror it, then triple it; keep every number that the"
            " dial divides, and print what is left.",
            tests=[Test(input=f"{i}\n", output=f"{i}\n")] * TESTS,
            source=sources[i % len(sources)],
        )
        for i in range(count)
    ]


def row(problem: str, arm: str, temperature: float, sample: int, passed: int, **changes: object) -> dict[str, object]:
    """One row of the contract: accepted when all tests pass, else a wrong answer."""
    team = arm.endswith("/team")
    values: dict[str, object] = {
        "problem_id": problem,
        "arm": arm,
        "temperature": temperature,
        "sample": sample,
        "thought": THOUGHT.format(number=passed) if team else None,
        "thought_valid": True if team else None,
        "completion": PROGRAM % passed,
        "program": PROGRAM % passed,
        "verdict": "accepted" if passed == TESTS else "wrong_answer",
        "passed": passed,
        "total": TESTS,
        "cpu_s": 0.01 * (sample + 1),
        "peak_mb": 1.5,
        "steps": 100 + passed,
        "detail": "",
        "tokens": {"planner": 60, "coder": 80} if team else {"coder": 90},
        "truncated": False,
        "missing": None,
    }
    return values | changes


def write_rows(run: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows where an evaluation leaves them."""
    files: dict[Path, list[str]] = {}
    for one in rows:
        path = run / "evaluation" / str(one["arm"]).replace("/", "__") / f"T{one['temperature']}.jsonl"
        files.setdefault(path, []).append(json.dumps(one, sort_keys=True) + "\n")
    for path, lines in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")


def make_rows(
    problems: Sequence[Problem], n: int, rates: Mapping[str, float], temperatures: Sequence[float], seed: int = 0
) -> list[dict[str, object]]:
    """Rows of arms with given mean pass@1; problems differ in difficulty, and the arms share it."""
    rng = np.random.default_rng(seed)
    kinds = random.Random(seed)
    difficulty = rng.normal(size=len(problems))
    rows: list[dict[str, object]] = []
    for arm, rate in rates.items():
        for temperature in temperatures:
            level = np.log(rate / (1 - rate)) * 1.4 - 0.35 * temperature
            chance = 1 / (1 + np.exp(-(level + 1.6 * difficulty + rng.normal(scale=0.8, size=len(problems)))))
            for i, problem in enumerate(problems):
                for sample in range(n):
                    passed = TESTS if rng.random() < chance[i] else int(rng.integers(0, TESTS))
                    rows.append(row(problem.id, arm, temperature, sample, passed, **_failure(kinds, passed)))
    return rows


def _failure(kinds: random.Random, passed: int) -> dict[str, object]:
    if passed == TESTS:
        return {}
    draw = kinds.random()
    if draw < 0.25:
        return {
            "verdict": "runtime_error",
            "detail": kinds.choice(["ValueError", "IndexError", "NameError", "EOFError"]),
        }
    if draw < 0.30:
        return {"verdict": "time_limit", "detail": "cpu"}
    if draw < 0.36 and passed == 0:
        return {"verdict": "no_code", "program": None}
    if draw < 0.40:
        return {"truncated": True, "thought_valid": None}
    return {}


def write_curves(run: Path, steps: int = 30) -> None:
    """Training curves of both phases: the team rises in both, the Coder alone in the second."""
    rng = np.random.default_rng(3)
    for phase in ("planner_grpo", "coder_grpo"):
        first = phase == "planner_grpo"
        lines: list[str] = []
        for step in range(steps + 1):
            share = step / steps
            team = 0.30 + 0.28 * share if first else 0.58 + 0.14 * share
            alone = 0.14 if first else 0.14 + 0.08 * share
            if step:
                terms = {"reward/accuracy": team + rng.normal(scale=0.03), "reward/format": 0.9 + 0.09 * share}
                terms["reward/time" if first else "reward/space"] = team * 0.5
                terms["reward/mean"] = terms["reward/accuracy"] + 0.1 * team * 0.5
                terms["infrastructure/lost"] = 0.0
                if first:
                    terms["thought/valid"] = terms["reward/format"]
                lines.append(
                    json.dumps({"step": step, "of": steps, "metrics": terms, "seconds": {"step": rng.random()}})
                )
            if step % 10 == 0:
                values = {
                    "validation/pass@1/team": team,
                    "validation/pass@1/alone": alone,
                    "validation/cg": (team - alone) / alone,
                    "validation/thought_valid": 0.9 + 0.09 * share,
                }
                lines.append(json.dumps({"step": step, "of": steps, "metrics": values}))
        (run / phase).mkdir(parents=True, exist_ok=True)
        (run / phase / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_run(
    run: Path,
    problems: int = 60,
    n: int = 5,
    rates: Mapping[str, float] = RATES,
    temperatures: Sequence[float] = (0.2, 1.0),
    seed: int = 0,
    sources: Sequence[str] = ("dials",),
) -> list[dict[str, object]]:
    """A whole made-up run; returns its rows."""
    made = make_problems(problems, sources)
    write_problems(run / "problems" / "test.jsonl", made)
    rows = make_rows(made, n, rates, temperatures, seed)
    write_rows(run, rows)
    write_curves(run)
    return rows
