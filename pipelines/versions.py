"""Data versions: what tells one output of a stage from another, so that Dagster knows which assets are out of date.

A version is a digest over the *contents* of what a stage made: the same seed gives the same version again. Stages read
more than the stage right before them (the evaluation reads the models of three), so a version also covers the outputs
of all stages before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from corecode.config import Profile
from corecode.fingerprint import file_digest


def output_digest(stage: str, profile: Profile, run: Path, home: Path, jobs: Sequence[Path]) -> str:
    """Digest of what a stage of a run made; ``jobs`` are the folders of its finished jobs."""
    if stage == "problems":
        return _digest((run / "problems").glob("*.jsonl"), run)
    if stage == "evaluation":
        from corecode.evaluation.rows import load_samples

        return load_samples(run, profile.evaluation.samples).digest  # without measured times, which never repeat
    if stage == "collaboration_gain":
        return _digest([run / "collaboration_gain" / "metrics.json"], run)
    if stage == "champion":
        return _digest((home / "champion").glob("*/**/*"), home / "champion")
    return _digest((path for job in jobs for path in (job / "model").rglob("*")), run)


def chained(digests: Iterable[str]) -> str:
    """The version that follows from the digests of a stage and of all before it, in order."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _digest(paths: Iterable[Path], base: Path) -> str:
    """Digest over the names (from ``base``) and contents of files."""
    found = {path.relative_to(base).as_posix(): file_digest(path) for path in paths if path.is_file()}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
