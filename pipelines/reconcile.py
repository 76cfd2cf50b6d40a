"""After a hard kill nobody is left to say how a run ended. The next start does: a run that says RUNNING and whose
process is gone becomes KILLED in MLflow and failed in Dagster."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from pipelines.tracking import Tracking


def owner_tags() -> dict[str, str]:
    """Tags that say which process owns a run: host, pid, and when that process started (pids are used again)."""
    return {
        "corecode.host": platform.node(),
        "corecode.pid": str(os.getpid()),
        "corecode.pid_started": _started(os.getpid()),
    }


def _started(pid: int) -> str:
    """Start time of a process in clock ticks since boot; empty when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state == "Z" else rest[18]


def is_orphan(tags: dict[str, str]) -> bool:
    """Whether a run with these tags belonged to a process of this machine that is gone."""
    if tags.get("corecode.host") != platform.node() or not tags.get("corecode.pid", "").isdigit():
        return False
    return _started(int(tags["corecode.pid"])) != tags.get("corecode.pid_started")


def reconcile(tracking: Tracking, instance: DagsterInstance) -> list[str]:
    """End all orphaned runs in both stores; return the names of those in MLflow.

    Raises:
        InfrastructureError: MLflow does not answer.
    """
    from dagster import DagsterRunStatus, RunsFilter

    ended: list[str] = []
    lost: set[str] = set()
    for run in tracking.running():
        tags: dict[str, Any] = dict(run.data.tags)
        if is_orphan(tags):
            tracking.client.set_terminated(run.info.run_id, "KILLED")
            ended.append(run.info.run_name)
            lost.add(tags.get("dagster.run_id", ""))
    open_states = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]
    for run in instance.get_runs(RunsFilter(statuses=open_states)):
        if run.run_id in lost or is_orphan({name.replace("/", "."): value for name, value in run.tags.items()}):
            instance.report_run_failed(run, "The process of this run ended without a word (killed, or a power loss).")
    return ended
