"""``corecode runs``: newest first, from what MLflow holds alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.cli_runs import headline
from pipelines.owners import owner
from pipelines.tracking import TrackedRun, Tracking, run_key

Outcome = tuple[int, str, str]
DEAD = owner().rpartition("/")[0] + "/0"
"""The owner of a run whose process id is used again by now."""


def opened(store: Tracking, name: str, seed: int, start: int, **tags: str) -> TrackedRun:
    """A run that began at a time in seconds since 1970."""
    own = {"corecode.kind": "run", "corecode.profile": "smoke", "corecode.seed": str(seed)}
    run = store.open(run_key(name), name, {**own, **{f"corecode.{key}": value for key, value in tags.items()}})
    from mlflow.store.tracking.dbmodels.models import SqlRun

    with store.client._tracking_client.store.ManagedSessionMaker() as session:
        session.query(SqlRun).filter_by(run_uuid=run.id).update({"start_time": 1000 * start})
    return run


def test_the_runs_of_a_home(
    corecode: Callable[..., Outcome], new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_home("listed")
    monkeypatch.setenv("CORECODE_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    sentence = f"no run yet in MLflow at sqlite:///{home}/mlflow/mlflow.db; 'corecode run quickstart' makes one\n"
    assert corecode("runs") == (0, sentence, "")
    assert corecode("runs", "--json") == (0, "[]\n", "")

    store = Tracking(home)
    opened(store, "smoke-seed2-lost", 2, 1_700_000_000, owner=DEAD)
    opened(store, "smoke-seed3-now", 3, 1_800_000_000, owner=owner())
    done = opened(store, "smoke-seed1-done", 1, 1_600_000_000, digest="0123456789abcdef")
    done.metrics({"pass@1/final/team/T1.0": 0.25, "pass@1/final/team/T0.2": 0.5, "pass@1/final/alone/T0.2": 0.1}, 0)
    done.end("FINISHED")
    store.client.set_terminated(done.id, "FINISHED", end_time=1_600_000_185_500)
    opened(store, "stage", 1, 1_900_000_000, kind="stage")

    code, out, err = corecode("runs", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [(one["run"], one["seed"], one["status"], one["seconds"]) for one in found] == [
        ("smoke-seed3-now", 3, "running", None),
        ("smoke-seed2-lost", 2, "lost", None),
        ("smoke-seed1-done", 1, "finished", 185.5),
    ]
    assert found[2] == {
        "id": done.id,
        "run": "smoke-seed1-done",
        "profile": "smoke",
        "seed": 1,
        "status": "finished",
        "started": "2020-09-13T12:26:40+00:00",
        "seconds": 185.5,
        "digest": "0123456789abcdef",
        "temperature": 0.2,
        "pass_at_1": 0.5,
    }

    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = corecode("runs")
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) < 80
    first, second = (next(i for i, line in enumerate(lines) if text in line) for text in ("seed1-done", done.id))
    assert second == first + 1
    assert lines[first].split() == ["smoke-seed1-done", "finished", *lines[first].split()[2:4], "50.0"]
    assert lines[second].split() == [done.id, "0123456789ab", "3:05", "T", "0.2"]


def test_the_headline_is_the_trained_team_at_the_lowest_temperature() -> None:
    assert headline({"pass_at_1/final/team/T1.0": 0.3, "pass_at_1/final/team/T0.2/low": 0.9}) == (1.0, 0.3)
    assert headline({"pass_at_1/sft/team/T0.2": 0.3}) == (None, None)
