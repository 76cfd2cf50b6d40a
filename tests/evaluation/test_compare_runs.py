"""Comparing two runs, and pooling seeds."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from synthetic import RATES, TESTS, make_problems, make_profile, make_run, row, write_rows

from corecode.errors import UserError
from corecode.evaluation.compare import compare, pool
from corecode.problems import write_problems
from pipelines.cli_compare import compare as command

ARM = "final/team"


def small_run(run: Path, right: list[int], n: int = 2, **changes: object) -> Path:
    """A run of one arm: for each problem the number of right samples."""
    problems = make_problems(len(right))
    write_problems(run / "problems" / "test.jsonl", problems)
    (run / "profile.json").write_text(make_profile([ARM], n=n).model_dump_json())
    rows = [
        row(problem.id, ARM, 0.2, s, TESTS if s < count else 0) | changes
        for problem, count in zip(problems, right, strict=True)
        for s in range(n)
    ]
    write_rows(run, rows)
    return run


def test_difference_and_changed_problems(tmp_path: Path) -> None:
    first, second = small_run(tmp_path / "a", [0, 1, 2, 2]), small_run(tmp_path / "b", [2, 2, 2, 1])
    found = compare(first, second, ARM, 0.2)
    assert (found.problems, found.not_shared, found.excluded) == (4, 0, 0)
    assert found.measures["pass@1"].first == pytest.approx(5 / 8)
    assert found.measures["pass@1"].second == pytest.approx(7 / 8)
    assert found.measures["pass@1"].difference.interval.value == pytest.approx(0.25)
    assert [(one.problem_id[-1], one.first, one.second) for one in found.changed] == [
        ("0", 0.0, 1.0),
        ("1", 0.5, 1.0),
        ("3", 1.0, 0.5),
    ]
    back = compare(second, first, ARM, 0.2)
    assert back.measures["pass@1"].difference.interval.value == pytest.approx(-0.25)
    assert found.mcnemar_p is None


def test_one_sample_a_problem_has_an_exact_test(tmp_path: Path) -> None:
    first, second = small_run(tmp_path / "a", [0, 0, 0, 1], n=1), small_run(tmp_path / "b", [1, 1, 1, 1], n=1)
    assert compare(first, second, ARM, 0.2).mcnemar_p == pytest.approx(0.25)


def test_equal_ids_with_other_content_are_not_the_same_problem(tmp_path: Path) -> None:
    first, second = small_run(tmp_path / "a", [0, 1, 2]), small_run(tmp_path / "b", [2, 2, 2])
    other = make_problems(3)
    other[0] = other[0].model_copy(update={"statement": "something else"})
    write_problems(second / "problems" / "test.jsonl", other)
    found = compare(first, second, ARM, 0.2)
    assert (found.problems, found.not_shared) == (2, 1)
    write_problems(second / "problems" / "test.jsonl", [p.model_copy(update={"statement": "x"}) for p in other])
    with pytest.raises(UserError, match="share no problem"):
        compare(first, second, ARM, 0.2)


def test_the_temperature_is_the_lowest_that_both_have(tmp_path: Path) -> None:
    both, warm = tmp_path / "both", tmp_path / "warm"
    make_run(both, problems=5, temperatures=(0.2, 1.0))
    (both / "profile.json").write_text(make_profile(temperatures=[0.2, 1.0]).model_dump_json())
    make_run(warm, problems=5, temperatures=(1.0,))
    (warm / "profile.json").write_text(make_profile(temperatures=[1.0]).model_dump_json())
    assert compare(both, both, ARM).temperature == 0.2
    assert compare(both, warm, ARM).temperature == 1.0
    assert compare(warm, both, ARM).measures == compare(warm, both, ARM, 1.0).measures
    cold = small_run(tmp_path / "cold", [0, 1])
    with pytest.raises(UserError, match=r"no temperature has both arm 'final/team' of .*warm and arm 'final/team' of"):
        compare(warm, cold, ARM)


def test_clear_errors(tmp_path: Path) -> None:
    first = small_run(tmp_path / "a", [0, 1])
    with pytest.raises(UserError, match=r"has no results of arm 'sft/team' at temperature .*; it has final/team at"):
        compare(first, first, "sft/team", 0.2)
    with pytest.raises(UserError, match="is no run: cannot read"):
        compare(first, tmp_path / "nowhere", ARM, 0.2)
    lost = small_run(tmp_path / "b", [0, 1], missing="server gone", verdict=None)
    with pytest.raises(UserError, match="lacks a result on one side"):
        compare(first, lost, ARM, 0.2)
    (first / "profile.json").write_text("{}")
    with pytest.raises(UserError, match=r"written by another version"):
        compare(first, lost, ARM, 0.2)


def test_pooled_seeds_are_the_mean_of_the_runs(tmp_path: Path) -> None:
    runs: list[Path] = []
    for seed in range(3):
        run = tmp_path / str(seed)
        make_run(run, problems=40, temperatures=(0.2,), seed=seed)
        (run / "profile.json").write_text(make_profile(temperatures=[0.2], seed=seed).model_dump_json())
        runs.append(run)
    figures = pool(runs)
    found = {(one.comparison.name, one.measure, one.kind): one.pooled for one in figures}
    for name, system, baseline in (("total", "final/team", "sft/team"), ("final", "final/team", "final/alone")):
        pooled = found[name, "pass@1", "difference"]
        single = [compare(run, run, baseline, 0.2, arm_b=system).measures["pass@1"] for run in runs]
        assert pooled.per_seed == pytest.approx([one.difference.interval.value for one in single])
        assert pooled.interval.value == pytest.approx(np.mean(pooled.per_seed))
        assert pooled.interval.excludes_zero
    relative = found["final", "pass@1", "cg"]
    alone = [compare(run, run, "final/alone", 0.2).measures["pass@1"].first for run in runs]
    gains = found["final", "pass@1", "difference"].per_seed
    assert relative.per_seed == pytest.approx([gain / one for gain, one in zip(gains, alone, strict=True)])
    assert ("total", "pass@1", "cg") not in found
    assert set(RATES) >= {arm for one in figures for arm in (one.comparison.system, one.comparison.baseline)}


def test_runs_on_the_same_problems_are_no_wider_sample_of_problems(tmp_path: Path) -> None:
    """The same run twice says as much as once: its interval stays. With other contents, the ids alone prove nothing."""
    make_run(tmp_path / "a", problems=30, temperatures=(0.2,))
    (tmp_path / "a" / "profile.json").write_text(make_profile(temperatures=[0.2]).model_dump_json())
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.copytree(tmp_path / "a", tmp_path / "c")
    others = [one.model_copy(update={"statement": f"Other {one.id}"}) for one in make_problems(30)]
    write_problems(tmp_path / "c" / "problems" / "test.jsonl", others)

    def width(*runs: str) -> float:
        found = next(one for one in pool([tmp_path / run for run in runs]) if one.comparison.name == "total")
        low, high = found.pooled.interval.low, found.pooled.interval.high
        assert low is not None
        assert high is not None
        return high - low

    assert width("a", "b") == pytest.approx(width("a"))
    assert width("a", "c") < 0.85 * width("a")


def test_runs_with_different_sample_counts_are_not_pooled(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="different numbers of samples"):
        pool([small_run(tmp_path / "a", [0, 1], n=1), small_run(tmp_path / "b", [0, 1], n=2)])


def test_the_command_shows_both_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    small_run(tmp_path / "runs" / "one", [0, 1, 2, 2])
    second = small_run(tmp_path / "elsewhere", [2, 2, 2, 1])
    command([Path("one"), second])
    shown = capsys.readouterr().out
    assert "elsewhere final/team − one final/team, temperature 0.2, 4 problems" in shown
    assert "pass@1    62.5      87.5       +25.0" in shown
    assert "2 problems better, 1 worse" in shown
    assert "dials/00000: 0 % -> 100 % of the samples right" in shown

    once = small_run(tmp_path / "once", [0, 0, 0, 1], n=1)
    command([once, small_run(tmp_path / "better", [1, 1, 1, 1], n=1)])
    assert "exact McNemar p-value of pass@1: 0.2500" in capsys.readouterr().out
    command([once, once])
    assert "0 problems better, 0 worse\n" in capsys.readouterr().out

    make_run(tmp_path / "runs" / "seed", problems=20, temperatures=(0.2,))
    (tmp_path / "runs" / "seed" / "profile.json").write_text(make_profile(temperatures=[0.2]).model_dump_json())
    command([Path("seed")], pool=True)
    shown = capsys.readouterr().out
    assert "CG final" in shown
    assert "planner_phase" in shown
    assert "note:" not in shown
    make_run(tmp_path / "other", problems=20, temperatures=(0.2,))
    profile = make_profile(temperatures=[0.2], seed=8, rounds=2, description="other words")
    (tmp_path / "other" / "profile.json").write_text(profile.model_dump_json())
    command([Path("seed"), tmp_path / "other"], pool=True)
    assert "note: these runs differ in more than their seed: rounds\n" in capsys.readouterr().out
    with pytest.raises(UserError, match="two runs, got 1"):
        command([Path("seed")])
