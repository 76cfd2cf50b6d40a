"""Which profile and folder a materialisation belongs to: a partition, a retry, an evaluation of an earlier run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from assets import STAGES
from corecode.errors import UserError
from pipelines.partitions import PARTITIONS, partition_key, partition_of
from pipelines.profiles import load_profile
from pipelines.settings import RUN_TAG, RunSettings, run_name

FIRST, SECOND = "aaaaaaaa-1111-2222-3333-444444444444", "bbbbbbbb-1111-2222-3333-444444444444"


def context(run_id: str, partition: str = "smoke|4", later: str = "", stages: str = "problems", **tags: str) -> Any:
    """As much of a Dagster context as the settings look at; ``later`` is the folder that an earlier stage has noted."""
    profile, _, seed = partition.partition("|")
    given = {name.replace("_", "/", 1): value for name, value in tags.items()}
    if partition:
        given |= {"dagster/partition/profile": profile, "dagster/partition/seed": seed}
    run = SimpleNamespace(run_id=run_id, tags=given)
    recorded = SimpleNamespace(run_id=run_id, tags=given | ({RUN_TAG: later} if later else {}))
    return SimpleNamespace(
        run=run,
        instance=SimpleNamespace(get_run_by_id=lambda _: recorded),
        job_def=SimpleNamespace(
            asset_layer=SimpleNamespace(selected_asset_keys={dg.AssetKey(name) for name in stages.split()})
        ),
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_name_of_a_run() -> None:
    assert run_name(load_profile("smoke", seed=4), FIRST) == "smoke-seed4-aaaaaaaa"


def test_partition_of_a_run() -> None:
    assert [partition_key(*of) for of in (("smoke", 4), ("smoke", 99), ("my/own.yaml", 4))] == [
        "smoke|4",
        "smoke|other",
        "custom|4",
    ]
    assert {partition_key("smoke", 4), partition_key("x.yaml", 99)} <= set(PARTITIONS.get_partition_keys())
    tags = [context(FIRST, partition).run.tags for partition in ("smoke|4", "custom|other", "")]
    assert [partition_of(one) for one in tags] == [("smoke", 4), (None, None), None]


def test_the_partition_says_profile_and_seed() -> None:
    assert RunSettings().resolve(context(FIRST).run.tags) == load_profile("smoke", seed=4)
    changed = RunSettings(profile="smoke", seed=4, overrides=["planner_grpo.steps=9"]).resolve(context(FIRST).run.tags)
    assert changed.planner_grpo.steps == 9
    assert RunSettings(seed=77).resolve(context(FIRST, "smoke|other").run.tags).seed == 77


def test_a_profile_of_ones_own_goes_with_the_partition_custom(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (Path(__file__).parents[2] / "pipelines" / "profiles" / "smoke.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("name: smoke", "name: mine"), encoding="utf-8")
    profile, folder = RunSettings(profile=str(file)).open_folder(context(FIRST, "custom|5"))
    assert (profile.name, profile.seed, folder.name) == ("mine", 5, "mine-seed5-aaaaaaaa")


def test_every_stage_of_a_run_and_its_retry_find_the_same_folder(home: Path) -> None:
    settings = RunSettings(overrides=["planner_grpo.steps=9"])
    profile, folder = settings.open_folder(context(FIRST))
    assert folder == home / "runs" / "smoke-seed4-aaaaaaaa"
    assert (profile.seed, profile.planner_grpo.steps) == (4, 9)
    assert settings.open_folder(context(FIRST)) == (profile, folder)
    assert settings.open_folder(context(SECOND, dagster_root_run_id=FIRST)) == (profile, folder)
    assert settings.open_folder(context(SECOND))[1].name == "smoke-seed4-bbbbbbbb"


def test_the_profile_that_a_run_began_with_counts(home: Path) -> None:
    settings = RunSettings()
    _, folder = settings.open_folder(context(FIRST))
    stored = folder / "profile.json"
    changed = json.loads(stored.read_text(encoding="utf-8")) | {"seed": 99}
    stored.write_text(json.dumps(changed), encoding="utf-8")
    named = RunSettings(run=folder.name, overrides=["seed=1"])
    profile, same = named.open_folder(context(SECOND, "smoke|other"))
    assert (profile.name, profile.seed, same) == ("smoke", 99, folder)
    assert named.open_folder(context(SECOND, ""))[1] == folder
    with pytest.raises(UserError, match=r"profile smoke, seed 4, and the run smoke-seed4-aaaaaaaa is of .* seed 99"):
        named.open_folder(context(SECOND))


def test_without_problems_the_partitions_newest_run_goes_on(home: Path) -> None:
    settings = RunSettings()
    first, second = (settings.open_folder(context(run_id))[1] for run_id in (FIRST, SECOND))
    os.utime(first / "profile.json", (2e9, 2e9))
    third = "cccccccc-1111-2222-3333-444444444444"
    with pytest.raises(UserError, match=r"there is no run of smoke with seed 4 .* \(finished: problems, sft_warmup"):
        settings.open_folder(context(third, stages="evaluation collaboration_gain"))
    for folder, finished in ((first, 4), (second, 5)):
        (folder / "stages.json").write_text(json.dumps({name: {} for name in STAGES[:finished]}), encoding="utf-8")
    assert settings.open_folder(context(third, stages="baselines"))[1] == first
    assert settings.open_folder(context(third, stages="evaluation collaboration_gain"))[1] == second
    noted = context(third, later=second.name, stages="baselines")
    assert settings.open_folder(noted)[1] == second


def test_mistakes(home: Path) -> None:
    mistakes = {
        "there is no run nothing": (RunSettings(run="nothing"), "smoke|4"),
        "unknown profile": (RunSettings(profile="nothing"), "custom|4"),
        "there is no model folder": (RunSettings(overrides=["model={path: /no/model}"]), "smoke|4"),
        "a run needs a partition": (RunSettings(profile="smoke"), ""),
        "the partition's profile is smoke, and run.profile says quickstart": (
            RunSettings(profile="quickstart"),
            "smoke|4",
        ),
        "the partition's seed is 4, and run.seed says 5": (RunSettings(seed=5), "smoke|4"),
        "set run.profile to the path": (RunSettings(), "custom|4"),
    }
    for sentence, (settings, partition) in mistakes.items():
        with pytest.raises(UserError, match=sentence):
            settings.open_folder(context(FIRST, partition))
    assert not home.exists()
