"""``corecode evaluate``: arms on problems without a training run, also after a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corecode.config import Profile
from corecode.errors import UserError
from corecode.evaluation.rows import NOT_REPEATABLE
from corecode.problems import read_problems, write_problems
from corecode.stored import TeamDescription
from pipelines.evaluation import Request, open_source, run_evaluation
from sandbox import SandboxUnavailable, open_sandbox

ROOT = Path(__file__).parents[2]
TINY: dict[str, Any] = {
    "name": "tiny",
    "description": "test",
    "hardware": "any",
    "expected_minutes": 1,
    "prompts": "compact",
    "dataset": {"name": "dials", "sft": 16, "rl": 4, "validation": 2, "test": 6},
    "model": {"scratch": {"width": 16, "layers": 1, "heads": 2, "vocabulary": 300}},
    "sft": {"batch_size": 8, "warmup_steps": 1},
    "planner_grpo": {"steps": 0},
    "coder_grpo": {"steps": 0},
    "sandbox": {"cost": "steps"},
    "evaluation": {"samples": 2, "max_thought_tokens": 12, "max_program_tokens": 12, "chunk": 1, "bootstrap": 1000},
    "execution": {"parallel": 1},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, missing_requirement: Callable[[str], None]) -> Path:
    """A home with one run that has been warmed up."""
    from corecode.stages import make_problems, sft_jobs
    from corecode.training.job import run_job

    try:
        open_sandbox(workers=1).close()
    except SandboxUnavailable as error:
        missing_requirement(f"no sandbox: {error}")
    home = tmp_path_factory.mktemp("home")
    run, profile = home / "runs" / "first", Profile.model_validate(TINY)
    make_problems(profile, run)
    (run / "profile.json").write_text(profile.model_dump_json())
    for job in sft_jobs(profile, run):
        run_job(job.write())
    return home


@pytest.fixture
def home(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own with that run."""
    own = Path(shutil.copytree(trained, tmp_path / "home"))
    monkeypatch.setenv("CORECODE_HOME", str(own))
    return own


COMMAND = ["evaluate", "--run", "first", "--arm", "sft/alone", "--arm", "sft/team", "--arm", "sft/scot"]


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home), "PYTHONPATH": str(ROOT)},
    )


def finished(process: subprocess.Popen[str]) -> Path:
    """The path that a command which ended well has printed last."""
    out, err = process.communicate(timeout=580)
    assert process.returncode == 0, err
    return Path(out.splitlines()[-1])


def rows(summary: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of each file without what is measured."""
    folder = summary.parent.parent / "evaluation"
    return {
        path.relative_to(folder).as_posix(): [
            {name: value for name, value in json.loads(line).items() if name not in NOT_REPEATABLE}
            for line in path.read_text(encoding="utf-8").split("\n")
            if line
        ]
        for path in sorted(folder.glob("*/T*.jsonl"))
    }


@pytest.mark.slow
def test_a_killed_evaluation_ends_with_the_same_report(home: Path, trained: Path, tmp_path: Path) -> None:
    undisturbed = finished(start(Path(shutil.copytree(trained, tmp_path / "other")), "--temperature", "1"))
    for records in (1, 4, 9):  # in the first, second and third arm
        process = start(home, "--temperature", "1")
        while process.poll() is None:
            kept = home.glob("runs/tiny-eval-*/evaluation/*/unfinished/*.rows.jsonl")
            done = 6 * len(list(home.glob("runs/tiny-eval-*/evaluation/*/result.json")))
            if done + sum(max(0, path.read_text().count("\n") - 1) for path in kept) >= records:
                process.send_signal(signal.SIGKILL)
                process.wait()
                break
            time.sleep(0.02)
        assert process.returncode == -signal.SIGKILL
    summary = finished(start(home, "--temperature", "1"))
    assert [path.name for path in (home / "runs").glob("tiny-eval-*")] == [summary.parent.parent.name]
    assert rows(summary) == rows(undisturbed)
    assert len(rows(summary)["sft__scot/T1.jsonl"]) == 12
    metrics = [path.with_name("metrics.json").read_bytes() for path in (summary, undisturbed)]
    assert metrics[0] == metrics[1]
    found = json.loads(summary.read_text(encoding="utf-8"))
    assert list(found["arms"]) == ["sft/alone", "sft/team", "sft/scot"]
    assert set(found["gains"]) == {"sft/scot"}
    assert "sft" in found["collaboration_gain"]
    assert not list(home.glob("runs/tiny-eval-*/evaluation/*/unfinished"))


@pytest.mark.slow
def test_finished_arms_serve_other_evaluations(home: Path) -> None:
    request = Request(("sft/alone",), run="first", limit=2, overrides=("evaluation.temperatures=[1.0]",))
    first = run_evaluation(request)
    assert run_evaluation(request) == first
    second = run_evaluation(Request(("sft/alone", "sft/team"), run="first", limit=2, overrides=request.overrides))
    assert second != first
    result = json.loads((second.parent.parent / "evaluation" / "sft__alone" / "result.json").read_text())
    assert result["reused_from"] == first.parent.parent.name
    assert rows(second)["sft__alone/T1.jsonl"] == rows(first)["sft__alone/T1.jsonl"]


def test_other_weights_of_the_same_name_are_another_evaluation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is found again by what the weights are, not by where they lie."""
    monkeypatch.setattr("pipelines.evaluation._launch", lambda *_: None)
    monkeypatch.setattr("corecode.evaluation.build_report", lambda _, folder, *__: folder)
    request = Request(("sft/team",), run="first")
    first = run_evaluation(request)
    assert run_evaluation(request) == first
    (home / "runs" / "first").rename(home / "runs" / "moved")
    assert run_evaluation(Request(("sft/team",), run="moved")) == first
    (home / "runs" / "moved" / "sft_warmup" / "coder" / "model" / "model.safetensors").write_bytes(b"others")
    assert run_evaluation(Request(("sft/team",), run="moved")) != first


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (Request(("sft/alone",)), "give exactly one of --run, --model and --profile"),
        (Request(("sft/alone",), run="first", profile="smoke"), "give exactly one of --run, --model and --profile"),
        (Request(("sft/alone",), run="nowhere"), "--run nowhere: there is no run of this name"),
        (Request(("sft/duo",), run="first"), "unknown arm 'sft/duo'; known arms: .* such as base/cot"),
        (Request(("sft/alone",), profile="smollm2"), "arm sft/alone needs the weights sft_warmup/coder, which smollm2"),
        (Request(("base/cot",), profile="smoke"), "a model made from nothing belongs to a run"),
        (Request(("base/cot",), run="first", overrides=("seed=3",)), "follow from the run's seed 0"),
        (Request(("sft/alone",), run="first", overrides=("evaluation.sample=3",)), "did you mean 'evaluation.samples'"),
        (Request(("sft/alone",), run="first", benchmark="nothing"), "no file, folder or benchmark 'nothing'"),
        (Request(("final/team",), model="nowhere"), "nowhere holds no team.json"),
    ],
)
def test_what_cannot_be_met_is_said_before_anything_is_written(home: Path, request_: Request, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        run_evaluation(request_)
    assert [path.name for path in (home / "runs").iterdir()] == ["first"]


def test_a_source_that_is_damaged_is_named(tmp_path: Path) -> None:
    for name in ("profile.json", "team.json"):
        (tmp_path / name).write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"profile\.json was written by another version"):
        open_source(Request(("sft/alone",), run=str(tmp_path)))
    with pytest.raises(UserError, match=r"team\.json describes no team"):
        open_source(Request(("sft/alone",), model=str(tmp_path)))


def test_problems_of_the_training_are_left_out(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = read_problems(home / "runs" / "first" / "problems" / "sft.jsonl")[:3]
    known = tmp_path / "known.jsonl"
    write_problems(known, seen)
    with pytest.raises(UserError, match="was trained on each of its problems"):
        run_evaluation(Request(("sft/alone",), run="first", benchmark=str(known)))
    other = [problem.model_copy(update={"id": f"other-{problem.id}"}) for problem in seen]
    write_problems(known, other)
    with pytest.raises(UserError, match="was trained on each of its problems"):
        run_evaluation(Request(("sft/alone",), run="first", benchmark=str(known)))


def test_a_team_in_a_folder_is_a_source(home: Path, tmp_path: Path) -> None:
    team = tmp_path / "team"
    for role in ("planner", "coder"):
        shutil.copytree(home / "runs" / "first" / "sft_warmup" / role / "model", team / role)
    description = TeamDescription(
        run="first",
        roles=("planner", "coder"),
        prompts="compact",
        sampling={},
        evaluation={},
        profile=TINY | {"seed": 0},
    )
    (team / "team.json").write_text(description.model_dump_json(by_alias=True))
    source = open_source(Request(("final/team",), model=str(team)))
    assert source.model("planner_grpo") == team / "planner"
    assert source.model("coder_grpo") == team / "coder"
    assert source.model("sft_warmup/coder") is None
    assert source.profile.evaluation.arms == ["final/team"]
    assert source.problems("test")[0].id == "dials-test-00000"
