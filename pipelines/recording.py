"""What MLflow is told of a run beside its numbers: names and tags, parameters, data sets, and one run for each arm.

Every run names its profile and seed, so that a page that compares some of them needs no explanation (docs/compare.md):

    <profile>-seed<seed>-<id>      the whole run             corecode.kind = run
    <stage> <profile>-seed<seed>   a stage, below it         corecode.kind = stage, corecode.stage
    <arm> <profile>-seed<seed>     an evaluated arm, below it  corecode.kind = arm, corecode.arm
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.fingerprint import READS, file_digest
from pipelines import provenance
from pipelines.home import home_folder
from pipelines.reconcile import owner_tags, process_tag
from pipelines.settings import MLFLOW_TAG, RUN_TAG
from pipelines.tracking import TrackedRun, Tracking, run_key

ENVIRONMENT = "environment.json"
"""Artifact of a run: with which code, packages and machine it began."""
DAGSTER_UI = "http://127.0.0.1:3000"


def label(profile: Profile) -> str:
    """What tells runs apart on a page, beside what they are runs of."""
    return f"{profile.name}-seed{profile.seed}"


def open_runs(context: Any, profile: Profile, folder: Path) -> tuple[TrackedRun, TrackedRun]:
    """The MLflow run of the whole run and the one of this stage; Dagster's run and they name each other."""
    store = Tracking(home_folder())
    name = context.asset_key.to_user_string()
    ids = {
        "corecode.profile": profile.name,
        "corecode.seed": str(profile.seed),
        "corecode.run": folder.name,
        "corecode.folder": str(folder),
        "dagster.run_id": context.run_id,
        "dagster.url": f"{DAGSTER_UI}/runs/{context.run_id}",
        **owner_tags(),
    }
    state = provenance.git_state()
    git = {"mlflow.source.git.commit": state["commit"], "git.dirty": state["dirty"]} if state else {}
    versions = {f"version.{package}": version for package, version in provenance.package_versions().items()}
    parent = store.open(run_key(folder.name), folder.name, {**ids, "corecode.kind": "run"})
    shown = {
        "mlflow.source.name": "corecode",
        "mlflow.user": os.environ.get("USER") or str(os.getuid()),
        "mlflow.note.content": profile.description,
    }
    parent.tags({**ids, **git, **versions, **shown})
    parent.parameters(profile.model_dump())
    if parent.fresh:  # what `corecode rerun` needs
        parent.document(profile.model_dump(mode="json"), "profile.json")
        parent.document(provenance.environment(profile.model), ENVIRONMENT)
    child = store.open(
        run_key(folder.name, name),
        f"{name} {label(profile)}",
        {**ids, "corecode.kind": "stage", "corecode.stage": name, "mlflow.parentRunId": parent.id},
    )
    child.tags({**ids, **git})
    child.parameters({"profile": profile.name, "seed": profile.seed, **_slice(profile, name)})
    context.instance.add_run_tags(
        context.run_id,
        {
            "corecode/profile": profile.name,
            "corecode/seed": str(profile.seed),
            RUN_TAG: folder.name,
            **process_tag(context.run_id),
            MLFLOW_TAG: parent.id,
            "mlflow/url": parent.url,
        },
    )
    return parent, child


def _slice(profile: Profile, stage: str) -> dict[str, Any]:
    """The section of the profile that a stage reads first of all."""
    section = {"problems": "dataset", "sft_warmup": "sft", "baselines": "coder_grpo"}.get(stage, stage)
    values = profile.model_dump().get(section)
    return {section: values} if values is not None else {}


def problem_files(profile: Profile, run: Path) -> list[tuple[str, str, str, str]]:
    """Name, digest, path and purpose (``training``, ``validation``, ``test``) of a run's problem files."""
    purpose = {"sft": "training", "rl": "training"}
    return [
        (f"{profile.dataset.name}-{path.stem}", file_digest(path), str(path), purpose.get(path.stem, path.stem))
        for path in sorted((run / "problems").glob("*.jsonl"))
    ]


def read_by(kinds: Collection[str], files: list[tuple[str, str, str, str]]) -> list[tuple[str, str, str, str]]:
    """Those of a run's problem files that jobs of these kinds read."""
    splits = {split for kind in kinds for split in READS[kind]}
    return [one for one in files if Path(one[2]).stem in splits]


def record_arms(profile: Profile, folder: Path, parent: TrackedRun, summary: Mapping[str, Any]) -> None:
    """A run for each arm, with its figures under names that are the same for every arm."""
    from corecode.stages import evaluation_jobs

    for job in evaluation_jobs(profile, folder):
        arm, weights = job.spec["arm"], job.spec["weights"]

        def record(_: Any, arm: str = arm, weights: Mapping[str, str] = weights) -> None:
            _record_arm(profile, folder, parent, summary, arm, weights)

        if not parent.attempt(f"arm {arm}", record):
            return


def _record_arm(
    profile: Profile,
    folder: Path,
    parent: TrackedRun,
    summary: Mapping[str, Any],
    arm: str,
    weights: Mapping[str, str],
) -> None:
    from pipelines.figures import arm_metrics

    tags = {
        "corecode.profile": profile.name,
        "corecode.seed": str(profile.seed),
        "corecode.run": folder.name,
        "corecode.kind": "arm",
        "corecode.arm": arm,
        "mlflow.parentRunId": parent.id,
        **owner_tags(),
    }
    parameters = {
        "profile": profile.name,
        "seed": profile.seed,
        "arm": arm,
        "weights": weights,
        "evaluation": profile.evaluation.model_dump(exclude={"arms"}),
    }
    run = parent.store.open(run_key(folder.name, "arm", arm), f"{arm} {label(profile)}", tags)
    run.parameters(parameters)
    run.datasets(read_by(["evaluate"], problem_files(profile, folder)))
    run.metrics(arm_metrics(summary, arm), 0)
    run.end("FINISHED")
    parent.problems += run.problems
