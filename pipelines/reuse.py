"""Jobs that an earlier run of the same home has done already, found by the key of :mod:`corecode.fingerprint`.

    $CORECODE_HOME/cache/<key>/<run>.json     the job's folder in that run, and the digest of each of its files

A job is copied into the new run, so that each run folder is whole by itself: one can be deleted, or its home's cache,
without harm to another. Model files are shared (hard links) where the file system can; nothing ever writes into one.
A copy is used only when every digest is right.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corecode.fingerprint import content_key, file_digest
from corecode.stages import Job
from corecode.training.records import METRICS, MODEL, RESULT, SAMPLES, publish, write_json
from corecode.training.spec import spec_digest
from pipelines.home import write_text
from pipelines.launchers.tail import JsonTail

OUTPUTS = (METRICS, SAMPLES, RESULT, f"{MODEL}/**/*", "T*.jsonl")
"""What a finished job leaves for others; logs and checkpoints are not taken along."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Keyed:
    """A job with its key, taken before it runs: its inputs are there, its outputs are not."""

    job: Job
    key: str | None


class Cache:
    """The finished jobs of all runs of a home."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def take(self, keyed: Keyed) -> str | None:
        """Put a finished job with this key into the job's folder; return the name of the run that did it, or None when
        there is none."""
        if keyed.key is None:
            return None
        for entry in _newest_first(self.home / "cache" / keyed.key):
            done_by = self._take(entry, keyed.job)
            if done_by is not None:
                self._enter(keyed, done_by)
                return done_by
        return None

    def keep(self, keyed: Keyed) -> None:
        """Enter a job that was run, unless infrastructure failed in it: that is for no other run to repeat."""
        if keyed.key is not None and not _lost(keyed.job):
            self._enter(keyed, _run_of(keyed.job))

    def _enter(self, keyed: Keyed, done_by: str) -> None:
        folder = keyed.job.folder
        paths = sorted({path for pattern in OUTPUTS for path in folder.glob(pattern) if path.is_file()})
        entry = {
            "run": _run_of(keyed.job),
            "output": keyed.job.spec["output"],
            "done_by": done_by,
            "files": {path.relative_to(folder).as_posix(): file_digest(path) for path in paths},
        }
        path = self.home / "cache" / str(keyed.key) / f"{_run_of(keyed.job)}.json"
        write_text(path, json.dumps(entry, indent=1) + "\n")

    def _take(self, path: Path, job: Job) -> str | None:
        partial = job.folder.with_name(f"{job.folder.name}.reused")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            entry = _read(path)
            source = self.home / "runs" / entry["run"] / entry["output"]
            for name in entry["files"]:
                _share(source / name, partial / name, link=name.startswith(f"{MODEL}/"))
        except (FileNotFoundError, ValueError):  # that run was deleted, or the entry is damaged
            path.unlink(missing_ok=True)
            shutil.rmtree(partial, ignore_errors=True)
            return None
        if any(file_digest(partial / name) != digest for name, digest in entry["files"].items()):
            log.warning(f"the files in {source} are no longer those of {path}: they are not reused")
            path.unlink(missing_ok=True)
            shutil.rmtree(partial)
            return None
        result = json.loads((partial / RESULT).read_text(encoding="utf-8"))
        write_json(partial / RESULT, {**result, "spec": spec_digest(job.spec), "reused_from": entry["done_by"]})
        publish(partial, job.folder)
        job.write()
        return str(entry["done_by"])


def keyed(job: Job) -> Keyed:
    """A job with its key."""
    return Keyed(job, content_key(job.spec))


def reused_from(job: Job) -> str | None:
    """The run whose work a finished job's folder holds; None when it is this run's own."""
    found: dict[str, Any] = json.loads((job.folder / RESULT).read_text(encoding="utf-8"))
    return found.get("reused_from")


def _read(path: Path) -> dict[str, Any]:
    """An entry of the cache.

    Raises:
        FileNotFoundError: it was removed meanwhile.
        ValueError: it is damaged, or names a file outside of its job's folder.
    """
    entry = json.loads(path.read_text(encoding="utf-8"))
    try:
        names = [entry["run"], entry["output"], *entry["files"]]
        if not isinstance(entry["done_by"], str) or RESULT not in names:
            raise ValueError(f"{path} describes no finished job")
        if any(Path(name).is_absolute() or ".." in Path(name).parts for name in names):
            raise ValueError(f"{path} names files elsewhere")
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} describes no finished job ({error})") from error
    return entry


def _run_of(job: Job) -> str:
    return Path(job.spec["run"]).name


def _lost(job: Job) -> bool:
    """Whether samples of a job have no verdict."""
    counters = ("infrastructure/lost", "evaluation/missing")
    lines = [line.get("metrics", {}) for line in JsonTail(job.folder / METRICS).lines()]
    return any(metrics.get(name, 0) > 0 for metrics in lines for name in counters)


def _newest_first(folder: Path) -> list[Path]:
    found: list[tuple[int, Path]] = []
    for path in folder.glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # another process has just found that its run was deleted
            found.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def _share(source: Path, target: Path, link: bool) -> None:
    """Model files are linked: they are only ever replaced. The others are small, and a job writes into them."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not (link and _linked(source, target)):
        shutil.copyfile(source, target)


def _linked(source: Path, target: Path) -> bool:
    """Whether a hard link could be made; it cannot across file systems."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True
