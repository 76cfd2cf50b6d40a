"""A job that is killed continues from its last complete checkpoint, and ends with the bytes of an undisturbed one."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tiny import need_sandbox, problem

from corecode.config import Profile
from corecode.problems import write_problems
from corecode.stages import Job, grpo_job, sft_jobs
from corecode.training.records import METRICS, SAMPLES
from corecode.training.weights import learn_tokenizer
from pipelines.launchers import local
from pipelines.launchers.local import Engine, LocalLauncher, job_environment

ROOT = Path(__file__).parents[2]
SAMPLING = {"max_tokens": 40}
FILES = ("model.safetensors", "optimizer.pt")
PROFILE: dict[str, Any] = {
    "name": "tiny",
    "description": "test",
    "hardware": "any",
    "expected_minutes": 1,
    "prompts": "compact",
    "dataset": {"name": "file", "path": "data"},
    "model": {"scratch": {"width": 32, "layers": 1, "heads": 2, "vocabulary": 320}},
    "sft": {"batch_size": 8, "epochs": 10, "learning_rate": 1e-2, "warmup_steps": 2, "checkpoint_every": 7},
    "planner_grpo": {
        "steps": 36,
        "prompts_per_step": 2,
        "group_size": 4,
        "learning_rate": 1e-3,
        "beta": 0.0,
        "sampling": SAMPLING,
        "partner_sampling": SAMPLING,
        "validate_every": 4,
        "checkpoint_every": 2,
    },
    "rewards": {"format_weight": 0.2},
    "sandbox": {"cost": "steps"},
}


class Zygote:
    """Runs job programs in fresh processes, see ``zygote.py``."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )

    def start(self, job: Job, limit: int | None = None) -> int:
        """Start a job and return its pid."""
        assert self.process.stdin is not None
        command = {"job": str(job.write()), "log": str(job.folder / "job.log"), "limit": limit}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def wait(self) -> int:
        """The exit code of the job; -n when signal n killed it."""
        return self._answer()

    def run(self, job: Job, limit: int | None = None) -> int:
        self.start(job, limit)
        return self.wait()

    def _answer(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    need_sandbox()
    opened = Zygote()
    yield opened
    assert opened.process.stdin is not None
    opened.process.stdin.close()
    opened.process.wait()


@pytest.fixture(scope="module")
def warmed(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Path:
    """A run with problems, a tokenizer and both warm-ups, undisturbed."""
    run = tmp_path_factory.mktemp("warmed")
    profile = Profile.model_validate(PROFILE)
    problems = [problem(i, str(i % 5)) for i in range(80)]
    write_problems(run / "problems" / "sft.jsonl", problems[:64])
    write_problems(run / "problems" / "rl.jsonl", problems[64:71])
    write_problems(run / "problems" / "validation.jsonl", problems[71:76])
    learn_tokenizer(profile, problems, run)
    for job in sft_jobs(profile, run):
        assert zygote.run(job) == 0, (job.folder / "job.log").read_text()
    return run


def phase(run: Path, **changes: Any) -> Job:
    job = grpo_job(Profile.model_validate({**PROFILE, **changes}), run, "planner")
    assert job is not None
    return job


def outcome(job: Job) -> dict[str, Any]:
    """Everything that must repeat."""
    lines = [json.loads(line) for line in (job.folder / METRICS).read_text().splitlines()]
    best = job.folder / "checkpoints" / "best"
    return {
        "metrics": [{k: v for k, v in line.items() if k != "seconds"} for line in lines],
        "samples": (job.folder / SAMPLES).read_text() if (job.folder / SAMPLES).is_file() else None,
        "result": (job.folder / "result.json").read_bytes(),
        "model": (job.folder / "model" / "model.safetensors").read_bytes(),
        "best": {path.name: path.read_bytes() for path in best.rglob("*.safetensors")},
        "of best": (best / "validation.json").read_text() if best.is_dir() else None,
        "folders": sorted(path.name for path in (job.folder / "checkpoints").iterdir()),
    }


def count(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def newest(job: Job) -> int:
    """The step of the newest checkpoint; 0 without one."""
    return max(steps_kept(job), default=0)


def steps_kept(job: Job) -> list[int]:
    return sorted(int(path.name[5:]) for path in (job.folder / "checkpoints").glob("step-*") if path.suffix == "")


def killed(zygote: Zygote, job: Job, rng: random.Random, times: int) -> list[int]:
    """Kill a job at random moments and run it to its end; return the step that each start found."""
    found: list[int] = []
    metrics = job.folder / METRICS
    while len(found) < times:
        start = newest(job)
        before = metrics.stat().st_ino if metrics.is_file() else 0
        pid = zygote.start(job)
        wanted = rng.randrange(9)
        if wanted:  # lines after the start, which replaces the file; the other kills come before
            wait_for_lines(metrics, before, wanted)
        time.sleep(rng.random() * 0.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        code = zygote.wait()
        if code == 0:  # it was faster: once more from the beginning
            shutil.rmtree(job.folder)
            continue
        assert code == -signal.SIGKILL, (job.folder / "job.log").read_text()
        found.append(start)
    found.append(newest(job))
    assert zygote.run(job) == 0, (job.folder / "job.log").read_text()
    return found


def wait_for_lines(metrics: Path, before: int, wanted: int) -> None:
    """Wait until the file is another than ``before`` (inode) and then for more lines."""
    wait_for(lambda: metrics.is_file() and metrics.stat().st_ino != before)
    first = count(metrics)
    wait_for(lambda: count(metrics) >= first + wanted or metrics.with_name("result.json").is_file())


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_warm_up_killed_ten_times_ends_with_the_same_bytes(zygote: Zygote, warmed: Path, tmp_path: Path) -> None:
    shutil.copytree(warmed, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("sft_warmup"))
    profile = Profile.model_validate(PROFILE)
    whole, job = sft_jobs(profile, warmed)[0], sft_jobs(profile, tmp_path)[0]
    found = killed(zygote, job, random.Random(1), 10)
    assert outcome(job) == outcome(whole)
    assert outcome(job)["folders"] == []
    assert found[0] == 0
    assert found[-1] > 0, "at least the last start continued"


@pytest.fixture(scope="module")
def whole(zygote: Zygote, warmed: Path) -> Job:
    """An undisturbed phase, which learns something."""
    job = phase(warmed)
    assert zygote.run(job) == 0, (job.folder / "job.log").read_text()
    lines = [json.loads(line)["metrics"] for line in (job.folder / METRICS).read_text().splitlines()]
    assert sum(line.get("policy/grad_norm", 0) > 0 for line in lines) > 5
    return job


def test_a_phase_killed_ten_times_ends_with_the_same_bytes(zygote: Zygote, whole: Job, tmp_path: Path) -> None:
    job = beside(whole, tmp_path)
    found = killed(zygote, job, random.Random(1), 10)
    assert outcome(job) == outcome(whole)
    assert outcome(job)["folders"] == ["best"]
    assert found[0] == 0
    assert len(set(found)) > 2, "starts continued from several checkpoints"


def beside(whole: Job, run: Path, **changes: Any) -> Job:
    """The same phase in another run folder, not yet started."""
    shutil.copytree(whole.folder.parent, run, dirs_exist_ok=True, ignore=shutil.ignore_patterns("planner_grpo"))
    return phase(run, **changes)


def test_a_full_disk_stops_with_one_sentence_and_loses_nothing(zygote: Zygote, whole: Job, tmp_path: Path) -> None:
    """No file may grow beyond a limit that the weights keep and the optimizer's state does not."""
    job = beside(whole, tmp_path)
    pid = zygote.start(job)
    wait_for(lambda: steps_kept(job) != [])
    os.kill(pid, signal.SIGKILL)
    zygote.wait()
    before = steps_kept(job)
    sizes = {name: (job.folder / "checkpoints" / f"step-{before[-1]}" / name).stat().st_size for name in FILES}
    assert sizes["model.safetensors"] < sizes["optimizer.pt"]
    assert zygote.run(job, limit=sum(sizes.values()) // 2) == 1
    said = [line for line in (job.folder / "job.log").read_text().splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert "cannot write the checkpoint" in said[0]
    assert f"step-{before[-1] + 2}" in said[0]
    assert "free some space" in said[0]
    assert steps_kept(job) == before
    assert zygote.run(job) == 0
    assert outcome(job) == outcome(whole)


def test_a_phase_that_looks_ahead_continues_too(zygote: Zygote, warmed: Path, tmp_path: Path) -> None:
    """The Coder's phase, where the Planner speaks for the next step early; killed in its second pass of three steps."""
    coder = {**PROFILE["planner_grpo"], "steps": 8, "checkpoint_every": 1}
    profile = Profile.model_validate({**PROFILE, "planner_grpo": {"steps": 0}, "coder_grpo": coder})
    jobs: list[Job] = []
    for name in ("whole", "killed"):
        shutil.copytree(warmed, tmp_path / name, ignore=shutil.ignore_patterns("planner_grpo"))
        job = grpo_job(profile, tmp_path / name, "coder")
        assert job is not None
        jobs.append(job)
    assert zygote.run(jobs[0]) == 0, (jobs[0].folder / "job.log").read_text()
    pid = zygote.start(jobs[1])
    wait_for(lambda: newest(jobs[1]) >= 4)
    os.kill(pid, signal.SIGKILL)
    assert zygote.wait() == -signal.SIGKILL
    assert zygote.run(jobs[1]) == 0, (jobs[1].folder / "job.log").read_text()
    assert "continues after step" in (jobs[1].folder / "job.log").read_text()
    assert outcome(jobs[1]) == outcome(jobs[0])


def test_adapters_and_a_reference_policy_continue_too(zygote: Zygote, whole: Job, tmp_path: Path) -> None:
    short = {**PROFILE["planner_grpo"], "steps": 7, "beta": 0.05}
    changes = {"model": {**PROFILE["model"], "lora": {"rank": 4}}, "planner_grpo": short}
    jobs = [beside(whole, tmp_path / name, **changes) for name in ("whole", "killed")]
    assert zygote.run(jobs[0]) == 0, (jobs[0].folder / "job.log").read_text()
    pid = zygote.start(jobs[1])
    wait_for(lambda: steps_kept(jobs[1]) != [])
    os.kill(pid, signal.SIGKILL)
    assert zygote.wait() == -signal.SIGKILL
    assert zygote.run(jobs[1]) == 0, (jobs[1].folder / "job.log").read_text()
    assert outcome(jobs[1]) == outcome(jobs[0])
    assert "policy/kl" in json.dumps(outcome(jobs[1])["metrics"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("ranks", "stage"), [(1, 2), (2, 3)])
def test_sharded_training_continues_to_the_same_bytes(
    whole: Job, tmp_path: Path, ranks: int, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "POLL_S", 0.01)  # a tiny model's steps are so short that the job would end unwatched
    short = {**PROFILE["planner_grpo"], "steps": 16}
    execution = {"engine": "deepspeed", "ranks": ranks, "zero_stage": stage}
    environment = job_environment(1, "cpu", offline=True)
    launcher = LocalLauncher(environment=environment, engine=Engine("deepspeed", ranks))
    jobs = [beside(whole, tmp_path / name, planner_grpo=short, execution=execution) for name in ("whole", "killed")]

    def kill_at_three(_job: Any, line: Mapping[str, Any]) -> None:
        if line["step"] == 3:
            raise InterruptedError

    launcher.run(jobs[:1], 1, lambda job, line: None)
    with pytest.raises(InterruptedError):
        launcher.run(jobs[1:], 1, kill_at_three)
    assert steps_kept(jobs[1])
    launcher.run(jobs[1:], 1, lambda job, line: None)
    assert outcome(jobs[1]) == outcome(jobs[0])
