"""Eight promotions at the same moment leave one champion, and every process was told the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from servers import mlflow_server
from teams import ROOT, make_run

from pipelines.registry.history import State, decide
from pipelines.registry.ledger import Ledger
from pipelines.registry.promotion import champion_folder
from pipelines.registry.team import content_digest
from pipelines.tracking import Tracking

RIGHTS = (40, 160, 100, 190, 20, 120, 70, 140)
BEST = "run190"


def promote_at_once(runs: list[Path], uri: str | None) -> list[dict[str, Any]]:
    """Each process's decision, in the order of the runs."""
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    if uri is not None:
        environment["MLFLOW_TRACKING_URI"] = uri
    program = Path(__file__).with_name("at_once.py")
    paths = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, str(program), *map(str, runs)],
        check=True,
        cwd=ROOT,
        env={**environment, "PYTHONPATH": paths},
        timeout=500,
    )
    return [json.loads((run / "decision.json").read_text(encoding="utf-8")) for run in runs]


def check_history(store: Tracking, decisions: list[dict[str, Any]]) -> State:
    """The store tells one story, it is the one that follows from its entries, and each answer is a line of it."""
    ledger = Ledger(store)
    entries = ledger.read()
    assert [entry.version for entry in entries] == list(range(1, len(RIGHTS) + 1))
    state = State()
    for entry in entries:
        assert entry.finding == decide(entry, state, ledger.scores)
        assert entry.previous == (state.champion.version if state.champion else 0)
        state = state.after(entry)
    assert state.champion is not None
    assert state.champion.request.run == BEST
    aliases = ledger.aliases()
    assert aliases["champion"] == state.champion.version
    assert aliases.get("challenger") == (state.challenger.version if state.challenger else None)
    for decision in decisions:
        assert "error" not in decision, decision
        entry = state.entry(decision["version"])
        assert entry is not None
        assert entry.finding is not None
        assert (decision["run"], decision["outcome"], decision["reason"]) == (
            entry.request.run,
            entry.finding.outcome,
            entry.finding.reason,
        )
    return state


def test_in_one_home(new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = new_home("at-once")
    runs = [make_run(home, f"run{right}", right) for right in RIGHTS]
    state = check_history(Tracking(home), promote_at_once(runs, None))
    assert state.champion is not None
    assert content_digest((home / "champion").resolve()) == state.champion.request.content
    assert not list(home.rglob("*.partial"))


@pytest.fixture
def server(new_home: Callable[[str], Path]) -> Generator[str]:
    with mlflow_server(new_home("server")) as uri:
        yield uri


def test_from_several_machines(server: str, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes of their own share nothing but the server, so no lock helps."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    homes = [memory / f"machine{number}" for number in range(len(RIGHTS))]
    runs = [make_run(home, f"run{right}", right) for home, right in zip(homes, RIGHTS, strict=True)]
    state = check_history(Tracking(homes[0]), promote_at_once(runs, server))
    assert state.champion is not None
    for home, run in zip(homes[:2], runs, strict=False):
        (home / "champion").unlink(missing_ok=True)
        (home / "champion").symlink_to(run / "champion")  # here it was champion, until another machine's came
        found = champion_folder(home, Tracking(home))
        assert found is not None
        assert content_digest(found) == state.champion.request.content
