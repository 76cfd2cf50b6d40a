"""The run that a materialisation belongs to, as a Dagster resource: which profile, which seed, which folder.

The run folder follows from the profile, the seed and the id of the (root) Dagster run, so that every stage of a run,
and a retry of it, finds the same one.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from assets import STAGES
from corecode.config import Profile, stored_profile
from corecode.errors import UserError
from pipelines.home import home_folder, plain_name, prepare_home, write_text
from pipelines.partitions import CUSTOM, partition_of
from pipelines.preflight import check_inputs, needed_bytes, preflight
from pipelines.profiles import load_profile

if TYPE_CHECKING:
    from pipelines.stage import PipelineStage

RESOURCE = "run"
"""Key of the resource, in assets and in run configuration."""
STAGES_FILE = "stages.json"
RUN_TAG = "corecode/run"
"""Tag of a Dagster run with the name of its run folder."""
MLFLOW_TAG = "mlflow/run_id"
"""Tag of a Dagster run with the id of its MLflow run."""


def run_name(profile: Profile, run_id: str) -> str:
    """Name of a run: ``<profile>-seed<seed>-<short id>``."""
    return f"{profile.name}-seed{profile.seed}-{run_id[:8]}"


class RunSettings(dg.ConfigurableResource[None]):
    """What to run. The partition says it; the configuration changes fields, or names what no partition stands for."""

    profile: str = Field(
        default="", description="With the partition custom: the path of a YAML file. Otherwise the partition's profile."
    )
    seed: int | None = Field(default=None, description="With the partition other: the seed.")
    overrides: list[str] = Field(default_factory=list, description="Each field=value, such as planner_grpo.steps=5.")
    run: str = Field(
        default="",
        description="Name of an existing run folder to go on with; its own profile then counts. Empty: a new run, or "
        "without the problems among the assets the partition's newest run that has got that far.",
    )
    force: bool = Field(default=False, description="Train again what an earlier run with the same inputs has trained.")

    def run_config(self) -> dict[str, Any]:
        """Run configuration for Dagster that carries these settings."""
        values = {
            name: value
            for name, value in self.model_dump().items()
            if value not in (None, [], "") and value is not False
        }
        return {"resources": {RESOURCE: {"config": values}}}

    def open_folder(self, context: Any) -> tuple[Profile, Path]:
        """Profile and folder of the run; a new folder gets its ``profile.json``.

        A retry goes on with the folder that it began with.

        Raises:
            UserError: for a bad profile, a missing input, an unknown run, a partition that says something else than the
                configuration or the run, or a disk that is full or read-only.
            InfrastructureError: when what the profile needs does not work here.
        """
        runs = home_folder() / "runs"
        recorded = context.instance.get_run_by_id(context.run.run_id) or context.run
        name = self.run or recorded.tags.get(RUN_TAG, "")
        if name and _has_profile(runs / plain_name(name, "run")):
            return _stored_profile(runs / name, context.run.tags), runs / name
        if self.run:
            raise UserError(f"run: there is no run {self.run} under {runs}")
        profile = self.resolve(context.run.tags)
        selected = {key.to_user_string() for key in context.job_def.asset_layer.selected_asset_keys}
        if STAGES[0] not in selected:
            before = next((i for i, stage in enumerate(STAGES) if stage in selected), 0)
            folder = newest_run(runs, profile, STAGES[:before])
            return _stored_profile(folder, context.run.tags), folder
        root = context.run.tags.get("dagster/root_run_id", context.run.run_id)
        folder = runs / run_name(profile, root)
        if _has_profile(folder):
            return _stored_profile(folder, context.run.tags), folder
        check_inputs(profile)
        prepare_home(needed_bytes(profile))
        preflight(profile)
        write_text(folder / "profile.json", profile.model_dump_json(indent=2) + "\n")
        return profile, folder

    def fail(self, context: Any) -> None:
        """Record as failed a run that a check stops (see :class:`assets.ports.Run`)."""
        from pipelines.tracking import TrackedRun, Tracking

        tags = context.instance.get_run_by_id(context.run.run_id).tags
        TrackedRun(Tracking(home_folder()), tags[MLFLOW_TAG], attached=True).end("FAILED")

    def resolve(self, tags: Mapping[str, str]) -> Profile:
        """The profile that these settings and the partition among a Dagster run's tags name together.

        Raises:
            UserError: they contradict each other, or leave the profile or the seed open.
        """
        partition = partition_of(tags)
        if partition is None:
            raise UserError(
                "a run needs a partition, which is a profile and a seed: choose one; for a profile of yours it is "
                f"{CUSTOM!r} together with run.profile"
            )
        name, seed = partition
        if self.profile and name and self.profile != name:
            raise UserError(f"the partition's profile is {name}, and run.profile says {self.profile}: choose one")
        if self.seed is not None and seed is not None and self.seed != seed:
            raise UserError(f"the partition's seed is {seed}, and run.seed says {self.seed}: choose one")
        if not self.profile and name is None:
            raise UserError(f"the partition's profile is {CUSTOM!r}: set run.profile to the path of its YAML file")
        return load_profile(name or self.profile, self.overrides, self.seed if seed is None else seed)

    @contextmanager
    def stage(self, context: Any) -> Generator[PipelineStage]:
        """Open the stage that is named like the asset (see :class:`assets.ports.Run`)."""
        from pipelines.stage import open_stage

        with open_stage(self, context) as stage:
            yield stage


def newest_run(runs: Path, profile: Profile, finished: Sequence[str]) -> Path:
    """The folder of the newest run of a profile and seed in which these stages are finished.

    Raises:
        UserError: there is none.
    """
    found = [
        path
        for path in runs.glob(f"{profile.name}-seed{profile.seed}-*")
        if _has_profile(path) and set(finished) <= read_stages(path).keys()
    ]
    if not found:
        raise UserError(
            f"there is no run of {profile.name} with seed {profile.seed} under {runs} that can go on here (finished: "
            f"{', '.join(finished) or 'nothing'}): run the whole chain, or name a run in run.run"
        )
    return max(found, key=lambda path: (path / "profile.json").stat().st_mtime_ns)


def read_stages(run: Path) -> dict[str, dict[str, Any]]:
    """What ``stages.json`` records of each finished stage, in order."""
    path = run / STAGES_FILE
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: found[name] for name in STAGES if name in found}


def _has_profile(folder: Path) -> bool:
    return (folder / "profile.json").is_file()


def _stored_profile(folder: Path, tags: Mapping[str, str]) -> Profile:
    """A run's own profile. What was made in it must not be recorded under another profile or seed."""
    profile = stored_profile(folder / "profile.json")
    name, seed = partition_of(tags) or (None, None)
    if (name or profile.name) != profile.name or (profile.seed if seed is None else seed) != profile.seed:
        raise UserError(
            f"the partition is profile {name}, seed {seed}, and the run {folder.name} is of profile {profile.name}, "
            f"seed {profile.seed}: choose the run's own partition"
        )
    return profile
