"""``corecode run`` and ``corecode profiles``."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corecode.errors import InfrastructureError, UserError
from pipelines.preflight import check_inputs, needed_bytes, preflight
from pipelines.profiles import load_profile, shipped

if TYPE_CHECKING:
    from dagster import DagsterEvent

    from corecode.config import Profile
    from pipelines.progress import Reporter
    from pipelines.settings import RunSettings

INTERRUPTED = 130
LOG_NAME = "dagster.log"
_DISK_FULL = ("No space left on device", "database or disk is full")


def list_profiles() -> None:
    """Print a table of the shipped profiles."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("profile", no_wrap=True)
    table.add_column("minutes", justify="right")
    table.add_column("what it is, and for what machine", overflow="fold")
    for name in shipped():
        profile = load_profile(name)
        table.add_row(name, f"{profile.expected_minutes or 0:g}", f"{profile.description}\n{profile.hardware}")
    Console().print(table, highlight=False)


def run_profile(
    name: str, seed: int | None, overrides: Sequence[str], dry_run: bool = False, force: bool = False
) -> int:
    """Run a profile through Dagster in this process; return the exit code.

    Raises:
        UserError, InfrastructureError: before the run begins; later failures are printed and become the exit code.
    """
    profile = load_profile(name, overrides, seed)
    if dry_run:
        # A profile can be read and checked before its problems were fetched.
        absent = profile.dataset.path is not None and not Path(profile.dataset.path).exists()
        check_inputs(profile, problems=not absent)
        _show(profile)
        if absent:
            print(f"# dataset.path: {profile.dataset.path} is not there yet; the run needs it (docs/datasets.md)")
        return 0
    check_inputs(profile)
    from pipelines.settings import RunSettings

    place = str(Path(name).absolute()) if Path(name).is_file() else name
    return execute(profile, RunSettings(profile=place, seed=seed, overrides=list(overrides), force=force))[0]


def _show(profile: Profile) -> None:
    import yaml

    from assets import STAGES

    print(yaml.safe_dump(profile.model_dump(), sort_keys=False, allow_unicode=True), end="")
    if profile.effort:
        print(f"# {profile.name}: {profile.effort}")
    print(f"# stages: {' -> '.join(STAGES)}")


def execute(profile: Profile, settings: RunSettings | None, force: bool = False) -> tuple[int, Path]:
    """Run a profile that was checked; return the exit code and the run folder.

    Args:
        settings: how Dagster finds the profile again; None: it is stored in the new run folder, and found there.
        force: as of ``corecode run`` (without settings).
    """
    from dagster import DagsterRunStatus
    from dagster._core.utils import make_new_run_id

    from pipelines import progress
    from pipelines.definitions import defs
    from pipelines.home import prepare_home, write_text
    from pipelines.instance import open_instance
    from pipelines.jobs import JOB
    from pipelines.partitions import partition_key
    from pipelines.reconcile import process_tag, reconcile
    from pipelines.settings import RunSettings, run_name
    from pipelines.tracking import Tracking

    home = prepare_home(needed_bytes(profile))
    preflight(profile)
    run_id = make_new_run_id()
    folder = home / "runs" / run_name(profile, run_id)
    tracking = Tracking(home)
    say(f"{profile.name}, seed {profile.seed}{f': {profile.effort}' if profile.effort else ''}")
    say(f"run {folder.name} in {folder}")
    with open_instance(home) as instance, _reporter(profile) as reporter, progress.listener(reporter):
        for ended in reconcile(tracking, instance):
            say(f"run {ended} of an earlier process was left open; it is now marked as killed")
        folder.mkdir(parents=True, exist_ok=True)
        if settings is None:
            write_text(folder / "profile.json", profile.model_dump_json(indent=2) + "\n")
            settings = RunSettings(run=folder.name, force=force)
        config = settings.run_config()
        result = defs.resolve_job_def(JOB).execute_in_process(
            run_config={**config, "loggers": {"file": {"config": {"path": str(folder / LOG_NAME)}}}},
            instance=instance,
            run_id=run_id,
            raise_on_error=False,
            partition_key=partition_key(settings.profile or profile.name, profile.seed),
            tags={"corecode/profile": profile.name, "corecode/seed": str(profile.seed), **process_tag(run_id)},
        )
        run = instance.get_run_by_id(run_id)
        canceled = run is not None and run.status is DagsterRunStatus.CANCELED
        failures = _stopped_by(result.all_events) or [e.message or "" for e in result.all_events if e.is_failure]
    if result.success:
        _finish(folder, run_id, tracking)
        return 0, folder
    return _explain(reporter.error, canceled, failures, folder / LOG_NAME), folder


@contextmanager
def _reporter(profile: Profile) -> Generator[Reporter]:
    """Live bars on a terminal, plain lines elsewhere; both on standard error."""
    from rich.console import Console

    from pipelines.progress import PlainReporter, RichReporter

    console = Console(stderr=True)
    if console.is_terminal:
        with RichReporter(console, profile.expected_minutes) as reporter:
            yield reporter
    else:
        yield PlainReporter(say)


def say(line: str) -> None:
    """A line for a person; standard output is kept for results."""
    from pipelines.redact import redact

    print(redact(line), file=sys.stderr, flush=True)


def _finish(folder: Path, run_id: str, tracking: Any) -> None:
    """The table, where to read on, and last the path of summary.json."""
    from rich.console import Console

    from pipelines.figures import results_table

    path = folder / "collaboration_gain" / "summary.json"
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print("In percent, CG in points, with 95 % intervals:")
    console.print(results_table(json.loads(path.read_text(encoding="utf-8")), console.width))
    print(f"report  {path.with_name('report.html')}")
    print(f"pages   corecode up, then http://127.0.0.1:3000/runs/{run_id} and {tracking.ui}")
    print("try it  corecode solve --problem FILE")
    print(path)


def _stopped_by(events: Sequence[DagsterEvent]) -> list[str]:
    """What the blocking checks said that stopped a run."""
    from dagster import AssetCheckEvaluation, AssetCheckSeverity

    found = [event.event_specific_data for event in events]
    return [
        f"the check {check.check_name} stopped the run: {check.description}"
        for check in found
        if isinstance(check, AssetCheckEvaluation) and not check.passed and check.severity is AssetCheckSeverity.ERROR
    ]


def _explain(error: BaseException | None, canceled: bool, failures: Sequence[str], log: Path) -> int:
    """One sentence on standard error for what ended the run; return the exit code."""
    if canceled or (error is not None and not isinstance(error, Exception)):
        say("interrupted: every process of the run has ended")
        return INTERRUPTED
    text = str(error) if error is not None else (failures[0] if failures else "the run failed")
    if any(sign in text for sign in _DISK_FULL):
        error = UserError(f"the disk is full: cannot write under {log.parent}; free some space")
        text = str(error)
    if isinstance(error, UserError):
        say(f"error: {text}")
        return 2
    kind = "" if error is None or isinstance(error, InfrastructureError) else f"{type(error).__name__}: "
    say(f"error: {kind}{text}")
    say(f"log: {log}")
    return 1
