"""Dagster's stores: those that DAGSTER_HOME names (Postgres, see infra/), else SQLite in the home folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from assets.options import TRAINING_POOL
from corecode.errors import InfrastructureError, UserError
from pipelines.home import one_at_a_time, write_text
from pipelines.redact import reason

if TYPE_CHECKING:
    from dagster import DagsterInstance

VARIABLE = "DAGSTER_HOME"

SETTINGS: dict[str, Any] = {
    "run_coordinator": {"module": "dagster._core.run_coordinator", "class": "QueuedRunCoordinator"},
    # A run whose stages hold models waits in the queue while the pool of such runs is full; a report does not. Pools
    # are counted by run: counted by stage, an executor that waits in a run keeps a core busy with asking.
    "concurrency": {"pools": {"default_limit": 1, "granularity": "run"}, "runs": {"max_concurrent_runs": 4}},
    # A run whose process was killed is started again and goes on; a stage that failed was tried again in its run.
    "run_retries": {"enabled": True, "max_retries": 1, "retry_on_asset_or_op_failure": False},
    "run_monitoring": {
        "enabled": True,
        "start_timeout_seconds": 300,
        "cancel_timeout_seconds": 60,
        "poll_interval_seconds": 15,
    },
    "retention": {
        kind: {"purge_after_days": {"skipped": 7, "failure": 30, "success": -1}} for kind in ("schedule", "sensor")
    },
    "telemetry": {"enabled": False},
    "nux": {"enabled": False},
}
"""Everything but the folders: Dagster puts its stores into DAGSTER_HOME by itself."""

# The jobs of a run write logs of their own; capturing this process' output would take the terminal from the display.
_QUIET = {
    "compute_logs": {
        "module": "dagster._core.storage.noop_compute_log_manager",
        "class": "NoOpComputeLogManager",
    }
}


def dagster_home(home: Path) -> Path:
    """The folder with Dagster's settings: DAGSTER_HOME where that is set, else one inside our home folder, whose
    ``dagster.yaml`` is written when it is not there.

    Raises:
        UserError: DAGSTER_HOME names a folder without settings.
    """
    given = os.environ.get(VARIABLE)
    if given:
        folder = Path(given).expanduser().absolute()
        if not (folder / "dagster.yaml").is_file():
            raise UserError(f"{VARIABLE} is {given}, which holds no dagster.yaml; put one there or unset {VARIABLE}")
        return folder
    folder = home / "dagster"
    file = folder / "dagster.yaml"
    if not file.is_file():
        write_text(file, yaml.safe_dump(SETTINGS, sort_keys=False))
    return folder


@contextmanager
def open_instance(home: Path) -> Generator[DagsterInstance]:
    """The instance that ``corecode run`` records its runs in.

    Raises:
        InfrastructureError: its stores do not answer, now or while it is open.
        UserError: its settings cannot be used.
    """
    from dagster import DagsterInstance
    from dagster._core.errors import DagsterInvalidConfigError
    from dagster._core.instance.ref import InstanceRef

    folder = dagster_home(home)
    with _store_errors(folder):
        try:
            # New SQLite files that several processes open at once fail in their migration.
            with nullcontext() if os.environ.get(VARIABLE) else one_at_a_time(folder):
                opened = DagsterInstance.from_ref(InstanceRef.from_dir(str(folder), overrides=_QUIET))
        except DagsterInvalidConfigError as error:
            reasons = "; ".join(" ".join(one.message.split()) for one in error.errors)
            raise UserError(f"{folder / 'dagster.yaml'}: {reasons}") from error
        except (ImportError, ValueError) as error:  # an address without a driver, or not an address
            raise UserError(f"{folder / 'dagster.yaml'} names a store that cannot be opened: {error}") from error
        with opened as instance:
            _make_pool(instance)
            yield instance


def _make_pool(instance: DagsterInstance) -> None:
    """Dagster's queue makes a pool when it first meets it, and in that round lets everything through."""
    store = instance.event_log_storage
    if TRAINING_POOL not in {pool.name for pool in store.get_pool_limits()}:
        store.initialize_concurrency_limit_to_default(TRAINING_POOL)


@contextmanager
def _store_errors(folder: Path) -> Generator[None]:
    """One sentence for a database that is gone. What a run has written to its own folder is not touched by that."""
    from sqlalchemy.exc import SQLAlchemyError

    root = logging.getLogger()
    root.addFilter(_not_a_retry)
    try:
        yield
    except Exception as error:
        cause = _cause(error, SQLAlchemyError)
        if cause is None:
            raise
        said = reason(getattr(cause, "orig", None) or cause)
        raise InfrastructureError(
            f"Dagster's stores ({folder / 'dagster.yaml'}) do not answer: {said}; "
            "start the database and run again (finished stages stay in the run's folder)"
        ) from error
    finally:
        root.removeFilter(_not_a_retry)


def _not_a_retry(record: logging.LogRecord) -> bool:
    """False for what dagster-postgres says on the root logger at each of its attempts; we say how it ended."""
    return not str(record.msg).startswith("Retrying failed database")


def _cause(error: BaseException | None, kind: type[Exception]) -> BaseException | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error
