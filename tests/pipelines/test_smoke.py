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


def corecode(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home)},
        timeout=400,
    )


@pytest.fixture(scope="module")
def home(new_home: Callable[[str], Path]) -> Path:
    return new_home("smoke")


@pytest.fixture(scope="module")
def summary(home: Path) -> Path:
    """``summary.json`` of one run."""
    ended = corecode(home, "run", "smoke", "--seed", "1")
    assert ended.returncode == 0, ended.stderr
    return Path(ended.stdout.splitlines()[-1])


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
    first = corecode(home, "solve", "--problem", str(problem))
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("Thought\n")
    assert "\nProgram\n" in first.stdout
    model = str(summary.parent.parent / "champion")
    assert corecode(home, "solve", "--problem", str(problem), "--model", model).stdout == first.stdout


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(home: Path, summary: Path) -> None:
    ended = corecode(home, "run", "smoke", "--seed", "1")
    assert ended.returncode == 0, ended.stderr
    again = Path(ended.stdout.splitlines()[-1])
    assert again != summary
    assert again.with_name("metrics.json").read_bytes() == summary.with_name("metrics.json").read_bytes()
    digests = [json.loads(path.read_text(encoding="utf-8"))["digests"]["metrics"] for path in (summary, again)]
    assert digests[0] == digests[1]
