"""Sensors: what happens without anybody asking for it.

| sensor | at first | what it does |
|---|---|---|
| ``new_dataset`` | off | trains when the problem files of the profile in CORECODE_WATCHED_PROFILE have changed |
| ``new_challenger`` | off | evaluates the run of a version that was registered as challenger |
| ``lost_runs`` | on | ends the records of runs whose process was killed, and what waits for MLflow |
| ``after_success``, ``after_failure``, ``after_cancel`` | on | the same when a run has ended, for what it left open |

Those that are on also end processes of jobs, control groups and containers whose owner is dead.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from corecode.config import stored_profile
from pipelines.home import home_folder, is_plain_name
from pipelines.jobs import evaluate, train
from pipelines.partitions import partition_key
from pipelines.profiles import load_profile
from pipelines.schedules import run_request
from pipelines.settings import RunSettings

WATCHED = "CORECODE_WATCHED_PROFILE"
_ON, _OFF = dg.DefaultSensorStatus.RUNNING, dg.DefaultSensorStatus.STOPPED


@dg.sensor(job=train, minimum_interval_seconds=60, default_status=_OFF)
def new_dataset(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Train when the watched profile's problem files have new contents. Files that still change are left to a later
    look: somebody may be copying them. The first contents that are seen start nothing."""
    name = os.environ.get(WATCHED, "")
    if not name:
        return dg.SensorResult(skip_reason=f"{WATCHED} names no profile", cursor=context.cursor)
    profile = load_profile(name)
    if profile.dataset.path is None:
        return dg.SensorResult(skip_reason=f"the problems of {name} are not files", cursor=context.cursor)
    path = Path(profile.dataset.path).expanduser()
    if not path.exists():
        return dg.SensorResult(skip_reason=f"{path} is not there", cursor=context.cursor)
    before = _remembered(context.cursor)
    looks = _looks(path)
    now = {"profile": name, "looks": looks, "contents": before.get("contents", "")}
    if looks != before.get("looks") or name != before.get("profile"):
        if name != before.get("profile"):
            now["contents"] = ""
        return dg.SensorResult(skip_reason=f"{path} looks new; read at the next look", cursor=json.dumps(now))
    if before.get("read") == looks:
        return dg.SensorResult(skip_reason=f"{path} is unchanged", cursor=context.cursor)
    from corecode.fingerprint import file_digest

    contents = _digest(f"{file.relative_to(path)} {file_digest(file)}" for file in _files(path))
    if _looks(path) != looks:
        return dg.SensorResult(skip_reason=f"{path} changed while it was read", cursor=context.cursor)
    cursor = json.dumps({**now, "contents": contents, "read": looks})
    if now["contents"] in ("", contents):
        return dg.SensorResult(skip_reason=f"the contents of {path} are known now", cursor=cursor)
    request = run_request(name, profile.seed, f"{name} {contents}")
    return dg.SensorResult(run_requests=[request], cursor=cursor)


@dg.sensor(job=evaluate, minimum_interval_seconds=60, default_status=_OFF)
def new_challenger(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    """Evaluate the run of a version that has become challenger, unless it was evaluated here already."""
    version, name = _challenger()
    if version is None or version == context.cursor:
        return dg.SensorResult(skip_reason="there is no new challenger", cursor=context.cursor)
    file = home_folder() / "runs" / name / "profile.json"
    if not is_plain_name(name) or not file.is_file():
        reason = f"version {version} comes from the run {name!r}, whose folder is not here"
        return dg.SensorResult(skip_reason=reason, cursor=version)
    profile = stored_profile(file)
    request = dg.RunRequest(
        run_key=f"challenger {version}",
        partition_key=partition_key(profile.name, profile.seed),
        run_config=RunSettings(run=name).run_config(),
        tags={"corecode/challenger": version},
    )
    return dg.SensorResult(run_requests=[request], cursor=version)


@dg.sensor(minimum_interval_seconds=60, default_status=_ON)
def lost_runs(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """End the records of runs whose process is gone, although nobody has said so, and tell MLflow what it could not be
    told while it was away."""
    from pipelines import unsent
    from pipelines.reconcile import lost_runs as find
    from pipelines.tracking import Tracking

    lost = [run.run_id for run in find(context.instance)]
    if not lost and not unsent.waits(Tracking(home_folder())):
        return dg.SkipReason("every open run has its process")
    _clean_up(context.instance)
    if not lost:
        return dg.SkipReason("MLflow answers again and has been told how runs ended")
    return dg.SkipReason(f"ended, since their process was gone: {', '.join(lost)}")


@dg.run_status_sensor(run_status=dg.DagsterRunStatus.SUCCESS, default_status=_ON)
def after_success(context: dg.RunStatusSensorContext) -> None:
    """Leave nothing open of a run that succeeded."""
    _clean_up(context.instance)


@dg.run_status_sensor(run_status=dg.DagsterRunStatus.FAILURE, default_status=_ON)
def after_failure(context: dg.RunStatusSensorContext) -> None:
    """Leave nothing open of a run that failed, or whose process was killed."""
    _clean_up(context.instance)


@dg.run_status_sensor(run_status=dg.DagsterRunStatus.CANCELED, default_status=_ON)
def after_cancel(context: dg.RunStatusSensorContext) -> None:
    """Leave nothing open of a run that was canceled."""
    _clean_up(context.instance)


SENSORS = [new_dataset, new_challenger, lost_runs, after_success, after_failure, after_cancel]


def _remembered(cursor: str | None) -> dict[str, str]:
    """What the last look has left. A cursor can be set by hand; one that is not ours is as good as none."""
    try:
        found = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _clean_up(instance: dg.DagsterInstance) -> None:
    from pipelines import unsent
    from pipelines.home import write_text
    from pipelines.reconcile import clean_up
    from pipelines.tracking import Tracking

    store = Tracking(home_folder())
    reminder = unsent.reminder(store)
    reminder.unlink(missing_ok=True)
    try:
        clean_up(store, instance)
    except Exception:
        # Dagster calls a sensor once for each end of a run, also when it fails: lost_runs looks again.
        write_text(reminder, "")
        raise


def _challenger() -> tuple[str | None, str]:
    """The challenger's version and the run that it comes from; None when there is no challenger."""
    from mlflow.exceptions import MlflowException

    from pipelines.registry import MODEL
    from pipelines.tracking import Tracking

    client = Tracking(home_folder()).client
    try:
        aliases: dict[str, Any] = client.get_registered_model(MODEL).aliases
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None, ""
        raise
    if "challenger" not in aliases:
        return None, ""
    found = client.get_model_version(MODEL, str(aliases["challenger"]))
    return str(found.version), found.tags.get("corecode.run", "")


def _looks(path: Path) -> str:
    """Names, sizes and times of the files; cheap."""
    return _digest(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in _files(path))


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def _digest(lines: Iterator[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
