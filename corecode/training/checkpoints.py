"""The checkpoints of one job: whole or not there, the newest few and the best, all gone or kept at the job's end.

``<job folder>/checkpoints`` holds

- ``step-N``: what a job needs to continue after step N. It is written as ``step-N.partial``; when every file is on the
  disk, a marker is written, and the folder gets its name. The marker names the job (a digest of what decides its
  outcome), the files with their sizes, and how long ``metrics.jsonl`` and ``samples.jsonl`` were. A folder without a
  marker of this job, or with a file of another size, is no checkpoint: it is ignored, and removed by the next start.
- ``best``: ``model`` and ``validation.json`` of the step that did best on the validation problems.

Nothing in here knows tensors; :mod:`corecode.training.resuming` writes and reads what lies inside.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corecode.errors import InfrastructureError
from corecode.training.records import MODEL, Journal, flush_to_disk, publish, write_json

FOLDER, BEST, MARKER, VALIDATION = "checkpoints", "best", "complete.json", "validation.json"
UNWRITTEN = ("inline_container", "PytorchStreamWriter", "Parent directory")
"""Parts of what torch says when it cannot write a file, for which it has no type but RuntimeError."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    step: int
    """Optimizer steps behind it."""
    journal: Mapping[str, int]
    """Bytes of each file of the journal at that moment."""


class Checkpoints:
    """Reads, writes and prunes the checkpoints of a job. Every rank has one; only the main process changes anything
    but the inside of a partial folder, so all ranks find the same checkpoint to start from."""

    def __init__(self, job: Path, digest: str, keep: int) -> None:
        """``digest`` names the job; ``keep`` is how many steps are kept while it trains."""
        self.folder = job / FOLDER
        self.job = job
        self.digest = digest
        self.keep = keep
        self.start = self._newest()
        """Where the job continues; None when it has to begin."""

    def partial(self, step: int) -> Path:
        """Where the checkpoint of a step is prepared."""
        return self.folder / f"step-{step}.partial"

    def clean(self) -> None:
        """Remove what no start can use: partial and torn folders, other jobs' checkpoints, and without a checkpoint to
        continue from also the best model, since the job will find it again."""
        usable = {c.folder.name for c in self._complete()} | ({BEST} if self.start else set())
        for path in self.folder.glob("*"):
            if path.name not in usable:
                shutil.rmtree(path)

    @contextmanager
    def errors(self, step: int) -> Generator[None]:
        """Tell a failure to write in one sentence, and leave no partial folder. Older checkpoints are untouched.

        Raises:
            InfrastructureError: when anything in the block could not be written.
            Exception: whatever else fails in it, such as a device or another rank, as it is.
        """
        from safetensors import SafetensorError

        try:
            yield
        except (OSError, SafetensorError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not any(part in str(error) for part in UNWRITTEN):
                raise
            shutil.rmtree(self.partial(step), ignore_errors=True)
            older = self._newest()
            then = f"continues after step {older.step}" if older else "begins again"
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n")[0]
            raise InfrastructureError(
                f"cannot write the checkpoint {self.folder / f'step-{step}'} ({reason}); free some space there and"
                f" run again, which {then}"
            ) from error

    def begin(self, step: int) -> None:
        """Make an empty partial folder."""
        shutil.rmtree(self.partial(step), ignore_errors=True)
        self.partial(step).mkdir(parents=True)

    def complete(self, step: int, journal: Journal) -> None:
        """Turn the partial folder of a step, in which every rank has written, into a checkpoint; drop old ones."""
        partial = self.partial(step)
        sizes: dict[str, int] = {}
        for path in sorted(partial.rglob("*")):
            flush_to_disk(path)
            if path.is_file():
                sizes[str(path.relative_to(partial))] = path.stat().st_size
        marker = {"spec": self.digest, "step": step, "journal": journal.lengths(), "files": sizes}
        write_json(partial / MARKER, marker)
        flush_to_disk(partial)
        publish(partial, self.folder / f"step-{step}")
        flush_to_disk(self.folder)
        for old in self._complete()[: -self.keep]:
            shutil.rmtree(old.folder)

    def keep_best(self, step: int, name: str, value: float, save: Callable[[Path], None]) -> None:
        """Replace the best model.

        Args:
            name, value: the metric and its value after this step.
            save: writes a model as the folder it is given.
        """
        partial = self.folder / f"{BEST}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        save(partial / MODEL)
        write_json(partial / VALIDATION, {"step": step, name: value})
        publish(partial, self.folder / BEST)

    def finish(self) -> None:
        """Remove all but the best: the job's result is there."""
        for path in self.folder.glob("step-*"):
            shutil.rmtree(path)

    def _newest(self) -> Checkpoint | None:
        complete = self._complete()
        return complete[-1] if complete else None

    def _complete(self) -> list[Checkpoint]:
        """Checkpoints of this job, oldest first."""
        found = [self._read(path) for path in self.folder.glob("step-*") if path.suffix != ".partial"]
        return sorted((checkpoint for checkpoint in found if checkpoint is not None), key=lambda c: c.step)

    def _read(self, folder: Path) -> Checkpoint | None:
        """The checkpoint in a folder; None when it is torn, another job's, or ahead of the journal."""
        try:
            marker: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
            sizes = {name: (folder / name).stat().st_size for name in marker["files"]}
            written = {name: (self.job / name).stat().st_size for name in marker["journal"]}
        except (OSError, ValueError, KeyError):
            return None
        if marker["spec"] != self.digest or sizes != marker["files"]:
            return None
        if any(written[name] < length for name, length in marker["journal"].items()):
            return None
        return Checkpoint(folder, int(marker["step"]), marker["journal"])
