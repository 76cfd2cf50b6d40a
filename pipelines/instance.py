"""Dagster's stores in the home folder, with the settings of ``dagster.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pipelines.home import one_at_a_time, write_text

if TYPE_CHECKING:
    from dagster import DagsterInstance

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
    """DAGSTER_HOME inside our home folder; its ``dagster.yaml`` is written when it is not there."""
    folder = home / "dagster"
    file = folder / "dagster.yaml"
    if not file.is_file():
        write_text(file, yaml.safe_dump(SETTINGS, sort_keys=False))
    return folder


def open_instance(home: Path) -> DagsterInstance:
    """The instance that ``corecode run`` records its runs in."""
    from dagster import DagsterInstance
    from dagster._core.instance.ref import InstanceRef

    # New SQLite files that several processes open at once fail in their migration.
    with one_at_a_time(home / "dagster"):
        return DagsterInstance.from_ref(InstanceRef.from_dir(str(dagster_home(home)), overrides=_QUIET))
