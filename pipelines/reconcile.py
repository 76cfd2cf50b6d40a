"""After a hard kill nobody is left to say how a run ended. The next start does, and Dagster's sensors do while its
daemon runs: a run that says RUNNING and whose process is gone becomes KILLED in MLflow and failed in Dagster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.launchers.orphans import sweep_orphans
from pipelines.owners import is_gone, owner
from pipelines.settings import MLFLOW_TAG

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

    from pipelines.tracking import Status, Tracking

OWNER_TAG = "corecode.owner"
"""Tag of an MLflow run with the process that writes it."""
PROCESS_TAG = "corecode/process"
"""Tag of a Dagster run with its own id and the process that executes it."""
ENDED: dict[str, Status] = {"SUCCESS": "FINISHED", "FAILURE": "FAILED", "CANCELED": "KILLED"}
"""What the end of a Dagster run means for MLflow."""


def owner_tags() -> dict[str, str]:
    """Tags of an MLflow run that say which process owns it."""
    return {OWNER_TAG: owner()}


def process_tag(run_id: str) -> dict[str, str]:
    """The tag of a Dagster run that says which process executes it. It names the run too: a retry inherits the tags of
    the run before it, whose process is gone."""
    return {PROCESS_TAG: f"{run_id} {owner()}"}


def is_lost(run: DagsterRun) -> bool:
    """Whether a Dagster run belonged to a process of this machine that is gone."""
    run_id, _, process = run.tags.get(PROCESS_TAG, "").partition(" ")
    return run_id == run.run_id and is_gone(process)


def lost_runs(instance: DagsterInstance) -> list[DagsterRun]:
    """All Dagster runs that are open and whose process is gone."""
    from dagster import DagsterRunStatus, RunsFilter

    states = [DagsterRunStatus.STARTED, DagsterRunStatus.STARTING, DagsterRunStatus.CANCELING]
    return [run for run in instance.get_runs(RunsFilter(statuses=states)) if is_lost(run)]


def reconcile(tracking: Tracking, instance: DagsterInstance) -> list[str]:
    """End all runs that nobody ends any more, in both stores; return the names of those in MLflow.

    Raises:
        InfrastructureError: MLflow does not answer.
    """
    ended: list[str] = []
    for run in tracking.running():
        status = _end_of(run.data.tags, instance)
        if status is not None:
            tracking.client.set_terminated(run.info.run_id, status)
            ended.append(run.info.run_name)
    for run in lost_runs(instance):
        # Where Dagster's store went away between two stages, the last of them had ended MLflow's run in peace.
        parent = run.tags.get(MLFLOW_TAG, "")
        if parent and _says_finished(tracking, parent):
            tracking.client.set_terminated(parent, "FAILED")
        instance.report_run_failed(run, "The process of this run ended without a word (killed, or a power loss).")
    return ended


def _says_finished(tracking: Tracking, run_id: str) -> bool:
    """Whether MLflow has a run as finished. Somebody may have deleted it, or it is in a store that was used before."""
    from mlflow.exceptions import MlflowException

    try:
        info = tracking.client.get_run(run_id).info
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return False
    return (info.status, info.lifecycle_stage) == ("FINISHED", "active")


def _end_of(tags: dict[str, str], instance: DagsterInstance) -> Status | None:
    """How an MLflow run that says RUNNING has ended; None while it goes on."""
    run = instance.get_run_by_id(tags.get("dagster.run_id", ""))
    if run is not None and run.is_finished:
        return ENDED[run.status.value]
    return "KILLED" if is_gone(tags.get(OWNER_TAG, "")) else None


def clean_up(tracking: Tracking, instance: DagsterInstance) -> list[str]:
    """:func:`reconcile`, and end what dead runs have left on this machine: processes of jobs, control groups and
    containers of the sandbox. Neither waits for the other: a store may be away, or a Docker engine.

    Raises:
        InfrastructureError: MLflow does not answer.
        SandboxUnavailable: a Docker engine answers but does not list its containers.
    """
    import sandbox

    try:
        sweep_orphans()
        sandbox.sweep()
    finally:
        ended = reconcile(tracking, instance)
    return ended
