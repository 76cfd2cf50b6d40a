"""Every ablation of docs/evaluation.md is one line that changes what it says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from corecode.config import Profile
from corecode.rewards import Outcome, helper_rewards, program_rewards
from corecode.stages import evaluation_jobs
from pipelines.profiles import load_profile

TEXT = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
LINES = dict(re.findall(r"^\| (.+) \| `--set (.+)` \|$", TEXT, re.MULTILINE))
FULL = load_profile("quickstart-full")


def ablated(name: str) -> Profile:
    return load_profile("quickstart-full", [LINES[name]])


def changed(name: str) -> list[str]:
    """Dotted names of the fields that differ from the full profile."""

    def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in values.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        return found

    before, after = flat(FULL.model_dump()), flat(ablated(name).model_dump())
    return [key for key in before if before[key] != after.get(key)]


@pytest.mark.parametrize("name", LINES)
def test_each_line_changes_one_field(name: str) -> None:
    assert changed(name) == [LINES[name].split("=")[0]]


def passing(ratio: float, cost: float = 1.0, memory: float = 10.0) -> Outcome:
    return Outcome(ratio, ratio == 1.0, cost, memory, True)


def planner(profile: Profile) -> list[float | None]:
    """Rewards of two thoughts: a fast one whose second program passes 60 %, and a slow one."""
    outcomes = [[passing(1.0, 1.0), passing(0.6)], [passing(1.0, 3.0), passing(1.0, 3.0)]]
    return [reward.total for reward in helper_rewards(outcomes, [False, False], profile.rewards)]


def coder(profile: Profile) -> list[float | None]:
    outcomes = [passing(1.0, memory=10.0), passing(1.0, memory=20.0), passing(0.6)]
    return [reward.total for reward in program_rewards(outcomes, [False] * 3, profile.rewards)]


def test_terms_and_aggregators() -> None:
    assert planner(ablated("without the time term")) == pytest.approx([0.838136, 1.0], abs=1e-6)
    assert coder(ablated("without the time term")) == coder(FULL)
    assert coder(ablated("without the space term")) == [1.0, 1.0, 0.6]
    assert planner(ablated("without the space term")) == planner(FULL)
    mean = ablated("plain mean over a thought's programs").rewards.model_copy(update={"time_weight": 0.0})
    assert [r.total for r in helper_rewards([[passing(1.0), passing(0.6)]], [False], mean)] == pytest.approx([0.8])
    assert planner(ablated("accuracy alone, in both phases")) == pytest.approx([0.8, 1.0])
    assert coder(ablated("accuracy alone, in both phases")) == [1.0, 1.0, 0.6]
    low = [[passing(1.0), passing(0.4)]]
    means = [
        helper_rewards(low, [False], profile.rewards.model_copy(update={"time_weight": 0.0}))[0].total
        for profile in (FULL, ablated("programs that pass less than half hardly count"))
    ]
    assert means == pytest.approx([0.812194, 0.913682], abs=1e-6)


def test_without_a_phase_the_team_keeps_what_it_had(tmp_path: Path) -> None:
    def final(name: str) -> dict[str, str]:
        return next(job.spec["weights"] for job in evaluation_jobs(ablated(name), tmp_path) if job.spec["arm"] == ARM)

    ARM = "final/team"
    assert final("without Planner RL") == {"planner": "sft_warmup/planner", "coder": "coder_grpo"}
    assert final("without Coder RL") == {"planner": "planner_grpo", "coder": "sft_warmup/coder"}
    assert final("N, thoughts of a group") == {"planner": "planner_grpo", "coder": "coder_grpo"}
