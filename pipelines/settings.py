"""The run that a materialisation belongs to, as a Dagster resource: which profile, which seed, which folder.

The run folder follows from the profile, the seed and the id of the (root) Dagster run, so that every stage of a run,
and a retry of it, finds the same one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from corecode.config import Profile
from corecode.errors import UserError
from pipelines.home import home_folder, prepare_home, write_text
from pipelines.preflight import check_inputs, needed_bytes
from pipelines.profiles import load_profile

if TYPE_CHECKING:
    from pipelines.stage import PipelineStage

RESOURCE = "run"
"""Key of the resource, in assets and in run configuration."""


def run_name(profile: Profile, run_id: str) -> str:
    """Name of a run: ``<profile>-seed<seed>-<short id>``."""
    return f"{profile.name}-seed{profile.seed}-{run_id[:8]}"


class RunSettings(dg.ConfigurableResource[None]):
    """What to run. With no configuration at all this is the quickstart."""

    profile: str = Field(default="quickstart", description="Name of a shipped profile, or the path of a YAML file.")
    seed: int | None = Field(default=None, description="Replaces the profile's seed.")
    overrides: list[str] = Field(default_factory=list, description="Each field=value, such as planner_grpo.steps=5.")
    run: str = Field(
        default="",
        description="Name of an existing run folder to go on with; its own profile then counts. Empty: a new run.",
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

        Raises:
            UserError: for a bad profile, a missing input, an unknown run, or a disk that is full or read-only.
        """
        if self.run:
            folder = home_folder() / "runs" / self.run
            if not (folder / "profile.json").is_file():
                raise UserError(f"run: there is no run {self.run} under {folder.parent}")
            return _stored_profile(folder), folder
        profile = load_profile(self.profile, self.overrides, self.seed)
        root = context.run.tags.get("dagster/root_run_id", context.run.run_id)
        folder = home_folder() / "runs" / run_name(profile, root)
        if (folder / "profile.json").is_file():
            return _stored_profile(folder), folder
        check_inputs(profile)
        prepare_home(needed_bytes(profile))
        write_text(folder / "profile.json", profile.model_dump_json(indent=2) + "\n")
        return profile, folder

    @contextmanager
    def stage(self, context: Any) -> Generator[PipelineStage]:
        """Open the stage that is named like the asset (see :class:`assets.ports.Run`)."""
        from pipelines.stage import open_stage

        with open_stage(self, context) as stage:
            yield stage


def _stored_profile(folder: Path) -> Profile:
    return Profile.model_validate_json((folder / "profile.json").read_text(encoding="utf-8"))
