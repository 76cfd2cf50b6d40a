"""The check of a GPU: what it would train, and what it says where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coin
import pytest

from benchmarks.gpu_check import settings
from corecode.config import Profile
from pipelines.memory import need, parameters

ROOT = Path(__file__).parents[2]


def test_without_a_gpu_it_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_check", "--output", str(tmp_path / "figures.json")],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1].startswith("error: torch can use no GPU here; run make gpu-check on a machine")
    assert not (tmp_path / "figures.json").exists()


def test_it_trains_some_hundred_million_parameters_on_one_rank() -> None:
    real, rehearsal = (Profile.model_validate(settings(rehearse)) for rehearse in (False, True))
    count = parameters(real.model, None)
    assert count is not None
    assert 300e6 < count < 400e6
    assert need(real, count).fits(16 * 1024**3)
    for profile in (real, rehearsal):
        assert (profile.execution.engine, profile.execution.ranks, profile.execution.zero_stage) == ("deepspeed", 1, 3)
        assert profile.coder_grpo.checkpoint_every == 1
    assert (real.execution.device, real.model.dtype) == ("cuda", "bfloat16")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_rehearsal_runs_every_phase_and_resumes_the_killed_one(
    tmp_path: Path, missing_requirement: Callable[[str], None]
) -> None:
    coin.need_sandbox(missing_requirement)
    output = tmp_path / "figures.json"
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_check", "--rehearse", "--output", str(output)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(output.read_text(encoding="utf-8"))
    assert figures["device"] == "cpu (rehearsal)"
    assert list(figures["phases"]) == ["sft_warmup/planner", "sft_warmup/coder", "planner_grpo", "coder_grpo"]
    assert figures["phases"]["coder_grpo"]["continued_from_checkpoint"]
    for name in ("planner_grpo", "coder_grpo"):
        phase = figures["phases"][name]
        assert phase["finite"]
        assert phase["infrastructure_lost"] == 0
        assert phase["sampled_tokens_a_second"] > 0
        assert {"sampling", "partner", "sandbox", "update", "step"} <= set(phase["seconds_a_step"])
