"""Training over DeepSpeed on CPU ranks, through the launcher: it computes what plain torch computes, and saves plain
folders. Losses of the first ten steps agree to a relative 1e-3: the same float32 terms in another order."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import coin
import pytest

from corecode.config import Profile
from corecode.errors import UserError
from corecode.stages import Job, grpo_job, make_problems, sft_jobs
from pipelines.launchers import LaunchableJob
from pipelines.launchers.local import Engine, LocalLauncher, job_environment
from pipelines.profiles import load_profile

TOLERANCE = 1e-3
MINUTES = pytest.mark.timeout(1200)


BUFFERS: set[str] = set()
"""Shared memory of the ranks that was there while they trained."""


def launch(settings: Profile, jobs: Sequence[Job | None]) -> None:
    engine = Engine("deepspeed", settings.execution.ranks)
    ports: list[str] = []

    def command(job: LaunchableJob, job_file: Path) -> list[str]:
        started = engine.command(job, job_file)
        ports.append(started[started.index("--master_port") + 1])
        return started

    launcher = LocalLauncher(environment=job_environment(1, "cpu", offline=True), engine=engine, command=command)

    def look(_job: LaunchableJob, _line: Mapping[str, Any]) -> None:
        BUFFERS.update(name for name in os.listdir("/dev/shm") if f"_{ports[-1]}_" in name)

    launcher.run([job for job in jobs if job is not None], 1, look)


def metrics(folder: Path) -> dict[tuple[int, str], float]:
    """Every logged value by step and name."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return {(line["step"], name): value for line in lines for name, value in line["metrics"].items()}


def losses_by_step(folder: Path) -> dict[int, float]:
    return {step: value for (step, name), value in metrics(folder).items() if name == "sft/loss"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, missing_requirement: Callable[[str], None]) -> Path:
    """Problems and a Coder from plain torch; then the Planner's warm-up and both phases on two ranks with ZeRO-3."""
    from corecode.training.job import run_job

    coin.need_sandbox(missing_requirement)
    folder = tmp_path_factory.mktemp("ranks")
    data = coin.write_problems(folder / "data")
    sharded = coin.profile(data, ranks=2, engine="deepspeed", zero_stage=3)
    make_problems(sharded, folder)
    run_job(sft_jobs(coin.profile(data), folder)[1].write())
    launch(sharded, sft_jobs(sharded, folder)[:1])
    for role in ("planner", "coder"):
        launch(sharded, [grpo_job(sharded, folder, role)])
    return folder


def test_no_shared_memory_is_left(run: Path) -> None:
    """DeepSpeed's ranks leave 64 MiB each in the machine's memory, however they end."""
    assert BUFFERS
    assert not BUFFERS & set(os.listdir("/dev/shm"))


def beside(run: Path, folder: Path, *shared: str) -> Path:
    """A run folder of its own with the same inputs."""
    folder.mkdir()
    for name in ("problems", "tokenizer", *shared):
        (folder / name).symlink_to(run / name)
    return folder


@MINUTES
@pytest.mark.slow
def test_zero3_on_two_ranks_warms_up_as_plain_torch_does(run: Path, tmp_path: Path) -> None:
    from corecode.training.job import run_job

    plain = beside(run, tmp_path / "plain")
    run_job(sft_jobs(coin.profile(run / "data"), plain)[0].write())
    losses, found = (losses_by_step(folder / "sft_warmup" / "planner") for folder in (plain, run))
    assert list(found) == list(losses)
    assert found[1] == pytest.approx(losses[1], rel=TOLERANCE)
    assert found[10] == pytest.approx(losses[10], rel=TOLERANCE), "mean of steps 2 to 10"
    assert found[max(found)] < found[1] / 5


@MINUTES
@pytest.mark.slow
def test_one_rank_does_the_grpo_of_plain_torch(run: Path, tmp_path: Path) -> None:
    """With one rank the samples of the first step are the same, so everything that is logged of it has to be: with
    ZeRO-2, and with ZeRO-3 that keeps weights and optimizer states in the CPU's memory."""
    from corecode.training.job import run_job

    results = []
    for execution in (
        {},
        {"engine": "deepspeed", "zero_stage": 2},
        {"engine": "deepspeed", "zero_stage": 3, "zero_offload": True},
    ):
        settings = coin.profile(run / "data", **execution)
        folder = beside(run, tmp_path / str(len(results)), "sft_warmup")
        job = grpo_job(settings, folder, "planner")
        assert job is not None
        if execution:
            launch(settings, [job])
        else:
            run_job(job.write())
        results.append({key: value for key, value in metrics(job.folder).items() if key[0] < 2})
    expected, *found = results
    for values in found:
        assert values == pytest.approx(expected, rel=TOLERANCE, abs=1e-6)
    assert expected[1, "policy/loss"] != 0
    assert expected[1, "policy/grad_norm"] > 0


@MINUTES
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["sft_warmup/planner", "planner_grpo", "coder_grpo"])
def test_sharded_training_saves_whole_finite_weights(run: Path, folder: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(run / folder / "model")
    warm = run / "sft_warmup" / Path(folder).name.removesuffix("_grpo") / "model"
    start = AutoModelForCausalLM.from_pretrained(warm).state_dict()
    weights = model.state_dict()
    assert {name: value.shape for name, value in weights.items()} == {name: v.shape for name, v in start.items()}
    assert all(bool(torch.isfinite(value).all()) for value in weights.values())
    tokenizer = AutoTokenizer.from_pretrained(run / folder / "model")
    ids = tokenizer("print", return_tensors="pt").input_ids
    assert bool(torch.isfinite(model(ids).logits).all())
    moved = any(not torch.equal(weights[name], value) for name, value in start.items())
    assert moved == folder.endswith("_grpo"), "a phase goes on from the saved weights, and trains them"


@MINUTES
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["planner_grpo", "coder_grpo"])
def test_ranks_log_each_step_once(run: Path, folder: str) -> None:
    lines = [json.loads(line) for line in (run / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2, 2]
    assert all(math.isfinite(value) for line in lines for value in line["metrics"].values())
    counts = [line["metrics"].get("infrastructure/lost") for line in lines]
    assert counts == [None, 0, 0, None], "validation points count no samples"


def test_a_profile_chooses_its_zero_configuration(tmp_path: Path) -> None:
    names = {}
    for stage, offload in ((1, False), (2, False), (3, False), (3, True)):
        settings = coin.profile(tmp_path, engine="deepspeed", zero_stage=stage, zero_offload=offload)
        path = Path(sft_jobs(settings, tmp_path)[0].spec["deepspeed"])
        names[path.name] = json.loads(path.read_text(encoding="utf-8"))["zero_optimization"]
    assert list(names) == ["zero1.json", "zero2.json", "zero3.json", "zero3_offload.json"]
    assert [zero["stage"] for zero in names.values()] == [1, 2, 3, 3]
    assert "offload_param" in names["zero3_offload.json"]
    with pytest.raises(UserError, match="zero_offload goes with zero_stage 3"):
        load_profile("smoke", ["execution.zero_offload=true", "execution.zero_stage=2"])
