"""What a person sees while a run goes on: stage, step of steps, reward, time left.

Stages report to whoever listens in this process (:func:`listener`); a run that Dagster's page started has no listener.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from assets import STAGES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

SHOWN = {"reward/mean": "reward", "sft/loss": "loss"}
"""The first of these metrics that a job reports is shown beside its bar, under this name."""


class Reporter:
    """Hears of everything that happens in a run; this one says nothing."""

    error: BaseException | None = None
    """What ended the stage that failed last: one before it may have succeeded when it was tried again."""

    def stage_started(self, stage: str) -> None:
        """A stage begins."""

    def jobs_started(self, stage: str, jobs: Sequence[str]) -> None:
        """These jobs of the stage are now waiting or running."""

    def job_progress(self, stage: str, job: str, step: int, of: int, metrics: Mapping[str, Any]) -> None:
        """A job finished a step."""

    def job_ended(self, stage: str, job: str) -> None:
        """A job is complete (also one that was complete before)."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def stage_ended(self, stage: str, seconds: float) -> None:
        """A stage is complete."""

    def stage_failed(self, stage: str, error: BaseException) -> None:
        """A stage ended with an error or an interrupt."""
        self.error = error


_current: ContextVar[Reporter | None] = ContextVar("corecode_reporter", default=None)


def current() -> Reporter:
    """The listener of this process; a silent one when nobody listens."""
    return _current.get() or Reporter()


@contextlib.contextmanager
def listener(reporter: Reporter) -> Generator[Reporter]:
    """Let a reporter listen for the time of a ``with`` block."""
    token = _current.set(reporter)
    try:
        yield reporter
    finally:
        _current.reset(token)


def duration(seconds: float) -> str:
    """A time as people say it: ``8 s``, ``3:07``, ``1:02:09``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def headline(metrics: Mapping[str, Any]) -> str:
    """The one metric that is shown beside a bar, such as ``reward 0.412``."""
    for name, shown in SHOWN.items():
        value = metrics.get(name)
        if isinstance(value, int | float):
            return f"{shown} {value:.3f}"
    return ""


class PlainReporter(Reporter):
    """Lines for a log file or a pipe: the beginning and end of each stage, and each tenth of a job."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._tenths: dict[str, int] = {}

    def stage_started(self, stage: str) -> None:
        self._write(f"[{STAGES.index(stage) + 1}/{len(STAGES)}] {stage}")

    def job_progress(self, stage: str, job: str, step: int, of: int, metrics: Mapping[str, Any]) -> None:
        tenth = 10 * step // of if of else 0
        if tenth > self._tenths.get(f"{stage}/{job}", 0):
            self._tenths[f"{stage}/{job}"] = tenth
            self._write("  ".join(part for part in (f"      {job} {step}/{of}", headline(metrics)) if part))

    def note(self, text: str) -> None:
        self._write(f"      {text}")

    def stage_ended(self, stage: str, seconds: float) -> None:
        self._write(f"      done in {duration(seconds)}")

    def stage_failed(self, stage: str, error: BaseException) -> None:
        super().stage_failed(stage, error)
        self._write(f"      {stage} did not finish")


class RichReporter(Reporter):
    """Live bars on a terminal: the run on top, one bar for each job of the current stage below."""

    def __init__(self, console: Console, expected_minutes: float | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = console
        self._expected_s = None if expected_minutes is None else expected_minutes * 60
        self._started = time.monotonic()
        self._stage_started = self._started
        self._progress = Progress(
            TextColumn("{task.description}", table_column=None),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[steps]:>9}"),
            TextColumn("{task.fields[shown]:<14}"),
            TextColumn("{task.fields[left]}", style="dim"),
            console=console,
            transient=True,
            refresh_per_second=4,
        )
        self._run = self._progress.add_task("starting", total=len(STAGES), steps="", shown="", left="")
        self._jobs: dict[str, TaskID] = {}

    def __enter__(self) -> RichReporter:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    def _tick(self) -> None:
        elapsed = time.monotonic() - self._started
        left = f"{duration(elapsed)} so far"
        if self._expected_s is not None:
            rest = self._expected_s - elapsed
            left += f", about {duration(rest)} left" if rest > 0 else ", longer than usual"
        self._progress.update(self._run, left=left)

    def stage_started(self, stage: str) -> None:
        place = STAGES.index(stage) + 1
        self._stage_started = time.monotonic()
        self._progress.update(
            self._run, description=f"[bold]{stage}", completed=place - 1, steps=f"{place}/{len(STAGES)}"
        )
        self._tick()

    def jobs_started(self, stage: str, jobs: Sequence[str]) -> None:
        for job in jobs:
            self._jobs[job] = self._progress.add_task(f"  {job}", total=None, steps="", shown="", left="")

    def job_progress(self, stage: str, job: str, step: int, of: int, metrics: Mapping[str, Any]) -> None:
        bar = self._jobs.get(job)
        if bar is None:
            return
        values: dict[str, Any] = {"completed": step, "total": of, "steps": f"{step}/{of}"}
        if shown := headline(metrics):
            values["shown"] = shown
        if 0 < step < of:
            spent = time.monotonic() - self._stage_started
            values["left"] = f"{duration(spent / step * (of - step))} left"
        self._progress.update(bar, **values)
        self._tick()

    def job_ended(self, stage: str, job: str) -> None:
        bar = self._jobs.pop(job, None)
        if bar is not None:
            self._progress.remove_task(bar)

    def note(self, text: str) -> None:
        self._console.print(f"  [dim]{text}", highlight=False)

    def stage_ended(self, stage: str, seconds: float) -> None:
        self._clear()
        self._console.print(f"[green]✓[/] {stage} [dim]{duration(seconds)}", highlight=False)
        self._progress.update(self._run, completed=STAGES.index(stage) + 1)

    def stage_failed(self, stage: str, error: BaseException) -> None:
        super().stage_failed(stage, error)
        self._clear()
        self._console.print(f"[red]✗[/] {stage} did not finish", highlight=False)

    def _clear(self) -> None:
        for job in list(self._jobs):
            self.job_ended("", job)
