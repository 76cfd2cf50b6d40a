"""A run's team in one folder, with the scores that promotion compares.

runs/<run>/champion/   planner/, coder/, team.json, scores.json
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corecode.arms import arm
from corecode.config import Profile
from corecode.errors import InfrastructureError, UserError
from corecode.roles.roles import WRITES
from pipelines.home import write_text

TEAM_ARM = "final/team"
SCORES = "scores.json"
REFUSED_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz", ".h5")
"""Files that may hold pickled objects, or that nothing here writes; a team's weights are safetensors."""


@dataclass(frozen=True)
class Scores:
    """What a team reached, problem by problem."""

    digest: str
    """Identifies the evaluation: problems, samples, temperature, limits."""
    measures: Mapping[str, Mapping[str, float]]
    """By measure (``pass@1``, ``apr``, ``thought_valid``) and problem; only problems without a lost sample."""
    resamples: int
    """Resamples of a comparison in which this team is the one offered."""
    seed: int
    """Seed of those resamples."""

    @property
    def pass_at_1(self) -> float:
        values = self.measures["pass@1"].values()
        return sum(values) / len(values)


def assemble(profile: Profile, run: Path) -> Path:
    """Put the run's team together in ``run/champion``; return that folder. Model files are shared with the stages'
    folders where the file system can.

    Raises:
        UserError: the profile does not evaluate the team.
        InfrastructureError: the run has no complete evaluation of its team, or a model is missing.
    """
    from corecode.stages import evaluation_jobs

    scores = _measured(profile, run)
    weights = next(job.spec["weights"] for job in evaluation_jobs(profile, run) if job.spec["arm"] == TEAM_ARM)
    folder, partial = run / "champion", run / "champion.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for role, stage in weights.items():
        model = run / stage / "model"
        if not model.is_dir():
            raise InfrastructureError(f"the {role}'s trained model is missing: there is no {model}")
        link_tree(model, partial / role)
    text = {"schema": 1, "digest": scores.digest, "resamples": scores.resamples, "seed": scores.seed}
    write_text(partial / SCORES, json.dumps({**text, "measures": scores.measures}, indent=1, sort_keys=True) + "\n")
    write_text(partial / "team.json", json.dumps(_description(profile, run, scores), indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return folder


def _description(profile: Profile, run: Path, scores: Scores) -> dict[str, Any]:
    evaluation = profile.evaluation
    temperature = evaluation.temperatures[0]
    limits = {"text": evaluation.max_thought_tokens, "program": evaluation.max_program_tokens}
    roles = arm(TEAM_ARM).roles
    return {
        "schema": 1,
        "run": run.name,
        "roles": list(roles),
        "prompts": profile.prompts,
        "sampling": {role: {"temperature": temperature, "max_tokens": limits[WRITES[role]]} for role in roles},
        "evaluation": {
            "digest": scores.digest,
            "arm": TEAM_ARM,
            "temperature": temperature,
            "problems": len(scores.measures["pass@1"]),
            "pass@1": scores.pass_at_1,
        },
        "profile": profile.model_dump(),
    }


def evaluation_digest(profile: Profile, run: Path) -> str:
    """Identifies what a team was measured on and how: equal digests make scores comparable."""
    evaluation = profile.evaluation
    how = [evaluation.protocol, evaluation.samples, evaluation.temperatures[0]]
    how += [evaluation.max_thought_tokens, evaluation.max_program_tokens]
    problems = hashlib.sha256((run / "problems" / "test.jsonl").read_bytes()).hexdigest()
    return hashlib.sha256(json.dumps([problems, how]).encode()).hexdigest()


def _measured(profile: Profile, run: Path) -> Scores:
    from corecode.evaluation.rows import load_samples

    evaluation = profile.evaluation
    if TEAM_ARM not in evaluation.arms:
        raise UserError(f"no champion without a measure: {run.name} does not evaluate {TEAM_ARM} (evaluation.arms)")
    samples = load_samples(run, evaluation.samples).get(TEAM_ARM, evaluation.temperatures[0])
    if samples is None or not samples.complete_P.any():
        raise InfrastructureError(f"no champion without a measure: {run.name} has no whole results of {TEAM_ARM}")
    measures: dict[str, dict[str, float]] = {"pass@1": {}, "apr": {}, "thought_valid": {}}
    for rows in samples.complete():
        name = rows[0].problem_id
        measures["pass@1"][name] = sum(row.accepted for row in rows) / samples.n
        measures["apr"][name] = sum(row.ratio for row in rows) / samples.n
        measures["thought_valid"][name] = sum(row.thought_valid is True for row in rows) / samples.n
    return Scores(evaluation_digest(profile, run), measures, evaluation.bootstrap, profile.seed)


def read_scores(folder: Path) -> Scores:
    """Read a team's scores.

    Raises:
        UserError: the folder holds none, or one is no number from 0 to 1 (nothing compares with NaN).
    """
    path = folder / SCORES
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        measures = {
            str(measure): {str(problem): _share(value) for problem, value in values.items()}
            for measure, values in found["measures"].items()
        }
        if not measures["pass@1"]:
            raise ValueError("no problem has a pass@1")
        return Scores(str(found["digest"]), measures, int(found["resamples"]), int(found["seed"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder} holds no scores of a team ({SCORES}): {error}") from error


def _share(value: Any) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError(f"a score is {value!r}, which is no share of samples")
    return float(value)


def content_digest(folder: Path) -> str:
    """sha256 over the names and contents of all files of a team's folder: the identity of a team.

    Raises:
        UserError: a file could hold a pickled object, or is a link to somewhere else.
    """
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise UserError(f"{path} is a link; a team's folder holds its files itself")
        if path.suffix.lower() in REFUSED_ENDINGS:
            raise UserError(f"{path} may hold pickled objects; a team's weights have to be safetensors, so remove it")
        if path.is_file():
            with path.open("rb") as file:
                whole.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def link_tree(source: Path, target: Path, ignore: Callable[[str, list[str]], set[str]] | None = None) -> None:
    """Copy a folder; files share their content with the source where the file system can (nobody changes a file of a
    finished model in place)."""

    def link_or_copy(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, copy_function=link_or_copy, ignore=ignore, dirs_exist_ok=True)
