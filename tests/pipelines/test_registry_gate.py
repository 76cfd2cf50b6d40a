"""What the gate and the history decide, without a store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from teams import PROBLEMS

from corecode.errors import UserError
from corecode.evaluation.statistics import Bootstrap, paired_difference
from corecode.stages import make_problems
from pipelines.profiles import load_profile
from pipelines.registry.gate import Criteria, Finding, compare
from pipelines.registry.history import Entry, Kind, Request, State, decide, read_entry
from pipelines.registry.team import Scores, evaluation_digest, read_scores

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


def test_seeds_of_a_profile_are_measured_on_the_same_problems(tmp_path: Path) -> None:
    def digest(name: str, seed: int, *overrides: str) -> str:
        profile = load_profile("smoke", overrides, seed)
        make_problems(profile, tmp_path / name)
        return evaluation_digest(profile, tmp_path / name)

    assert digest("a", 0) == digest("b", 1) != digest("c", 1, "dataset.seed=1")
