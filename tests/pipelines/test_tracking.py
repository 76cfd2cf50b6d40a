"""Tracking never stops training and never leaves a run open; what MLflow refuses is changed, not dropped silently."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from corecode.errors import InfrastructureError
from pipelines.tracking import TrackedRun, Tracking, entity_name, flat, parameter_text, run_key


@pytest.fixture
def store(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> Tracking:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Tracking(empty_home)


def read(run: TrackedRun) -> Any:
    return run.store.client.get_run(run.id)


def artifact(run: TrackedRun, name: str) -> Any:
    path = run.store.client.download_artifacts(run.id, name)
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_names_that_mlflow_accepts() -> None:
    assert entity_name("validation/pass@1/team") == "validation/pass_at_1/team"
    assert entity_name("a b/c:d?") == "a b/c:d_"
    assert entity_name("//../x") == "_/x"
    assert len(entity_name("x" * 400)) == 250


def test_flat_parameters() -> None:
    assert flat({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": None, "f": {}}) == {
        "a.b": 1,
        "a.c.d": [1, 2],
        "e": None,
        "f": {},
    }
    assert parameter_text([1, 2]) == ("[1, 2]", False)
    text, cut = parameter_text("x" * 7000)
    assert cut
    assert len(text) == 500
    assert text.endswith("[cut: 7000 characters, whole in parameters.json]")


def test_parameters_that_mlflow_refuses_do_not_stop_a_run(store: Tracking) -> None:
    """Long values, odd names, many parameters, and other values when the run is resumed."""
    params: dict[str, Any] = {
        "reward_weights": "x" * 7000,
        "prompt_template": "line\n" * 2000,
        "lora_targets": [f"layers.{i}.q_proj" for i in range(400)],
        "a b/c:d?": 1,
        "none": None,
        **{f"many_{i}": i for i in range(250)},
    }
    run = store.open(run_key("refused"), "refused", {})
    run.parameters(params)
    logged = read(run).data.params
    assert len(logged) == len(params)
    assert logged["a b/c:d_"] == "1"
    assert "[cut: 7000 characters" in logged["reward_weights"]
    assert artifact(run, "parameters.json")["reward_weights"] == "x" * 7000

    again = store.open(run_key("refused"), "refused", {})
    assert again.id == run.id
    again.parameters({**params, "many_7": 8, "fresh": 1})
    data = read(again).data
    assert data.params["many_7"] == "7"
    assert data.params["fresh"] == "1"
    assert data.tags["corecode.changed/many_7"] == "8"
    assert artifact(again, "parameters.json")["many_7"] == 8
    assert run.problems == again.problems == []
    again.end("FINISHED")
    assert read(again).info.status == "FINISHED"


def test_metrics_arrive_once_each_also_when_a_stage_is_repeated(store: Tracking) -> None:
    run = store.open(run_key("metrics"), "metrics", {})
    for step in range(1500):
        run.metrics({"reward/mean": step / 2, "text": "no number", "flag": True, "bad": float("nan")}, step)
    run.end("FAILED")
    again = store.open(run_key("metrics"), "metrics", {})
    for last in (1550, 1600):  # the second time as a job does that continues from a checkpoint
        for step in range(last):
            again.metrics({"reward/mean": -1.0}, step)
    again.end("FINISHED")
    history = store.client.get_metric_history(run.id, "reward/mean")
    assert sorted(point.step for point in history) == list(range(1600))
    assert [point.value for point in history if point.step in (0, 1499, 1500)] == [0.0, 749.5, -1.0]
    assert set(read(run).data.metrics) == {"reward/mean"}


def test_tables_data_sets_models_and_links(store: Tracking, tmp_path: Path) -> None:
    parent = store.open(run_key("parent"), "parent", {"corecode.kind": "run"})
    child = store.open(run_key("parent", "stage"), "stage", {"mlflow.parentRunId": parent.id})
    child.table([{"thought": "a", "reward": 1.0}, {"thought": "b", "extra": 2}], "samples.json")
    assert artifact(child, "samples.json")["columns"] == ["thought", "reward", "extra"]
    parent.datasets([("dials-sft", "ab" * 32, "/data/sft.jsonl", "training"), ("dials-test", "c", "/t", "test")])
    inputs = {one.dataset.name: one for one in read(parent).inputs.dataset_inputs}
    assert inputs["dials-sft"].dataset.digest == ("ab" * 32)[:36]
    assert inputs["dials-test"].tags[0].value == "test"
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", encoding="utf-8")
    first = child.model(model, "planner", {"corecode.path": "x"})
    assert first is not None
    assert child.model(model, "planner", {}) == first
    assert child.url.endswith(f"/runs/{child.id}")
    assert child.problems == parent.problems == []
    for run in (child, parent):
        run.end("KILLED")
        assert read(run).info.status == "KILLED"


def test_a_store_that_fails_in_the_middle_costs_a_warning_and_no_metric(
    store: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = store.open(run_key("outage"), "outage", {})
    real = store.client.log_batch

    def down(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("connection refused")

    monkeypatch.setattr(store.client, "log_batch", down)
    run.metrics({"loss": 1.0}, 1)
    assert run.flush() is False
    run.parameters({"a": 1})
    assert any("metrics was not written: connection refused" in problem for problem in run.problems)
    monkeypatch.setattr(store.client, "log_batch", real)
    run.metrics({"loss": 0.5}, 2)
    run.end("FINISHED")
    assert [point.value for point in store.client.get_metric_history(run.id, "loss")] == [1.0, 0.5]


def test_a_server_that_is_not_there_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.launchers.local import free_port

    uri = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(InfrastructureError, match=f"MLflow at {uri} does not answer"):
        Tracking(tmp_path).open("key", "name", {})


def test_several_processes_may_open_a_new_store_at_once(memory: Path) -> None:
    home = memory / "several-stores"
    program = (
        "import sys, pathlib; from pipelines.tracking import Tracking;"
        "Tracking(pathlib.Path(sys.argv[1])).open(sys.argv[2], 'r', {}).end('FINISHED')"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(home), key], stderr=subprocess.PIPE) for key in "ab"
    ]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    store = Tracking(home)
    assert len(store.client.search_runs([store.experiment])) == 2
