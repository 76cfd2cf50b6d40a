"""The claims of a run: each holds or not for what its files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import make_profile, row, write_rows

from corecode.evaluation import claims

PROBLEMS = 40
PROFILE = make_profile(["base/team", "sft/team"], n=1, temperatures=[1.0])


def solved(run: Path, **counts: int) -> None:
    """Rows in which the team of each stage solves the first so many problems."""
    write_rows(
        run,
        [
            row(f"p{i:02}", f"{stage}/team", 1.0, 0, 8 if i < count else 0)
            for stage, count in counts.items()
            for i in range(PROBLEMS)
        ],
    )


def losses(run: Path, **values: list[float]) -> None:
    for role, series in values.items():
        folder = run / "sft_warmup" / role
        folder.mkdir(parents=True)
        lines = [json.dumps({"step": i, "of": 9, "metrics": {"sft/loss": loss}}) for i, loss in enumerate(series)]
        (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_warm_up_is_compared_with_the_untrained_team(tmp_path: Path) -> None:
    solved(tmp_path, base=4, sft=24)
    better = claims.warm_up_beats_base(tmp_path, PROFILE)
    assert better.holds
    assert better.figures["T1.0/value"] == pytest.approx(0.5)
    assert better.figures["T1.0/low"] > 0.3
    assert better.sentence.startswith("sft/team minus base/team in pass@1: +50.0 points [")


def test_a_difference_within_chance_does_not_count(tmp_path: Path) -> None:
    solved(tmp_path, base=20, sft=21)
    assert not claims.warm_up_beats_base(tmp_path, PROFILE).holds


def test_without_an_untrained_arm_the_loss_has_to_fall_and_the_claim_says_so(tmp_path: Path) -> None:
    solved(tmp_path, sft=24)
    assert claims.warm_up_beats_base(tmp_path, PROFILE).sentence == "not measured in this run"
    losses(tmp_path, planner=[2.0, 1.0], coder=[3.0, 2.5])
    fell = claims.warm_up_beats_base(tmp_path, PROFILE)
    assert fell.holds
    assert fell.sentence == (
        "no untrained arm (base/team) is evaluated here; the planner's training loss went from 2.000 to 1.000 and the "
        "coder's training loss went from 3.000 to 2.500"
    )


def test_a_loss_that_rose_or_was_not_logged_is_no_success(tmp_path: Path) -> None:
    rose, absent = tmp_path / "rose", tmp_path / "absent"
    losses(rose, planner=[2.0, 1.0], coder=[2.0, 2.5])
    losses(absent, planner=[2.0, 1.0])
    assert not claims.warm_up_beats_base(rose, PROFILE).holds
    assert claims.warm_up_beats_base(absent, PROFILE).sentence == "not measured in this run"


def collaboration(run: Path, *intervals: tuple[float, float, float]) -> claims.Claim:
    """The claim about a final gain at one temperature after another."""
    gains = [{"value": value, "low": low, "high": high} for value, low, high in intervals]
    final = {"temperatures": {str(number): {"pass@1": {"cg_abs": gain}} for number, gain in enumerate(gains)}}
    folder = run / "collaboration_gain"
    folder.mkdir(exist_ok=True)
    (folder / "summary.json").write_text(json.dumps({"collaboration_gain": {"final": final}}), encoding="utf-8")
    return claims.collaboration_pays(run)


def test_collaboration_pays_is_not_shown_or_refuted(tmp_path: Path) -> None:
    shown = collaboration(tmp_path, (0.3, 0.2, 0.4), (0.1, 0.01, 0.2))
    within_chance = collaboration(tmp_path, (0.3, 0.2, 0.4), (-0.1, -0.2, 0.01))
    opposite = collaboration(tmp_path, (0.3, 0.2, 0.4), (-0.1, -0.2, -0.01))
    assert [(claim.holds, claim.refuted) for claim in (shown, within_chance, opposite)] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert opposite.sentence.endswith("-10.0 points [-20.0, -1.0] at T 1 in pass@1")


@pytest.mark.parametrize(("after", "refuted"), [(0.6, False), (0.3, False), (0.2, True)])
def test_harm_is_a_loss_beyond_two_standard_errors(tmp_path: Path, after: float, refuted: bool) -> None:
    profile = PROFILE.model_copy(update={"dataset": PROFILE.dataset.model_copy(update={"validation": 25})})
    (tmp_path / "planner_grpo").mkdir()
    lines = [{"step": s, "of": 1, "metrics": {"validation/pass@1/team": v}} for s, v in enumerate((0.5, after))]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "planner_grpo" / "metrics.jsonl").write_text(text, encoding="utf-8")
    claim = claims.planner_grpo_does_no_harm(tmp_path, profile)
    assert (claim.holds, claim.refuted) == (not refuted, refuted)
    assert claim.figures["standard_error"] == pytest.approx(0.1)


def test_what_was_not_measured_is_not_refuted(tmp_path: Path) -> None:
    claim = claims.planner_grpo_does_no_harm(tmp_path, PROFILE)
    assert (claim.holds, claim.refuted) == (False, False)
