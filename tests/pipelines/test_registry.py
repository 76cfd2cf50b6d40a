"""Promotion, rollback and what is fetched, in a real store: only a team better beyond chance becomes champion."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from teams import PROFILE, make_run

from corecode.errors import InfrastructureError, UserError
from pipelines.profiles import load_profile
from pipelines.registry.ledger import Ledger
from pipelines.registry.promotion import champion_folder, promote, rollback
from pipelines.registry.team import assemble, content_digest, evaluation_digest, read_scores
from pipelines.tracking import Tracking


@pytest.fixture
def home(new_home: Callable[[str], Path], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return new_home(request.node.name)


def tags_of(store: Tracking, alias: str = "champion") -> dict[str, Any]:
    return store.client.get_model_version_by_alias("corecode", alias).tags


def test_promotion_keeps_the_team_and_is_idempotent(home: Path) -> None:
    store = Tracking(home)
    worse, better = make_run(home, "worse", 60), make_run(home, "better", 120)
    assert promote(PROFILE, worse, home, store).reason == "the first champion"
    won = promote(PROFILE, better, home, store)
    assert (won.champion, won.version, won.previous, won.outcome) == (True, 2, "worse", "promoted")
    for _ in range(2):
        again = promote(PROFILE, better, home, store)
        assert (again.reason, again.version, again.champion) == ("already the champion", 2, True)
    held = [promote(PROFILE, worse, home, store) for _ in range(2)]
    assert held[0] == held[1]
    assert (held[0].champion, held[0].outcome, held[0].version) == (False, "held", 3)
    assert len(Ledger(store).read()) == 3
    champion = home / "champion"
    assert (champion / "planner" / "model.safetensors").read_text(encoding="utf-8") == "planner of better"
    team = json.loads((champion / "team.json").read_text(encoding="utf-8"))
    assert (team["run"], team["roles"], team["prompts"]) == ("better", ["planner", "coder"], "compact")
    assert team["sampling"]["coder"] == {"temperature": 1.0, "max_tokens": PROFILE.evaluation.max_program_tokens}
    assert team["evaluation"]["pass@1"] == pytest.approx(0.6)
    assert not list(home.rglob("*.partial"))
    tags = tags_of(store)
    assert tags["corecode.reason"] == won.reason
    described = store.client.get_model_version_by_alias("corecode", "champion").description
    assert described == f"promoted, pass@1 60.0 %, better: {won.reason}"
    assert (tags["corecode.previous"], tags["corecode.previous_run"], tags["corecode.run"]) == ("1", "worse", "better")
    assert float(tags["corecode.low"]) == pytest.approx(won.low)
    assert "@" in tags["corecode.by"]
    assert tags["corecode.time"].startswith("20")
    assert tags_of(store, "challenger")["corecode.run"] == "worse"


def test_margin_force_and_rollback(home: Path) -> None:
    store = Tracking(home)
    first, second = make_run(home, "first", 60), make_run(home, "second", 90)
    promote(PROFILE, first, home, store)
    held = promote(PROFILE, second, home, store, margin=0.5)
    assert "not better by 50 points" in held.reason
    assert promote(PROFILE, second, home, store).outcome == "promoted"
    back = rollback(home, store, None, "it answers rudely")
    assert (back.champion, back.run, back.reason) == (True, "first", "rolled back from second: it answers rudely")
    assert (home / "champion" / "planner" / "model.safetensors").read_text(encoding="utf-8") == "planner of first"
    assert tags_of(store)["corecode.run"] == "first"
    with pytest.raises(UserError, match="first is the first champion"):
        rollback(home, store, None, "")
    assert "only force brings it back" in promote(PROFILE, second, home, store).reason
    forced = promote(PROFILE, second, home, store, force="it was\n  the prompt")
    assert (forced.champion, forced.reason) == (True, "forced: it was the prompt")
    assert rollback(home, store, 1, "again").run == "first"
    for to, sentence in ((99, "no such version"), (2, "was never champion"), (1, "is the champion already")):
        with pytest.raises(UserError, match=sentence):
            rollback(home, store, to, "")
    sources = {one.source for one in store.client.search_model_versions("name='corecode'")}
    assert len(sources) == 2  # going back and asking again store nothing twice


def test_a_decision_that_was_left_open_is_made_by_the_next(home: Path) -> None:
    """A process that dies after its version was made: the next one decides it, and puts aliases right."""
    store = Tracking(home)
    promote(PROFILE, make_run(home, "first", 60), home, store)
    promote(PROFILE, make_run(home, "second", 120), home, store)
    for tag in ("outcome", "reason", "previous"):
        store.client.delete_model_version_tag("corecode", "2", f"corecode.{tag}")
    store.client.set_registered_model_alias("corecode", "champion", "1")
    third = promote(PROFILE, make_run(home, "third", 180), home, store)
    assert (third.champion, third.previous) == (True, "second")
    tags = store.client.get_model_version("corecode", "2").tags
    assert (tags["corecode.outcome"], tags["corecode.previous"]) == ("promoted", "1")
    assert Ledger(store).aliases() == {"champion": 3}


def test_the_champion_outlives_its_run_folder_and_this_machine(home: Path) -> None:
    store = Tracking(home)
    run = make_run(home, "gone", 60)
    promote(PROFILE, run, home, store)
    content = content_digest(run / "champion")
    shutil.rmtree(run)
    assert content_digest((home / "champion").resolve()) == content
    shutil.rmtree(home / "champions")
    (home / "champion").unlink()
    found = champion_folder(home, store)
    assert found is not None
    assert content_digest(found) == content
    assert (home / "champion").resolve() == found.resolve()
    assert champion_folder(home, store, "challenger") is None
    assert champion_folder(home, store, "7") is None


def test_a_damaged_version_is_not_used(home: Path) -> None:
    store = Tracking(home)
    promote(PROFILE, make_run(home, "whole", 60), home, store)
    location = Path(Ledger(store).location(Ledger(store).read()[0]).removeprefix("file://"))
    shutil.rmtree(home / "champions")
    (location / "planner" / "model.safetensors").unlink()
    (home / "champion").unlink()
    with pytest.raises(InfrastructureError, match="version 1 in MLflow is damaged"):
        champion_folder(home, store)
    assert not list((home / "champions").glob("whole*"))


def test_files_that_may_run_code_are_refused_each_time(home: Path) -> None:
    """What was fetched is not used because it is there: it was refused."""
    store = Tracking(home)
    promote(PROFILE, make_run(home, "whole", 60), home, store)
    location = Path(Ledger(store).location(Ledger(store).read()[0]).removeprefix("file://"))
    shutil.rmtree(home / "champions")
    (home / "champion").unlink()
    (location / "planner" / "weights.pkl").write_bytes(b"\x80\x04")
    for _ in range(2):
        with pytest.raises(InfrastructureError, match=r"version 1 in MLflow is damaged: .*pickled objects"):
            champion_folder(home, store)
    assert [path.name for path in (home / "champions").iterdir()] == ["lock"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text('{"measures": {}}')])
def test_a_champion_whose_scores_are_lost_blocks_nobody(home: Path, damage: Callable[[Path], Any]) -> None:
    store = Tracking(home)
    promote(PROFILE, make_run(home, "lost", 60), home, store)
    damage(Path(Ledger(store).location(Ledger(store).read()[0]).removeprefix("file://")) / "scores.json")
    run = make_run(home, "better", 180)
    for _ in range(2):
        refused = promote(PROFILE, run, home, store)
        assert (refused.outcome, refused.version) == ("refused", 2)
        assert "nothing can be compared with lost: the scores of version 1 are not in MLflow any more" in refused.reason
    assert promote(PROFILE, run, home, store, force="looked at it").champion
    assert Ledger(store).aliases() == {"champion": 3}


def test_versions_that_are_deleted_by_hand_are_not_missed(home: Path) -> None:
    store = Tracking(home)
    runs = [make_run(home, name, right) for name, right in (("a", 20), ("b", 100), ("c", 190))]
    for run in runs:
        promote(PROFILE, run, home, store)
    store.client.delete_model_version("corecode", "3")  # the champion, and its alias with it
    assert Ledger(store).aliases() == {}
    assert rollback(home, store, None, "back from b").run == "a"
    assert promote(PROFILE, runs[2], home, store).champion
    store.client.delete_registered_model_alias("corecode", "champion")
    assert promote(PROFILE, runs[2], home, store).reason == "already the champion"
    assert tags_of(store)["corecode.run"] == "c"
    store.client.delete_registered_model("corecode")
    assert promote(PROFILE, runs[0], home, store).reason == "the first champion"
    assert (home / "champion").resolve().name.startswith("a-")


def test_a_version_that_somebody_registered_is_left_alone(home: Path) -> None:
    store = Tracking(home)
    store.client.create_registered_model("corecode")
    store.client.create_model_version("corecode", (home / "model").as_uri())
    store.client.set_registered_model_alias("corecode", "champion", "1")
    assert promote(PROFILE, make_run(home, "a", 20), home, store).reason == "the first champion"
    assert Ledger(store).aliases() == {"champion": 2}
    assert champion_folder(home, store, "1") is None
    with pytest.raises(UserError, match="no such version"):
        rollback(home, store, 1, "")


def test_the_evaluation_digest_covers_problems_and_protocol(tmp_path: Path) -> None:
    run, other = make_run(tmp_path, "a", 1), make_run(tmp_path, "b", 1, statement="Print 2.")
    digest = evaluation_digest(PROFILE, run)
    assert digest != evaluation_digest(PROFILE, other)
    assert digest != evaluation_digest(load_profile("smoke", ["evaluation.samples=4"]), run)
    assert digest == evaluation_digest(load_profile("smoke", ["planner_grpo.steps=9"]), run)


def test_scores_are_those_of_the_rows(tmp_path: Path) -> None:
    found = read_scores(assemble(PROFILE, make_run(tmp_path, "a", 60, valid=100)))
    assert found.pass_at_1 == pytest.approx(0.3)
    assert sum(found.measures["apr"].values()) == 60
    assert sum(found.measures["thought_valid"].values()) == 100


@pytest.mark.parametrize("name", ["pytorch_model.bin", "extra.pkl", "state.pt"])
def test_pickles_and_links_are_refused(home: Path, name: str) -> None:
    store = Tracking(home)
    run = make_run(home, "pickled", 60)
    (run / "coder_grpo" / "model" / name).write_bytes(b"\x80\x04")
    with pytest.raises(UserError, match="have to be safetensors"):
        promote(PROFILE, run, home, store)
    assert Ledger(store).read() == []
    (run / "champion" / "planner" / "link").symlink_to("/etc/passwd")
    (run / "champion" / "coder" / name).unlink()
    with pytest.raises(UserError, match="is a link"):
        content_digest(run / "champion")


def test_no_champion_without_models_or_measure(home: Path) -> None:
    store = Tracking(home)
    run = make_run(home, "a", 1)
    shutil.rmtree(run / "coder_grpo")
    with pytest.raises(InfrastructureError, match="the coder's trained model is missing"):
        promote(PROFILE, run, home, store)
    assert not (run / "champion").exists()
    assert not (home / "champion").exists()
    without, unmeasured = load_profile("smoke", ["evaluation.arms=[sft/team]"]), _unmeasured(home)
    with pytest.raises(UserError, match=r"unmeasured does not evaluate final/team \(evaluation\.arms\)"):
        promote(without, unmeasured, home, store)
    with pytest.raises(InfrastructureError, match="unmeasured has no whole results of final/team"):
        promote(PROFILE, unmeasured, home, store)
    with pytest.raises(UserError, match="holds no scores of a team"):
        read_scores(home)


def test_a_folder_that_the_history_could_not_name_is_refused_before_it_is_in_it(home: Path) -> None:
    store = Tracking(home)
    run = make_run(home, "copy of a run", 60)
    with pytest.raises(UserError, match="the run's folder: 'copy of a run' is not a name"):
        promote(PROFILE, run, home, store)
    assert Ledger(store).read() == []
    assert not (run / "champion").exists()


def _unmeasured(home: Path) -> Path:
    run = make_run(home, "unmeasured", 1)
    (run / "evaluation" / "final__team").rename(run / "evaluation" / "sft__team")
    rows = run / "evaluation" / "sft__team" / "T1.0.jsonl"
    rows.write_text(rows.read_text(encoding="utf-8").replace("final/team", "sft/team"), encoding="utf-8")
    return run
