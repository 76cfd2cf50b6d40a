"""The real chain with the profile ``smoke``: every stage trains, judges and reports; and the champion answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assets import STAGES

ROOT = Path(__file__).parents[2]
Later = tuple[subprocess.Popen[str], subprocess.Popen[str]]


def corecode(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home)},
    )


def output(process: subprocess.Popen[str]) -> str:
    """What a command that ended well has printed."""
    out, err = process.communicate(timeout=580)
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def home(new_home: Callable[[str], Path]) -> Path:
    return new_home("smoke")


@pytest.fixture(scope="module")
def summary(home: Path) -> Path:
    """``summary.json`` of a run."""
    return Path(output(corecode(home, "run", "smoke", "--seed", "1", "--force")).splitlines()[-1])


@pytest.fixture(scope="module")
def later(home: Path, summary: Path) -> Later:
    """Two more runs in the same home, at the same time: the first one repeated, and one with a changed field."""
    name = summary.parent.parent.name
    changed = ("run", "smoke", "--seed", "1", "--set", "coder_grpo.learning_rate=3e-4")
    return corecode(home, "rerun", name, "--force"), corecode(home, *changed)


@pytest.mark.slow
def test_the_real_chain_leaves_everything_behind(summary: Path) -> None:
    found = json.loads(summary.read_text(encoding="utf-8"))
    run = summary.parent.parent
    assert list(found["arms"]) == ["sft/alone", "sft/team", "final/alone", "final/team"]
    assert found["problems"]["evaluated"] == 12
    assert list(json.loads((run / "stages.json").read_text(encoding="utf-8"))) == list(STAGES)
    for folder in ("sft_warmup/planner", "sft_warmup/coder", "planner_grpo", "coder_grpo"):
        assert (run / folder / "model" / "model.safetensors").is_file()
        assert (run / folder / "result.json").is_file()
    assert (summary.parent / "report.html").stat().st_size > 10_000
    validation = [
        json.loads(line)["step"]
        for line in (run / "planner_grpo" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        if "validation/" in line
    ]
    assert validation == [0, 1, 2]


@pytest.mark.slow
def test_the_champion_answers(home: Path, summary: Path, tmp_path: Path) -> None:
    problem = tmp_path / "problem.txt"
    problem.write_text("Read a number and print it.", encoding="utf-8")
    models = ["champion", str(summary.parent.parent / "champion")]
    answers = [output(corecode(home, "solve", "--problem", str(problem), "--model", model)) for model in models]
    assert answers[0].startswith("Thought\n")
    assert "\nProgram\n" in answers[0]
    assert answers[0] == answers[1]


@pytest.mark.slow
def test_a_run_is_repeated_from_its_record_with_the_same_bytes(summary: Path, later: Later) -> None:
    name = summary.parent.parent.name
    process, _ = later
    out, err = process.communicate(timeout=580)
    assert process.returncode == 0, err
    digest = json.loads(summary.read_text(encoding="utf-8"))["digests"]["metrics"]
    assert f"same digest as {name}: {digest}" in err
    assert "reused" not in err
    assert Path(out.splitlines()[-1]).with_name("metrics.json").read_bytes() == (
        summary.with_name("metrics.json").read_bytes()
    )


@pytest.mark.slow
def test_one_changed_field_trains_what_depends_on_it(later: Later) -> None:
    _, process = later
    out, err = process.communicate(timeout=580)
    assert process.returncode == 0, err
    run = Path(out.splitlines()[-1]).parent.parent
    stages = json.loads((run / "stages.json").read_text(encoding="utf-8"))
    assert set(stages["sft_warmup"]["reused"]) == {"sft_warmup/planner", "sft_warmup/coder"}
    assert set(stages["planner_grpo"]["reused"]) == {"planner_grpo"}
    assert "reused" not in stages["coder_grpo"]
    assert set(stages["evaluation"]["reused"]) == {"evaluate sft/alone", "evaluate sft/team"}
