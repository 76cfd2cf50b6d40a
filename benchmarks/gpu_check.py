"""Does training work on this machine's GPU, and how fast? ``make gpu-check`` (at most 8 minutes, one GPU).

One rank of DeepSpeed (ZeRO-3, bfloat16) on a Llama of 330 million random weights: both warm-ups for two steps, Planner
GRPO and Coder GRPO for a few; the Coder's phase is killed in the middle and continues from its checkpoint. Writes
``gpu-check.json``: the device, and for each phase seconds by activity and sampled tokens a second.

``--rehearse`` does the same with a tiny model on the CPU, to see that this script works; its figures say nothing.
Exit code 2: there is no GPU; 1: something failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIMIT_S = 460
"""Everything has to be over by then."""
KILLED_AT = 2
"""Step of the Coder's phase after which it is killed."""
PHASE: dict[str, Any] = {
    "steps": 4,
    "prompts_per_step": 8,
    "group_size": 8,
    "learning_rate": 1e-5,
    "beta": 0.01,
    "sampling": {"max_tokens": 128},
    "partner_sampling": {"max_tokens": 128},
    "validate_every": 0,
    "checkpoint_every": 1,
}
LARGE = {"width": 1024, "layers": 24, "heads": 16, "vocabulary": 768}
TINY = {"width": 32, "layers": 2, "heads": 2, "vocabulary": 300}


def settings(rehearse: bool) -> dict[str, Any]:
    """The profile of the check."""
    phase = {**PHASE, "prompts_per_step": 2, "group_size": 2} if rehearse else PHASE
    return {
        "name": "gpu-check",
        "description": "Random weights, a few steps of everything.",
        "hardware": "1 GPU",
        "expected_minutes": 8,
        "prompts": "compact",
        "dataset": {"name": "dials", "sft": 32, "rl": 32, "validation": 4, "test": 4},
        "model": {"scratch": TINY if rehearse else LARGE, "dtype": "float32" if rehearse else "bfloat16"},
        "sft": {"batch_size": 16, "warmup_steps": 1, "optimizer": "adamw", "learning_rate": 1e-5},
        "planner_grpo": phase,
        "coder_grpo": phase,
        "rewards": {"format_weight": 0.2},
        "execution": {
            "engine": "deepspeed",
            "zero_stage": 3,
            "device": "cpu" if rehearse else "cuda",
            "threads": 1 if rehearse else 4,
            "parallel": 1,
        },
    }


class Killed(Exception):
    """The check's own interruption of a phase."""


def check(rehearse: bool) -> dict[str, Any]:
    """Run everything in a temporary folder; the figures."""
    from corecode.config import Profile
    from corecode.stages import Job, grpo_job, make_problems, sft_jobs
    from pipelines.launchers.local import Engine, LocalLauncher, job_environment
    from pipelines.preflight import preflight

    profile = Profile.model_validate(settings(rehearse))
    execution = profile.execution
    environment = job_environment(execution.threads, execution.device, offline=True)
    launcher = LocalLauncher(environment=environment, engine=Engine(execution.engine, execution.ranks), grace_s=0.0)
    run = Path(tempfile.mkdtemp(prefix="corecode-gpu-check-"))

    def kill(_job: Any, line: Mapping[str, Any]) -> None:
        if line["step"] >= KILLED_AT:
            raise Killed

    def launch(job: Job, on_metrics: Any = lambda job, line: None) -> float:
        started = time.monotonic()
        launcher.run([job], 1, on_metrics)
        return time.monotonic() - started

    try:
        preflight(profile)
        make_problems(profile, run)
        figures: dict[str, Any] = {}
        for job in sft_jobs(profile, run):
            figures[job.name] = {"wall_s": round(launch(job), 1)}
        planner, coder = (grpo_job(profile, run, role) for role in ("planner", "coder"))
        if planner is None or coder is None:
            raise AssertionError("both phases have steps")
        figures[planner.name] = {"wall_s": round(launch(planner), 1), **phase_figures(planner.folder, profile)}
        try:
            launch(coder, kill)
        except Killed:
            seen = len((coder.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        else:
            raise SystemExit("error: the Coder's phase ended before it could be killed")
        wall = launch(coder)
        steps = [line["step"] for line in logged(coder.folder)]
        if steps != list(range(1, PHASE["steps"] + 1)):
            raise SystemExit(f"error: after the resume the logged steps are {steps}")
        continued = "continues after step" in (coder.folder / "job.log").read_text(encoding="utf-8")
        figures[coder.name] = {
            "wall_s_after_resume": round(wall, 1),
            "killed_after_lines": seen,
            "continued_from_checkpoint": continued,
            **phase_figures(coder.folder, profile),
        }
        return figures
    finally:
        shutil.rmtree(run, ignore_errors=True)


def logged(folder: Path) -> list[dict[str, Any]]:
    """The lines of a phase's metrics."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def phase_figures(folder: Path, profile: Any) -> dict[str, Any]:
    """Means over a phase's steps but the first, which pays for what is done once."""
    lines = logged(folder)[1:]
    names = sorted({name for line in lines for name in line["seconds"]})
    seconds = {name: round(sum(line["seconds"].get(name, 0.0) for line in lines) / len(lines), 3) for name in names}
    samples = profile.coder_grpo.prompts_per_step * profile.coder_grpo.group_size
    tokens = samples * sum(line["metrics"]["completion/tokens"] for line in lines) / len(lines)
    return {
        "seconds_a_step": seconds,
        "sampled_tokens_a_step": round(tokens),
        "sampled_tokens_a_second": round(tokens / seconds["sampling"]),
        "infrastructure_lost": sum(line["metrics"]["infrastructure/lost"] for line in lines),
        "finite": all("policy/loss" in line["metrics"] and "policy/grad_norm" in line["metrics"] for line in lines),
    }


def machine(rehearse: bool) -> dict[str, Any]:
    """The device and the versions that the figures belong to."""
    import torch

    packages: dict[str, str] = {}
    for name in ("torch", "transformers", "trl", "deepspeed", "vllm"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "not installed"
    device = "cpu (rehearsal)" if rehearse else torch.cuda.get_device_name(0)
    return {"device": device, "versions": packages}


def main() -> int:
    """Exit code as the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("gpu-check.json"), help="file for the figures")
    parser.add_argument("--rehearse", action="store_true", help="the same on the CPU with a tiny model")
    options = parser.parse_args()

    import torch

    from corecode.errors import InfrastructureError, UserError

    if not options.rehearse and not torch.cuda.is_available():
        print(
            "error: torch can use no GPU here; run make gpu-check on a machine with one (docs/gpus.md)",
            file=sys.stderr,
        )
        return 2

    def give_up(_number: int, _frame: Any) -> None:
        raise InfrastructureError(f"the check took longer than {LIMIT_S} s")

    if not options.rehearse:
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(LIMIT_S)
    started = time.monotonic()
    try:
        phases = check(options.rehearse)
    except (UserError, InfrastructureError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    figures = {**machine(options.rehearse), "phases": phases, "wall_s": round(time.monotonic() - started, 1)}
    options.output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
