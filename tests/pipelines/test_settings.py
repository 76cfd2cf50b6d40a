"""Which folder a materialisation belongs to: a new run, a retry of one, or one that is named."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corecode.errors import UserError
from pipelines.profiles import load_profile
from pipelines.settings import RunSettings, run_name

FIRST, SECOND = "aaaaaaaa-1111-2222-3333-444444444444", "bbbbbbbb-1111-2222-3333-444444444444"


def context(run_id: str, **tags: str) -> Any:
    """As much of a Dagster context as the settings look at."""
    return SimpleNamespace(
        run=SimpleNamespace(run_id=run_id, tags={k.replace("_", "/", 1): v for k, v in tags.items()})
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_name_of_a_run() -> None:
    assert run_name(load_profile("smoke", seed=4), FIRST) == "smoke-seed4-aaaaaaaa"


def test_every_stage_of_a_run_and_its_retry_find_the_same_folder(home: Path) -> None:
    settings = RunSettings(profile="smoke", seed=4, overrides=["planner_grpo.steps=9"])
    profile, folder = settings.open_folder(context(FIRST))
    assert folder == home / "runs" / "smoke-seed4-aaaaaaaa"
    assert (profile.seed, profile.planner_grpo.steps) == (4, 9)
    assert settings.open_folder(context(FIRST)) == (profile, folder)
    assert settings.open_folder(context(SECOND, dagster_root_run_id=FIRST)) == (profile, folder)
    assert settings.open_folder(context(SECOND))[1].name == "smoke-seed4-bbbbbbbb"


def test_the_profile_that_a_run_began_with_counts(home: Path) -> None:
    settings = RunSettings(profile="smoke")
    _, folder = settings.open_folder(context(FIRST))
    stored = folder / "profile.json"
    changed = json.loads(stored.read_text(encoding="utf-8")) | {"seed": 99}
    stored.write_text(json.dumps(changed), encoding="utf-8")
    named = RunSettings(run=folder.name, profile="quickstart", overrides=["seed=1"])
    profile, same = named.open_folder(context(SECOND))
    assert (profile.name, profile.seed, same) == ("smoke", 99, folder)


def test_mistakes(home: Path) -> None:
    with pytest.raises(UserError, match="there is no run nothing"):
        RunSettings(run="nothing").open_folder(context(FIRST))
    with pytest.raises(UserError, match="unknown profile"):
        RunSettings(profile="nothing").open_folder(context(FIRST))
    with pytest.raises(UserError, match="there is no model folder"):
        RunSettings(profile="smoke", overrides=["model={path: /no/model}"]).open_folder(context(FIRST))
    assert not home.exists()
