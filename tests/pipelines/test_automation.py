"""Schedules and sensors by their ticks, on a real Dagster instance and a real MLflow store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from corecode.errors import InfrastructureError, UserError
from pipelines import schedules, sensors, unsent
from pipelines.definitions import defs
from pipelines.instance import open_instance
from pipelines.launchers.orphans import tokens
from pipelines.owners import is_gone, owner
from pipelines.profiles import load_profile
from pipelines.reconcile import OWNER_TAG, process_tag
from pipelines.tracking import Tracking, run_key

REPOSITORY = defs.get_repository_def()
ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "pipelines" / "profiles" / "smoke.yaml"


@pytest.fixture
def home(new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    made = new_home(request.node.name)
    monkeypatch.setenv("CORECODE_HOME", str(made))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return made


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with open_instance(home) as opened:
        yield opened


def schedule_tick(schedule: Any, when: datetime) -> list[dg.RunRequest]:
    context = dg.build_schedule_context(scheduled_execution_time=when, repository_def=REPOSITORY)
    return list(schedule.evaluate_tick(context).run_requests)


def sensor_tick(sensor: Any, instance: dg.DagsterInstance, cursor: str | None = None) -> Any:
    context = dg.build_sensor_context(instance=instance, cursor=cursor, repository_def=REPOSITORY)
    return sensor.evaluate_tick(context)


def settings(request: dg.RunRequest) -> dict[str, Any]:
    return request.run_config["resources"]["run"]["config"]


def test_what_costs_hours_is_off_at_first() -> None:
    first = {one.name: one.default_status.value for one in (*REPOSITORY.schedule_defs, *REPOSITORY.sensor_defs)}
    assert first == {
        **dict.fromkeys(("nightly", "weekly", "new_dataset", "new_challenger"), "STOPPED"),
        **dict.fromkeys(("lost_runs", "after_success", "after_failure", "after_cancel"), "RUNNING"),
    }


def test_nightly_takes_the_seeds_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORECODE_NIGHTLY_PROFILE", "smoke")
    nights = [datetime(2026, 3, day, 1, tzinfo=UTC) for day in range(1, 12)]
    requests = [request for night in nights for request in schedule_tick(schedules.nightly, night)]
    seeds = [settings(request)["seed"] for request in requests]
    assert sorted(seeds[:10]) == list(range(10))
    assert seeds[10] == seeds[0]
    assert [request.partition_key for request in requests] == [f"smoke|{seed}" for seed in seeds]
    assert len({request.run_key for request in requests}) == 11
    monkeypatch.setenv("CORECODE_NIGHTLY_PROFILE", "smok")
    with pytest.raises(Exception, match="nightly") as failure:
        schedule_tick(schedules.nightly, nights[0])
    assert isinstance(failure.value.__cause__, UserError)
    assert "did you mean 'smoke'" in str(failure.value.__cause__)


def test_weekly_runs_three_seeds() -> None:
    requests = schedule_tick(schedules.weekly, datetime(2026, 3, 7, 2, tzinfo=UTC))
    assert [request.partition_key for request in requests] == [f"quickstart|{seed}" for seed in (0, 1, 2)]
    assert {settings(request)["profile"] for request in requests} == {"quickstart"}
    assert schedules.weekly.cron_schedule == "0 2 * * 6"


def test_new_problem_files_start_a_run_once(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tick(cursor: str | None) -> tuple[list[dg.RunRequest], str, str]:
        found = sensor_tick(sensors.new_dataset, instance, cursor)
        return list(found.run_requests or []), found.cursor or "", found.skip_message or ""

    assert "names no profile" in tick(None)[2]
    data, file = tmp_path / "data", tmp_path / "mine.yaml"
    text = SHIPPED.read_text(encoding="utf-8").replace("name: smoke", "name: mine")
    file.write_text(text.replace("name: dials", f"name: file\n  path: {data}"), encoding="utf-8")
    monkeypatch.setenv(sensors.WATCHED, str(file))
    assert "is not there" in tick(None)[2]
    data.mkdir()
    (data / "rl.jsonl").write_text("{}\n", encoding="utf-8")
    _, cursor, reason = tick(None)
    assert "looks new" in reason
    _, cursor, reason = tick(cursor)
    assert "are known now" in reason
    assert "is unchanged" in tick(cursor)[2]
    (data / "rl.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    requests, cursor, reason = tick(cursor)
    assert (requests, "looks new" in reason) == ([], True)
    requests, cursor, _ = tick(cursor)
    assert [(one.partition_key, settings(one)["profile"]) for one in requests] == [("custom|0", str(file))]
    assert "is unchanged" in tick(cursor)[2]
    os.utime(data / "rl.jsonl")  # touched, not changed
    _, cursor, _ = tick(cursor)
    assert tick(cursor)[0] == []
    for garbage in ("{", "[]", "7", '{"profile": 1}', json.dumps({"profile": str(file), "looks": "x"})):
        requests, cursor, reason = tick(garbage)
        assert (requests, "looks new" in reason) == ([], True)
        assert "are known now" in tick(cursor)[2]
    looks = json.loads(cursor)["looks"]
    assert "are known now" in tick(json.dumps({"profile": str(file), "looks": looks}))[2]


def test_problem_files_that_change_while_they_are_read_start_nothing(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from corecode import fingerprint

    data, file = tmp_path / "rl.jsonl", tmp_path / "mine.yaml"
    text = SHIPPED.read_text(encoding="utf-8")
    file.write_text(text.replace("name: dials", f"name: file\n  path: {data}"), encoding="utf-8")
    monkeypatch.setenv(sensors.WATCHED, str(file))
    data.write_text("{}\n", encoding="utf-8")
    cursor = None
    for _ in range(2):  # seen, then known
        cursor = sensor_tick(sensors.new_dataset, instance, cursor).cursor
    data.write_text("{}\n{}\n", encoding="utf-8")
    cursor = sensor_tick(sensors.new_dataset, instance, cursor).cursor
    read = fingerprint.file_digest

    def grows(path: Path) -> str:
        found = read(path)
        with path.open("a", encoding="utf-8") as more:
            more.write("{}\n")
        return found

    with monkeypatch.context() as copying:
        copying.setattr(fingerprint, "file_digest", grows)
        meanwhile = sensor_tick(sensors.new_dataset, instance, cursor)
    assert not meanwhile.run_requests
    assert "changed while it was read" in meanwhile.skip_message
    seen = sensor_tick(sensors.new_dataset, instance, meanwhile.cursor)
    assert "looks new" in seen.skip_message
    assert len(sensor_tick(sensors.new_dataset, instance, seen.cursor).run_requests) == 1


def test_a_new_challenger_is_evaluated_once(home: Path, instance: dg.DagsterInstance) -> None:
    assert sensor_tick(sensors.new_challenger, instance).skip_message == "there is no new challenger"
    client = Tracking(home).client
    client.create_registered_model("corecode")
    for number, name in enumerate(("smoke-seed4-aaaaaaaa", "gone"), 1):
        client.create_model_version("corecode", (home / "model").as_uri(), tags={"corecode.run": name})
        client.set_registered_model_alias("corecode", "challenger", str(number))
        if name != "gone":
            folder = home / "runs" / name
            folder.mkdir(parents=True)
            (folder / "profile.json").write_text(load_profile("smoke", seed=4).model_dump_json(), encoding="utf-8")
            first = sensor_tick(sensors.new_challenger, instance)
    (request,) = first.run_requests
    assert (request.partition_key, settings(request)) == ("smoke|4", {"run": "smoke-seed4-aaaaaaaa"})
    assert request.tags["corecode/challenger"] == first.cursor == "1"
    second = sensor_tick(sensors.new_challenger, instance, first.cursor)
    assert not second.run_requests
    assert "whose folder is not here" in second.skip_message
    assert "no new" in sensor_tick(sensors.new_challenger, instance, second.cursor).skip_message
    (home / "outside").mkdir()
    shutil.copy(home / "runs" / "smoke-seed4-aaaaaaaa" / "profile.json", home / "outside")
    for number, tags in enumerate(({"corecode.run": "../outside"}, {}), 3):  # made by hand
        client.create_model_version("corecode", (home / "model").as_uri(), tags=tags)
        client.set_registered_model_alias("corecode", "challenger", str(number))
        assert "whose folder is not here" in sensor_tick(sensors.new_challenger, instance, "2").skip_message
    client.delete_model_version("corecode", "4")  # and the alias with it
    assert sensor_tick(sensors.new_challenger, instance, "2").skip_message == "there is no new challenger"


@pytest.fixture
def dead() -> str:
    """The owner name of a process that has ended."""
    program = "from pipelines.owners import owner; print(owner())"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    name = shown.stdout.strip()
    assert is_gone(name)
    assert not is_gone(owner())
    return name


def started_run(instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.DagsterRun:
    run = instance.create_run_for_job(defs.resolve_job_def("train"), tags={"dagster/partition": "smoke|1", **tags})
    instance.report_dagster_event(dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "train"), run.run_id)
    return run


def test_a_run_whose_process_was_killed_is_ended_in_both_stores(
    home: Path, instance: dg.DagsterInstance, dead: str
) -> None:
    store = Tracking(home)
    lost, alive = (started_run(instance, {}) for _ in range(2))
    instance.add_run_tags(lost.run_id, {"corecode/process": f"{lost.run_id} {dead}"})
    instance.add_run_tags(alive.run_id, process_tag(alive.run_id))
    retry = started_run(instance, {"corecode/process": f"{lost.run_id} {dead}"})  # inherited, not its own
    for run, who in ((lost, dead), (alive, owner())):
        store.open(run_key(run.run_id), run.run_id, {"dagster.run_id": run.run_id, OWNER_TAG: who})
    assert lost.run_id in sensor_tick(sensors.lost_runs, instance).skip_message
    statuses = {run.run_id: instance.get_run_by_id(run.run_id).status.value for run in (lost, alive, retry)}
    assert statuses == {lost.run_id: "FAILURE", alive.run_id: "STARTED", retry.run_id: "STARTED"}
    tracked = {run.info.run_name: run.info.status for run in store.client.search_runs([store.experiment])}
    assert tracked == {lost.run_id: "KILLED", alive.run_id: "RUNNING"}
    assert sensor_tick(sensors.lost_runs, instance).skip_message == "every open run has its process"


def test_a_lost_run_that_mlflow_does_not_know_is_ended_all_the_same(
    home: Path, instance: dg.DagsterInstance, dead: str
) -> None:
    """Its record was deleted, or is in a store that was used before."""
    store = Tracking(home)
    deleted, finished = (store.open(run_key(name), name, {}) for name in ("deleted", "finished"))
    for run in (deleted, finished):
        run.end("FINISHED")
    store.client.delete_run(deleted.id)
    lost = [started_run(instance, {"mlflow/run_id": known}) for known in ("0" * 32, deleted.id, finished.id)]
    for run in lost:
        instance.add_run_tags(run.run_id, {"corecode/process": f"{run.run_id} {dead}"})
    assert "ended, since their process was gone" in sensor_tick(sensors.lost_runs, instance).skip_message
    assert {instance.get_run_by_id(run.run_id).status.value for run in lost} == {"FAILURE"}
    assert store.client.get_run(finished.id).info.status == "FAILED"


@pytest.mark.parametrize(
    ("sensor", "end", "status"),
    [
        (sensors.after_success, dg.DagsterEventType.RUN_SUCCESS, "FINISHED"),
        (sensors.after_failure, dg.DagsterEventType.RUN_FAILURE, "FAILED"),
        (sensors.after_cancel, dg.DagsterEventType.RUN_CANCELED, "KILLED"),
    ],
)
def test_the_end_of_a_run_ends_what_it_left_open(
    home: Path, instance: dg.DagsterInstance, sensor: Any, end: dg.DagsterEventType, status: str, dead: str
) -> None:
    store = Tracking(home)
    run = started_run(instance, {})
    store.open(run_key("left"), "left", {"dagster.run_id": run.run_id, OWNER_TAG: owner()})
    left = subprocess.Popen(["sleep", "600"], env={"CORECODE_JOB": f"{dead}/1"}, start_new_session=True)
    mine = subprocess.Popen(["sleep", "600"], env={"CORECODE_JOB": f"{owner()}/1"}, start_new_session=True)
    try:
        assert {left.pid, mine.pid} <= set(tokens())
        event = dg.DagsterEvent(end.value, "train", event_specific_data=_data(end))
        instance.report_dagster_event(event, run.run_id)
        ended = instance.get_run_by_id(run.run_id)
        context = dg.build_run_status_sensor_context(sensor.name, event, instance, ended, repository_def=REPOSITORY)
        sensor(context)
        assert left.wait(timeout=90) == -9
        assert mine.poll() is None
    finally:
        for process in (left, mine):
            process.kill()
            process.wait()
    assert store.client.search_runs([store.experiment])[0].info.status == status
    assert json.loads(json.dumps(store.running())) == []


def test_an_outage_of_mlflow_leaves_nothing_running(
    home: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, dead: str
) -> None:
    """Dagster calls ``after_failure`` once. Where MLflow is away just then, ``lost_runs`` tells it later."""
    store = Tracking(home)
    run = started_run(instance, {})
    left = store.open(run_key("left"), "left", {"dagster.run_id": run.run_id, OWNER_TAG: dead})
    kept = store.open(run_key("kept"), "kept", {OWNER_TAG: owner()})
    unsent.keep(store, kept.id, "FINISHED", [("loss", 0.5, 1, 2)])
    event = dg.DagsterEvent(
        dg.DagsterEventType.RUN_FAILURE.value, "train", event_specific_data=_data(dg.DagsterEventType.RUN_FAILURE)
    )
    instance.report_dagster_event(event, run.run_id)
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    context = dg.build_run_status_sensor_context("after_failure", event, instance, ended, repository_def=REPOSITORY)
    orphan = subprocess.Popen(["sleep", "600"], env={"CORECODE_JOB": f"{dead}/1"}, start_new_session=True)

    def away(*_: Any) -> str:
        raise ConnectionError("no route to host")

    try:
        with monkeypatch.context() as outage:
            outage.setattr(Tracking, "_find_experiment", away)
            with pytest.raises(InfrastructureError, match="does not answer"):
                sensors.after_failure(context)
            assert orphan.wait(timeout=90) == -9, "what is on this machine does not wait for MLflow"
            for sensor in (sensors.lost_runs, sensors.new_challenger):
                with pytest.raises(InfrastructureError, match="does not answer"):
                    sensor_tick(sensor, instance, "1")
        assert {one.info.status for one in store.running()} == {"RUNNING"}
    finally:
        orphan.kill()
        orphan.wait()
    assert "answers again" in sensor_tick(sensors.lost_runs, instance).skip_message
    assert store.client.get_run(left.id).info.status == "FAILED"
    assert store.client.get_run(kept.id).info.status == "FINISHED"
    assert store.client.get_run(kept.id).data.metrics == {"loss": 0.5}
    assert sensor_tick(sensors.lost_runs, instance).skip_message == "every open run has its process"


def _data(end: dg.DagsterEventType) -> Any:
    from dagster._core.events import JobCanceledData, JobFailureData

    if end is dg.DagsterEventType.RUN_FAILURE:
        return JobFailureData(error=None)
    return JobCanceledData(error=None) if end is dg.DagsterEventType.RUN_CANCELED else None


def test_the_commands_of_the_page_work(home: Path, instance: dg.DagsterInstance) -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    commands = [line for line in page.splitlines() if line.startswith("DAGSTER_HOME=$PWD/.corecode/dagster ")]
    assert len(commands) == 2
    for command in commands:
        words = command.replace("$PWD/.corecode/dagster", str(home / "dagster"))
        words = words.replace(".venv/bin/dagster", f"{sys.executable} -m dagster")
        subprocess.run(["bash", "-c", words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    assert {pool.name: pool.limit for pool in instance.event_log_storage.get_pool_limits()} == {"training": 2}
    switched = {one.instigator_name: one.status.value for one in instance.all_instigator_state()}
    assert switched["nightly"] == "RUNNING"
