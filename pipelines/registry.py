"""The champion: the team that was best so far on one fixed set of problems, and how a run's team takes its place.

    runs/<run>/champion/      planner/, coder/, team.json, scores.json: what this run offers
    champions/<run>/          the same, of every run that became champion
    champion -> champions/<run>

A team takes the place when there is no champion, or when it is better on the *same* evaluation (same problems, samples,
temperature and limits): the 95 % paired-bootstrap interval of the difference in pass@1 lies above 0. Teams that were
measured differently are never compared; then the champion stays, and the reason says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corecode.arms import Arm, arm
from corecode.config import Profile
from corecode.errors import InfrastructureError, UserError
from pipelines.home import folder_bytes, write_text
from pipelines.tracking import TrackedRun

TEAM_ARM = "final/team"
MODEL = "corecode"
"""Name of the registered model in MLflow."""
LARGEST_UPLOAD = 64 * 1024**2


@dataclass(frozen=True)
class Decision:
    """Whether a team is the champion now, and why."""

    champion: bool
    reason: str
    previous: str = ""
    """Run of the champion before."""
    difference: float | None = None
    """Difference in pass@1 to the champion before, with its 95 % interval."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Candidate:
    """A team as it is stored in a folder."""

    folder: Path
    run: str
    digest: str
    """Identifies the evaluation: problems, samples, temperature, limits."""
    scores: dict[str, float]
    """Share of right samples by problem; only problems without a lost sample."""


def promote(profile: Profile, run: Path, home: Path, tracked: TrackedRun | None = None) -> dict[str, Any]:
    """Offer a run's team as champion; calling it again changes nothing.

    Raises:
        InfrastructureError: the run has no complete evaluation of its team, or a model is missing.
    """
    offered = load_candidate(assemble(profile, run))
    with _only_one(home):
        present = load_candidate(home / "champion") if (home / "champion" / "team.json").is_file() else None
        decision = decide(offered, present, profile)
        if decision.champion:
            _install(offered, home)
    if tracked is not None:
        _register(offered, decision, tracked)
    return asdict(decision)


def assemble(profile: Profile, run: Path) -> Path:
    """Put the run's team together in ``run/champion``; return that folder. Model files are shared with the stages'
    folders where the file system can."""
    from corecode.stages import evaluation_jobs

    team = arm(TEAM_ARM)
    temperature = profile.evaluation.temperatures[0]
    scores = _scores(profile, run, temperature)
    weights = next(job.spec["weights"] for job in evaluation_jobs(profile, run) if job.spec["arm"] == TEAM_ARM)
    folder, partial = run / "champion", run / "champion.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for role, stage in weights.items():
        model = run / stage / "model"
        if not model.is_dir():
            raise InfrastructureError(f"the {role}'s trained model is missing: there is no {model}")
        _copy(model, partial / role)
    text = {"digest": evaluation_digest(profile, run), "temperature": temperature, "scores": scores}
    write_text(partial / "scores.json", json.dumps(text, indent=1, sort_keys=True) + "\n")
    write_text(partial / "team.json", json.dumps(_description(profile, run, team, text), indent=1) + "\n")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return folder


def _description(profile: Profile, run: Path, team: Arm, scores: Mapping[str, Any]) -> dict[str, Any]:
    evaluation = profile.evaluation
    limits = {"planner": evaluation.max_thought_tokens, "coder": evaluation.max_program_tokens}
    return {
        "schema": 1,
        "run": run.name,
        "roles": list(team.roles),
        "prompts": profile.prompts,
        "sampling": {role: {"temperature": scores["temperature"], "max_tokens": limits[role]} for role in team.roles},
        "evaluation": {
            "digest": scores["digest"],
            "arm": TEAM_ARM,
            "temperature": scores["temperature"],
            "problems": len(scores["scores"]),
            "pass@1": sum(scores["scores"].values()) / len(scores["scores"]),
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


def _scores(profile: Profile, run: Path, temperature: float) -> dict[str, float]:
    from corecode.evaluation.rows import load_samples

    samples = load_samples(run, profile.evaluation.samples).get(TEAM_ARM, temperature)
    if samples is None or not samples.complete_P.any():
        raise InfrastructureError(
            f"no champion without a measure: {TEAM_ARM} was not evaluated; add it to evaluation.arms"
        )
    ids = [name for name, complete in zip(samples.problem_ids, samples.complete_P, strict=True) if complete]
    return {name: int(right) / samples.n for name, right in zip(ids, samples.correct_P(), strict=True)}


def load_candidate(folder: Path) -> Candidate:
    """Read a team's folder.

    Raises:
        UserError: it holds no team.
    """
    try:
        team = json.loads((folder / "team.json").read_text(encoding="utf-8"))
        scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
        return Candidate(folder, team["run"], scores["digest"], scores["scores"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{folder} holds no team (team.json and scores.json): {error}") from error


def decide(offered: Candidate, present: Candidate | None, profile: Profile) -> Decision:
    """Whether the offered team is to be the champion."""
    import numpy as np

    from corecode.evaluation.statistics import Bootstrap, paired_difference

    if present is None:
        return Decision(True, "the first champion")
    if present.run == offered.run:
        return Decision(True, "already the champion", present.run)
    if present.digest != offered.digest:
        return Decision(
            False, f"held: the champion {present.run} was measured on other problems, or otherwise", present.run
        )
    common = sorted(offered.scores.keys() & present.scores.keys())
    if not common:
        return Decision(False, f"held: no problem has results of both this team and {present.run}", present.run)
    values = [np.array([team.scores[name] for name in common]) for team in (offered, present)]
    found = paired_difference(values[0], values[1], Bootstrap(profile.evaluation.bootstrap, profile.seed)).interval
    better = found.low is not None and found.low > 0
    points = f"{100 * found.value:+.1f} points [{100 * (found.low or 0):.1f}, {100 * (found.high or 0):.1f}]"
    said = "better than" if better else "held: not better beyond chance than"
    return Decision(better, f"{said} {present.run}: {points}", present.run, found.value, found.low, found.high)


@contextmanager
def _only_one(home: Path) -> Generator[None]:
    """Two promotions at once would compare with the same champion."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "champion.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(team: Candidate, home: Path) -> None:
    kept = home / "champions" / team.run
    if not (kept / "team.json").is_file():
        partial = kept.with_name(kept.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        _copy(team.folder, partial)
        shutil.rmtree(kept, ignore_errors=True)
        partial.rename(kept)
    link = home / "champion.new"
    link.unlink(missing_ok=True)
    link.symlink_to(Path("champions") / team.run)
    link.replace(home / "champion")  # atomic: there is a whole champion at every moment


def _copy(source: Path, target: Path) -> None:
    def link_or_copy(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, copy_function=link_or_copy)


def _register(team: Candidate, decision: Decision, tracked: TrackedRun) -> None:
    """A version of the registered model for this run, with the alias it has earned."""
    tags = {"corecode.run": team.run, "corecode.digest": team.digest, "corecode.reason": decision.reason}
    tags |= {"corecode.previous": decision.previous, "corecode.path": str(team.folder)}
    small = folder_bytes(team.folder) <= LARGEST_UPLOAD
    model_id = tracked.model(team.folder, "team", tags) if small else None

    def action(client: Any) -> None:
        from mlflow.exceptions import MlflowException

        try:
            client.create_registered_model(MODEL, description="A Planner and a Coder that were trained together.")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        known = [v for v in client.search_model_versions(f"name='{MODEL}'") if v.tags.get("corecode.run") == team.run]
        if known:
            version = known[0].version
        else:
            source = f"models:/{model_id}" if model_id else team.folder.as_uri()
            created = client.create_model_version(MODEL, source, run_id=tracked.id, tags=tags, model_id=model_id)
            version = created.version
        client.set_registered_model_alias(MODEL, "champion" if decision.champion else "challenger", version)

    tracked.attempt(f"the version of {MODEL}", action)
