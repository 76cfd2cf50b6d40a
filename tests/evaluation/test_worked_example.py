"""The ten problems of docs/method.md: every number there is what the code computes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic import make_profile, row, write_rows

from corecode.config import RewardConfig
from corecode.evaluation import build_report
from corecode.evaluation.collaboration import CG_PAIRS, pair
from corecode.evaluation.metrics import pass_at_k
from corecode.evaluation.report.cases import planning_effect
from corecode.evaluation.rows import load_samples
from corecode.evaluation.statistics import detectable_difference, mcnemar_exact
from corecode.problems import Problem, Test, write_problems
from corecode.rewards import Outcome, helper_rewards, program_rewards

DOC = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")
ARMS = ("final/alone", "final/team")


def table(heading: str) -> list[list[str]]:
    """Rows of the table of the page whose first heading cells are these."""
    lines = DOC[DOC.index(heading) :].splitlines()[2:]
    rows: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            return rows
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


PROBLEMS = table("| problem | tests | Coder alone | with its Planner |")


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = tmp_path_factory.mktemp("example")
    problems = [
        Problem(id=name, statement=name, tests=[Test(input="", output="")] * int(tests))
        for name, tests, _, _ in PROBLEMS
    ]
    write_problems(run / "problems" / "test.jsonl", problems)
    rows = [
        row(name, arm, 0.2, s, int(passed))
        | {"total": int(tests), "verdict": "accepted" if passed == tests else "wrong_answer"}
        for name, tests, *arms in PROBLEMS
        for arm, samples in zip(ARMS, arms, strict=True)
        for s, passed in enumerate(samples.split())
    ]
    write_rows(run, rows)
    path = build_report(make_profile(arms=ARMS, temperatures=[0.2]), run, {}, {})
    return {**json.loads(path.read_text(encoding="utf-8")), "run": run}


def test_the_example_has_ten_problems_of_five_samples() -> None:
    assert len(PROBLEMS) == 10
    assert all(len(samples.split()) == 5 for _, _, *arms in PROBLEMS for samples in arms)


def test_results_of_the_report_are_those_of_the_page(summary: dict[str, Any]) -> None:
    gains = summary["collaboration_gain"]["final"]["temperatures"]["0.2"]
    scores = [summary["arms"][arm]["temperatures"]["0.2"] for arm in ARMS]
    checked: list[str] = []
    for name, alone, team, absolute, relative in table("| result | Coder alone | team | CG_abs | CG |"):
        checked.append(name)
        if name == "apr_micro":
            assert [score["apr_micro"] for score in scores] == pytest.approx([float(alone), float(team)], abs=1e-6)
            continue
        figures = gains[name]
        found = [figures["alone"], figures["team"], figures["cg_abs"]["value"], figures["cg"]["value"]]
        assert found == pytest.approx([float(alone), float(team), float(absolute), float(relative)], abs=1e-6)
        in_arms = [s["apr"] if name == "apr" else s["pass@k"][name.removeprefix("pass@")] for s in scores]
        assert [one["value"] for one in in_arms] == pytest.approx([float(alone), float(team)], abs=1e-6)
    assert checked == ["pass@1", "pass@5", "apr", "apr_micro"]
    assert gains["problems"] == 10


def test_sentences_of_the_page(summary: dict[str, Any]) -> None:
    right = [
        [sum(x == tests for x in samples.split()) for _, tests, *arms in PROBLEMS for samples in [arms[side]]]
        for side in (0, 1)
    ]
    assert " + ".join(map(str, right[0])) + " = 16 of 50" in DOC
    assert " + ".join(map(str, right[1])) + " = 30 of 50" in DOC
    assert right[0][3] == 2
    assert pass_at_k(5, 2, 2) == pytest.approx(0.7)
    assert "= 0.7$" in DOC

    difference = (np.array(right[1]) - np.array(right[0])) / 5
    assert detectable_difference(difference) == pytest.approx(0.419, abs=5e-4)
    gain = summary["collaboration_gain"]["final"]["temperatures"]["0.2"]["pass@1"]["cg_abs"]
    assert gain["detectable"] == pytest.approx(0.419, abs=5e-4)
    assert "= 0.419:" in DOC

    first = [np.array([arms[side].split()[0] == tests for _, tests, *arms in PROBLEMS]) for side in (0, 1)]
    assert mcnemar_exact(first[1], first[0]) == pytest.approx(0.375)
    assert "/ 2^5 = 0.375$" in DOC


def test_helped_and_hurt(summary: dict[str, Any]) -> None:
    samples = load_samples(summary["run"], 5)
    paired = pair(samples, next(one for one in CG_PAIRS if one.name == "final"), 0.2)
    assert paired is not None
    effect = planning_effect(paired, {}, seed=0)
    named = re.search(r"helped on (.*), hurt on (p\d\d),", DOC)
    assert named is not None
    helped = sorted(case.problem_id for case in effect.cases if case.effect == "helped")
    assert helped == re.findall(r"p\d\d", named[1])
    assert [case.problem_id for case in effect.cases if case.effect == "hurt"] == [named[2]]
    assert (effect.helped, effect.hurt, effect.equal) == (5, 1, 4)


def test_rewards_of_thoughts() -> None:
    rows = table("| thought | pass ratios | steps | accuracy | time | reward |")
    outcomes = [
        [Outcome(float(p), p == "1.0", float(c), 1.0, True) for p, c in zip(ps.split(), costs.split(), strict=True)]
        for _, ps, costs, *_ in rows
    ]
    rewards = helper_rewards(outcomes, [True, True], RewardConfig())
    for reward, (_, _, _, accuracy, time, total) in zip(rewards, rows, strict=True):
        assert reward.terms["accuracy"] == pytest.approx(float(accuracy), abs=1e-6)
        assert reward.terms["time"] == pytest.approx(float(time), abs=1e-6)
        assert reward.total == pytest.approx(float(total), abs=1e-6)


def test_rewards_of_programs() -> None:
    rows = table("| program | pass ratio | memory | space | reward |")
    outcomes = [Outcome(float(p), p == "1.0", 1.0, float(memory), True) for _, p, memory, _, _ in rows]
    rewards = program_rewards(outcomes, [True] * len(rows), RewardConfig())
    for reward, (_, _, _, space, total) in zip(rewards, rows, strict=True):
        assert reward.terms["space"] == pytest.approx(float(space))
        assert reward.total == pytest.approx(float(total))
