"""Launchers start job programs and own their processes. Assets see only the :class:`Launcher` protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol


class LaunchableJob(Protocol):
    """What a launcher needs of a job (``corecode.stages.Job`` fits)."""

    @property
    def name(self) -> str:
        """Shown to people."""
        ...

    @property
    def folder(self) -> Path:
        """Where it writes everything."""
        ...

    @property
    def spec(self) -> Mapping[str, Any]:
        """What it has to do; ``kind`` is ``sft``, ``grpo`` or ``evaluate``."""
        ...

    def write(self) -> Path:
        """Write the job file and return its path."""
        ...


MetricsCallback = Callable[[Any, Mapping[str, Any]], None]
"""Called with the job and one decoded line of its ``metrics.jsonl``, in the order of the file."""


class Launcher(Protocol):
    """Starts jobs and returns when all are complete."""

    def run(self, jobs: Sequence[LaunchableJob], parallel: int, on_metrics: MetricsCallback) -> None:
        """Run independent jobs, at most ``parallel`` at a time.

        No process of a job is left when this returns or raises, also for an interrupt.

        Raises:
            corecode.errors.UserError: a job refused its input (exit code 2).
            corecode.errors.InfrastructureError: a job failed otherwise; the message holds the last lines of its log.
        """
        ...
