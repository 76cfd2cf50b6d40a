"""What assets need from the room that runs them. ``pipelines`` implements these; assets know nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from corecode.config import Profile

if TYPE_CHECKING:
    from corecode.stages import Job


class Stage(Protocol):
    """One stage of a run while it executes."""

    profile: Profile
    """The resolved profile of the run."""
    folder: Path
    """The run folder."""

    def launch(self, jobs: Sequence[Job]) -> None:
        """Run independent jobs and return when all are complete; complete ones are reused.

        Raises:
            UserError, InfrastructureError: a job failed; no process of the others is left.
        """
        ...

    def datasets(self) -> None:
        """Record the run's problem files with their content digests."""
        ...

    def build_report(self) -> Path:
        """Write the report of the run and return the path of ``summary.json``; its figures are recorded."""
        ...

    def promote(self) -> Mapping[str, Any]:
        """Make the run's team the champion if it was measured and earned it; the decision with its reason."""
        ...

    def data_version(self) -> str:
        """Digest of what this stage and all stages before it have made. Call it last; it is recorded with the run."""
        ...

    def metadata(self) -> dict[str, Any]:
        """Metadata of every stage: where it is recorded, where its files are, how long it took."""
        ...


class Run(Protocol):
    """The run that a materialisation belongs to (resource ``run``)."""

    def stage(self, context: Any) -> AbstractContextManager[Stage]:
        """Open the stage that is named like the asset; it ends finished, failed or killed."""
        ...

    def open_folder(self, context: Any) -> tuple[Profile, Path]:
        """Profile and folder of the run, for checks that only read."""
        ...

    def fail(self, context: Any) -> None:
        """Record as failed a run that a check stops: its last stage had ended in peace."""
        ...
