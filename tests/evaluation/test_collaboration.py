"""Rows, pairs of arms, Collaboration Gain, and what an outage does to them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from synthetic import TESTS, make_problems, row, write_rows

from corecode.errors import InfrastructureError, UserError
from corecode.evaluation.collaboration import CG_PAIRS, GAINS, collaboration_gain, pair, single_sample_p_value
from corecode.evaluation.rows import Samples, load_samples
from corecode.evaluation.statistics import Bootstrap

FINAL = next(one for one in CG_PAIRS if one.name == "final")


def passes(run: Path, arm: str, table: list[list[int]], **changes: object) -> None:
    """Rows of one arm: for each problem the number of passed tests of each sample."""
    rows = [
        row(problem.id, arm, 0.2, s, passed, **changes)
        for problem, samples in zip(make_problems(len(table)), table, strict=True)
        for s, passed in enumerate(samples)
    ]
    write_rows(run, rows)


def loaded(run: Path, n: int = 2) -> Samples:
    return load_samples(run, n)


def test_gain_by_hand() -> None:
    found = collaboration_gain(np.array([1.0, 0.5, 1.0, 0.5]), np.array([0.5, 0.5, 0.0, 0.5]), Bootstrap(2000))
    assert (found.team, found.alone) == (0.75, 0.375)
    assert found.absolute.interval.value == pytest.approx(0.375)
    assert found.relative is not None
    assert found.relative.value == pytest.approx(1.0)


def test_gain_may_be_negative() -> None:
    found = collaboration_gain(np.full(30, 0.2), np.full(30, 0.8), Bootstrap(1000))
    assert found.relative is not None
    assert found.relative.value == pytest.approx(-0.75)
    assert found.relative.high == pytest.approx(-0.75)
    assert found.absolute.interval.excludes_zero


def test_gain_is_undefined_when_the_coder_alone_solves_nothing() -> None:
    found = collaboration_gain(np.ones(5), np.zeros(5), Bootstrap(1000))
    assert found.relative is None
    assert found.absolute.interval.value == 1.0


def test_a_bound_that_rests_on_undefined_resamples_is_absent() -> None:
    """With one solved problem of 20, the Coder alone solves nothing in a third of the resamples."""
    alone = np.zeros(20)
    alone[0] = 1.0
    found = collaboration_gain(np.ones(20), alone, Bootstrap(2000)).relative
    assert found is not None
    assert found.value == pytest.approx(19.0)
    assert (found.low, found.high) == (None, None)


def test_gain_interval_against_a_direct_computation() -> None:
    rng = np.random.default_rng(3)
    alone, team = rng.binomial(5, 0.3, 200) / 5, rng.binomial(5, 0.6, 200) / 5
    bootstrap = Bootstrap(4000, seed=1)
    found = collaboration_gain(team, alone, bootstrap).relative
    draws = rng.integers(0, 200, (4000, 200))
    direct = team[draws].mean(axis=1) / alone[draws].mean(axis=1) - 1
    assert found is not None
    assert found.low == pytest.approx(np.quantile(direct, 0.025), abs=0.04)
    assert found.high == pytest.approx(np.quantile(direct, 0.975), abs=0.06)


def test_comparisons_name_known_arms_once() -> None:
    names = [one.name for one in (*CG_PAIRS, *GAINS)]
    assert len(set(names)) == len(names)
    expected = {
        "base": ("base/team", "base/alone"),
        "sft": ("sft/team", "sft/alone"),
        "planner-grpo": ("planner-grpo/team", "sft/alone"),
        "coder-grpo-only": ("coder-grpo-only/team", "coder-grpo-only/alone"),
        "final": ("final/team", "final/alone"),
    }
    assert {one.name: (one.system, one.baseline) for one in CG_PAIRS} == expected


def test_a_missing_sample_leaves_its_problem_out_of_both_sides(tmp_path: Path) -> None:
    passes(tmp_path, "final/alone", [[TESTS, 0], [TESTS, TESTS], [0, 0]])
    passes(tmp_path, "final/team", [[TESTS, TESTS], [TESTS, 0], [TESTS, TESTS]])
    path = tmp_path / "evaluation" / "final__team" / "T0.2.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[2] |= {"missing": "sandbox died", "verdict": None, "passed": 0, "total": 0}  # the team's first sample of p1
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))

    samples = loaded(tmp_path)
    paired = pair(samples, FINAL, 0.2)
    assert paired is not None
    assert (paired.problems, paired.excluded) == (2, 1)
    team_P, alone_P = paired.measures()["pass@1"]
    assert team_P.tolist() == [1.0, 1.0]
    assert alone_P.tolist() == [0.5, 0.0]  # without p1, which the Coder alone solves

    team = samples.get("final/team", 0.2)
    assert team is not None
    assert team.missing_samples == 1
    assert team.missing_reasons() == {"sandbox died": 1}
    assert team.complete_P.tolist() == [True, False, True]


def test_a_sandbox_error_and_an_absent_row_are_missing_too(tmp_path: Path) -> None:
    passes(tmp_path, "final/alone", [[TESTS, 0], [0, 0]])
    team = [row("dials/00000", "final/team", 0.2, 0, 0, verdict="sandbox_error", total=0)]
    team += [row("dials/00001", "final/team", 0.2, s, TESTS) for s in range(2)]
    write_rows(tmp_path, team)
    found = loaded(tmp_path).get("final/team", 0.2)
    assert found is not None
    assert found.missing_reasons() == {"no result": 1, "sandbox_error": 1}
    assert found.complete_P.tolist() == [False, True]


def test_nothing_is_compared_when_nothing_is_complete(tmp_path: Path) -> None:
    passes(tmp_path, "final/alone", [[TESTS, 0]])
    passes(tmp_path, "final/team", [[TESTS, 0]], missing="server gone")
    samples = loaded(tmp_path)
    assert pair(samples, FINAL, 0.2) is None
    assert pair(samples, FINAL, 1.0) is None


def test_mcnemar_only_with_one_sample_a_problem(tmp_path: Path) -> None:
    passes(tmp_path, "final/alone", [[0], [0], [TESTS]])
    passes(tmp_path, "final/team", [[TESTS], [TESTS], [TESTS]])
    paired = pair(loaded(tmp_path, 1), FINAL, 0.2)
    assert paired is not None
    assert single_sample_p_value(paired) == pytest.approx(0.5)
    passes(tmp_path, "final/alone", [[0, 0]])
    passes(tmp_path, "final/team", [[TESTS, 0]])
    paired = pair(loaded(tmp_path), FINAL, 0.2)
    assert paired is not None
    assert single_sample_p_value(paired) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"total": 0, "passed": 0}, "empty test list"),
        ({"verdict": None}, "needs a verdict"),
        ({"passed": TESTS + 1}, f"passed {TESTS + 1} of {TESTS}"),
        ({"passed": TESTS}, f"wrong_answer with {TESTS} of {TESTS}"),
        ({"verdict": "accepted"}, f"accepted with 3 of {TESTS}"),
        ({"verdict": "fine"}, "Input should be"),
        ({"sample": 5}, "sample 5, but the profile asks for 2"),
    ],
)
def test_a_row_that_would_mislead_is_refused(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    write_rows(tmp_path, [row("p", "final/alone", 0.2, 0, 3), row("p", "final/alone", 0.2, 1, 3) | changes])
    with pytest.raises(InfrastructureError, match=reason) as error:
        loaded(tmp_path)
    assert "T0.2.jsonl, line 2" in str(error.value)


def test_a_repeated_or_torn_row_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path, [row("p", "final/alone", 0.2, 0, 3)] * 2)
    with pytest.raises(InfrastructureError, match="occurs twice"):
        loaded(tmp_path)
    path = tmp_path / "evaluation" / "final__alone" / "T0.2.jsonl"
    path.write_text(path.read_text()[:200])
    with pytest.raises(InfrastructureError, match="line 1 is not a sample row"):
        loaded(tmp_path)


def test_line_separators_inside_a_text_do_not_tear_a_row(tmp_path: Path) -> None:
    strange = "a\u2028b\x85c\x0bd"
    path = tmp_path / "evaluation" / "final__alone" / "T0.2.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(row("p", "final/alone", 0.2, 0, 3, thought=strange), ensure_ascii=False) + "\n")
    found = loaded(tmp_path, 1).get("final/alone", 0.2)
    assert found is not None
    assert found.rows_P[0][0].thought == strange


def test_a_run_without_results_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="run the evaluation stage first"):
        loaded(tmp_path)


def test_the_digest_covers_results_and_not_their_seconds(tmp_path: Path) -> None:
    def digest(**changes: object) -> str:
        write_rows(tmp_path, [row("p", "final/alone", 0.2, 0, 3) | changes])
        return loaded(tmp_path).digest

    assert digest() == digest(cpu_s=9.9, peak_mb=77.0)
    assert digest() != digest(passed=2)
    assert digest() != digest(completion="other")
