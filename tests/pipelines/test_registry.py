"""The champion changes hands only for a team that is better beyond chance on the same evaluation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from teams import PROBLEMS, PROFILE, make_run

from corecode.errors import InfrastructureError, UserError
from corecode.evaluation.statistics import Bootstrap, paired_difference
from pipelines.profiles import load_profile
from pipelines.registry.gate import Criteria, Finding, compare
from pipelines.registry.history import Entry, Kind, Request, State, decide, read_entry
from pipelines.registry.ledger import Ledger
from pipelines.registry.promotion import champion_folder, promote, rollback
from pipelines.registry.team import Scores, assemble, content_digest, evaluation_digest, read_scores
from pipelines.tracking import Tracking

CRITERIA = Criteria(0.0, {"apr": 0.02, "thought_valid": 0.02})


def scores(right: int, digest: str = "d", **others: int) -> Scores:
    """A team that solves the first ``right`` of 200 problems; ``others`` likewise, by measure."""
    counts = {"pass@1": right, "apr": right, "thought_valid": PROBLEMS} | others
    measures = {name: {f"p{i:03}": float(i < n) for i in range(PROBLEMS)} for name, n in counts.items()}
    return Scores(digest, measures, 1000, 0)


def test_better_beyond_chance_is_promoted_and_anything_less_is_held() -> None:
    better = compare(scores(90), scores(50), "a", CRITERIA)
    assert better.outcome == "promoted"
    assert better.difference == pytest.approx(0.2)
    assert better.low is not None
    assert better.low > 0
    noise = compare(scores(51), scores(50), "a", CRITERIA)
    assert noise.outcome == "held"
    assert noise.reason.startswith("held: not better beyond chance than a: +0.5 points [")
    assert compare(scores(10), scores(50), "a", CRITERIA).outcome == "held"


def test_the_margin_is_asked_of_the_lower_bound() -> None:
    low = compare(scores(90), scores(50), "a", CRITERIA).low
    assert low is not None
    assert compare(scores(90), scores(50), "a", Criteria(low - 0.001)).outcome == "promoted"
    held = compare(scores(90), scores(50), "a", Criteria(low))
    assert held.outcome == "held"
    assert f"not better by {100 * low:g} points beyond chance" in held.reason


def test_a_guarded_measure_that_suffers_holds_a_better_team() -> None:
    harmed = scores(90, thought_valid=150)
    held = compare(harmed, scores(50), "a", CRITERIA)
    assert held.outcome == "held"
    assert held.reason.startswith("held: thought_valid suffers against a: -25.0 points [")
    assert compare(harmed, scores(50), "a", Criteria(0.0, {"thought_valid": 0.4})).outcome == "promoted"
    assert compare(harmed, scores(50), "a", Criteria(0.0, {})).outcome == "promoted"


def test_another_evaluation_is_refused() -> None:
    refused = compare(scores(200, "other"), scores(50), "a", CRITERIA)
    assert refused.outcome == "refused"
    assert "measured on other problems" in refused.reason
    unlike = Scores("d", {"pass@1": {"elsewhere": 1.0}}, 1000, 0)
    assert "no problem has results of both" in compare(unlike, scores(50), "a", CRITERIA).reason


def test_what_cannot_be_compared_is_refused() -> None:
    """A guarded measure that is missing guards nothing; one problem has no chance in it."""
    without = scores(90)
    without = Scores("d", {name: of for name, of in without.measures.items() if name != "apr"}, 1000, 0)
    for offered, present in (
        (without, scores(50)),
        (scores(90), Scores("d", {"pass@1": scores(50).measures["pass@1"]}, 1000, 0)),
    ):
        refused = compare(offered, present, "a", CRITERIA)
        assert (refused.outcome, refused.reason) == ("refused", "refused: no problem has apr of both this team and a")
    one, other = (Scores("d", {"pass@1": {"p": right}}, 1000, 0) for right in (1.0, 0.0))
    refused = compare(one, other, "a", Criteria())
    assert (refused.outcome, refused.reason) == (
        "refused",
        "refused: one problem with results of both says nothing of chance against a",
    )


def test_a_guard_at_its_limit_lets_pass() -> None:
    """A quarter of the problems lose their thought: the interval's end decides, and at the limit nothing is harmed."""
    harmed, present = scores(90, thought_valid=150), scores(50)
    high = paired_difference(
        *(np.array(list(one.measures["thought_valid"].values())) for one in (harmed, present)), Bootstrap(1000, 0)
    ).interval.high
    assert high is not None
    assert compare(harmed, present, "a", Criteria(0.0, {"thought_valid": -high})).outcome == "promoted"
    assert compare(harmed, present, "a", Criteria(0.0, {"thought_valid": -high - 1e-9})).outcome == "held"


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1.5", "-0.1", '"many"', "null"])
def test_scores_that_are_no_shares_are_not_read(tmp_path: Path, score: str) -> None:
    text = f'{{"digest": "d", "measures": {{"pass@1": {{"p": {score}}}}}, "resamples": 1000, "seed": 0}}'
    (tmp_path / "scores.json").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="holds no scores of a team"):
        read_scores(tmp_path)


class Story:
    """A history without a store: each step is decided after those before it."""

    def __init__(self, rights: Mapping[str, int]) -> None:
        self.rights = rights
        self.state = State()

    def step(self, kind: Kind, team: str, then: int | None = None) -> Finding:
        champion = self.state.champion.version if self.state.champion else 0
        request = Request(
            *("ticket", kind, team, team, "d", 0.5, CRITERIA, "" if kind == "offer" else "because"),
            champion if then is None else then,
            *("someone@here", "2026-01-01T00:00:00+00:00"),
        )
        entry = Entry(len(self.state.entries) + 1, request, "models:/m", None)
        finding = decide(entry, self.state, lambda one: scores(self.rights[one.request.run]))
        self.state = self.state.after(Entry(entry.version, request, "models:/m", None, finding, champion))
        return finding

    @property
    def champion(self) -> tuple[int, str]:
        assert self.state.champion is not None
        return self.state.champion.version, self.state.champion.request.run


def test_going_back_goes_further_back_each_time_and_lasts() -> None:
    story = Story({"a": 20, "b": 80, "c": 140, "d": 190})
    for team in "abc":
        assert story.step("offer", team).outcome == "promoted"
    assert story.step("rollback", "b").reason == "rolled back from c: because"
    assert story.champion == (4, "b")
    assert [one.request.run for one in story.state.reign] == ["a", "b"]
    again = story.step("offer", "c")
    assert again.reason == "held: it was rolled back (because); only force brings it back"
    assert story.step("offer", "d").outcome == "promoted"
    story.step("rollback", "b")
    story.step("rollback", "a")
    assert story.champion == (8, "a")
    assert set(story.state.withdrawn) == {"b", "c", "d"}
    assert story.step("force", "c").reason == "forced: because"
    assert story.champion == (9, "c")
    assert set(story.state.withdrawn) == {"b", "d"}


def test_a_rollback_that_came_too_late_changes_nothing() -> None:
    story = Story({"a": 20, "b": 80, "c": 140})
    story.step("offer", "a")
    story.step("offer", "b")
    story.step("offer", "c")
    assert story.step("rollback", "a", then=2).outcome == "held"
    assert story.champion == (3, "c")


def test_the_challenger_is_the_last_team_offered_until_it_is_champion() -> None:
    story = Story({"a": 20, "b": 21, "c": 140})
    assert story.state.challenger is None
    story.step("offer", "a")
    assert story.state.challenger is None
    story.step("offer", "b")
    assert story.state.challenger is not None
    assert story.state.challenger.request.run == "b"
    story.step("force", "b")
    assert story.state.challenger is None
    story.step("offer", "c")
    assert story.state.challenger is None


def test_damaged_tags_are_noticed() -> None:
    request = Request("t", "offer", "run", "c" * 64, "d", 0.5, CRITERIA, "", 0, "me", "now")
    assert read_entry(1, "models:/m", None, request.tags()).request == request
    for change in (
        {"run": "../../etc"},
        {"run": "/etc"},
        {"kind": "x"},
        {"criteria": "["},
        {"content": "../c"},
        {"criteria": '{"margin": NaN, "guards": {}}'},
        {"criteria": '{"margin": 0, "guards": {"apr": NaN}}'},
    ):
        tags = request.tags() | {f"corecode.{name}": value for name, value in change.items()}
        with pytest.raises(ValueError, match=r"."):
            read_entry(1, "models:/m", None, tags)


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


def _unmeasured(home: Path) -> Path:
    run = make_run(home, "unmeasured", 1)
    (run / "evaluation" / "final__team").rename(run / "evaluation" / "sft__team")
    rows = run / "evaluation" / "sft__team" / "T1.0.jsonl"
    rows.write_text(rows.read_text(encoding="utf-8").replace("final/team", "sft/team"), encoding="utf-8")
    return run
