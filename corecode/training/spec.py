"""The job file: everything a job needs, resolved, so that a person can run one by hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from corecode.config import GRPOConfig, Profile, SFTConfig
from corecode.errors import UserError

JOB = "job.json"
_LABELS = ("name", "description", "hardware", "expected_minutes")
_IRRELEVANT: dict[str, tuple[str, ...]] = {
    "sft": ("planner_grpo", "coder_grpo", "rewards", "sandbox", "evaluation", "promotion", "rounds"),
    "grpo": ("evaluation", "promotion"),
    "evaluate": ("promotion",),
}
"""Sections of the profile that cannot change a job's outcome, by kind: changing them does not ask for a new run."""
_CHECKPOINTING = ("checkpoint_every", "keep_checkpoints")
"""Settings of any section that cannot change it either."""


class JobSpec(BaseModel):
    """One training or evaluation job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["sft", "grpo", "evaluate"]
    profile: Profile
    run: Path
    """The run folder; all other paths are relative to it."""
    output: str
    """The job's folder."""
    team: tuple[str, ...]
    """Role names in order."""
    role: str = ""
    """The trained role (sft, grpo)."""
    arm: str = ""
    """The arm under evaluation (evaluate)."""
    weights: dict[str, str] = {}
    """For each role the folder whose ``model/`` holds its weights; ``base/<role>`` is the untrained model."""
    seed: int
    sft: SFTConfig | None = None
    """The warm-up's settings, resolved (sft)."""
    grpo: GRPOConfig | None = None
    """The phase's settings, resolved (grpo)."""
    deepspeed: str | None = None
    """DeepSpeed configuration file; None trains with plain torch."""

    servers: dict[str, str] = {}
    """For each frozen role that a server answers for its URL, up to and with ``/v1``; the server knows the model by the
    role's name. A role without one is sampled in the job's process."""

    @property
    def folder(self) -> Path:
        return self.run / self.output


def spec_digest(spec: dict[str, Any]) -> str:
    """Digest of what decides a job's outcome: not the run's place, nor labels, nor settings of later stages, nor where
    servers listen."""
    profile = dict(spec["profile"])
    for name in (*_LABELS, *_IRRELEVANT[spec["kind"]]):
        profile.pop(name, None)
    profile["execution"] = {k: v for k, v in profile["execution"].items() if k not in ("parallel", "server")}
    if "sandbox" in profile:
        profile["sandbox"] = {k: v for k, v in profile["sandbox"].items() if k != "workers"}
    relevant = without_checkpointing({**spec, "profile": profile})
    del relevant["run"]
    relevant.pop("servers", None)
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()


def without_checkpointing(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A job's settings without those that say when it writes a checkpoint and how many it keeps."""
    return {
        name: without_checkpointing(value) if isinstance(value, dict) else value
        for name, value in spec.items()
        if name not in _CHECKPOINTING
    }


def read_spec(path: Path) -> tuple[JobSpec, str]:
    """Read a job file; returns the job and its digest.

    Raises:
        UserError: naming the file and field when it is missing or malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the job file {path}: {error.strerror}") from error
    try:
        return JobSpec.model_validate_json(text), spec_digest(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
