"""A checkpoint is whole or not there, belongs to one job, and old ones go; a journal is cut to what it saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corecode.errors import InfrastructureError
from corecode.training.checkpoints import MARKER, Checkpoints
from corecode.training.records import METRICS, SAMPLES, Journal


def begun(job: Path, step: int, journal: Journal, digest: str = "a", keep: int = 2) -> Path:
    """Log a step and prepare its checkpoint."""
    journal.metrics(step, 9, {"reward/mean": step / 7, "x": float("nan")}, {"step": 1.0})
    checkpoints = Checkpoints(job, digest, keep)
    checkpoints.begin(step)
    folder = checkpoints.partial(step)
    (folder / "weights").write_bytes(bytes([step]) * 100)
    (folder / "shards").mkdir()
    (folder / "shards" / "0").write_bytes(b"0")
    return folder


def taken(job: Path, step: int, journal: Journal, digest: str = "a", keep: int = 2) -> Path:
    begun(job, step, journal, digest, keep)
    Checkpoints(job, digest, keep).complete(step, journal)
    return job / "checkpoints" / f"step-{step}"


def found(job: Path, digest: str = "a") -> int | None:
    start = Checkpoints(job, digest, 2).start
    return start.step if start else None


def names(job: Path) -> list[str]:
    return sorted(path.name for path in (job / "checkpoints").iterdir())


def test_the_newest_whole_checkpoint_is_the_start_and_old_ones_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert found(tmp_path) is None
    for step in (3, 9, 12):
        taken(tmp_path, step, journal)
    assert names(tmp_path) == ["step-12", "step-9"]
    begun(tmp_path, 15, journal)
    assert found(tmp_path) == 12, "a partial folder is no checkpoint"
    Checkpoints(tmp_path, "a", 2).clean()
    assert names(tmp_path) == ["step-12", "step-9"]
    Checkpoints(tmp_path, "a", 2).keep_best(9, "x", 0.5, lambda folder: folder.mkdir(parents=True))
    Checkpoints(tmp_path, "a", 2).finish()
    assert names(tmp_path) == ["best"]
    assert json.loads((tmp_path / "checkpoints" / "best" / "validation.json").read_text()) == {"step": 9, "x": 0.5}


@pytest.mark.parametrize("tear", ["no marker", "half a marker", "missing file", "short file", "short journal"])
def test_a_torn_checkpoint_is_ignored_and_removed(tmp_path: Path, tear: str) -> None:
    journal = Journal(tmp_path)
    taken(tmp_path, 3, journal)
    newer = taken(tmp_path, 6, journal)
    if tear == "no marker":
        (newer / MARKER).unlink()
    elif tear == "half a marker":
        (newer / MARKER).write_text((newer / MARKER).read_text()[:-20])
    elif tear == "missing file":
        (newer / "shards" / "0").unlink()
    elif tear == "short file":
        (newer / "weights").write_bytes(b"6")
    else:
        (tmp_path / METRICS).write_bytes((tmp_path / METRICS).read_bytes()[:-1])
    assert found(tmp_path) == 3
    Checkpoints(tmp_path, "a", 2).clean()
    assert names(tmp_path) == ["step-3"]


def test_another_job_starts_from_nothing(tmp_path: Path) -> None:
    taken(tmp_path, 3, Journal(tmp_path))
    Checkpoints(tmp_path, "a", 2).keep_best(3, "x", 0.5, lambda folder: folder.mkdir(parents=True))
    assert found(tmp_path, "b") is None
    Checkpoints(tmp_path, "b", 2).clean()
    assert names(tmp_path) == []


def test_a_journal_goes_on_from_where_the_checkpoint_saw_it(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.samples([{"step": 1}])
    first.metrics(1, 9, {"validation/pass@1/team": 0.5})
    taken(tmp_path, 3, first)
    kept = (tmp_path / METRICS).read_bytes()
    first.metrics(4, 9, {"reward/mean": 1.0, "validation/pass@1/team": 0.9})
    first.samples([{"step": 4}])
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"step": 5, "met')  # killed while it wrote
    start = Checkpoints(tmp_path, "a", 2).start
    assert start is not None
    for writes in (False, True):
        again = Journal(tmp_path, start.journal, writes)
        assert again.latest == {"reward/mean": 3 / 7, "validation/pass@1/team": 0.5}
        assert again.highest["validation/pass@1/team"] == 0.5
    assert (tmp_path / METRICS).read_bytes() == kept
    assert (tmp_path / SAMPLES).read_text() == '{"step": 1}\n'
    Journal(tmp_path)
    assert (tmp_path / METRICS).read_bytes() == b""
    assert not (tmp_path / SAMPLES).exists()


def test_only_a_failure_to_write_is_told_as_one(tmp_path: Path) -> None:
    """torch has one type for a full disk and for all that can fail on a device or between ranks."""
    import torch

    checkpoints = Checkpoints(tmp_path, "a", 2)
    with pytest.raises(InfrastructureError, match="free some space"), checkpoints.errors(6):
        torch.save({"weights": torch.zeros(1000)}, "/dev/full")
    for other in (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("NCCL communicator was aborted")):
        with pytest.raises(RuntimeError) as told, checkpoints.errors(6):
            raise other
        assert told.value is other


def test_a_failure_to_write_names_the_folder_and_leaves_older_ones(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    taken(tmp_path, 3, journal)
    begun(tmp_path, 6, journal)
    checkpoints = Checkpoints(tmp_path, "a", 2)
    sentence = r"step-6 \(No space left.*free some space.*after step 3"
    with pytest.raises(InfrastructureError, match=sentence), checkpoints.errors(6):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == ["step-3"]
    assert found(tmp_path) == 3
