"""The local launcher: jobs as subprocesses of this machine, each under a supervisor that owns its process tree."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corecode.errors import InfrastructureError, UserError
from pipelines.launchers import LaunchableJob, MetricsCallback
from pipelines.launchers.extensions import build_extensions
from pipelines.launchers.process import Supervised, end_all, start, sweep
from pipelines.launchers.tail import JsonTail, last_lines

LOG_NAME = "job.log"
PORT_OPTION = "--master_port"
FAREWELLS = 100
"""Lines at the end of a log in which a mistake is looked for: a launcher says something of each rank after it."""
POLL_S = 0.5
"""Between two looks at the metrics files; the end of a job is an event and is not polled."""


@dataclass(frozen=True)
class Engine:
    """How a job's program is started."""

    name: str = "torch"
    """``torch`` (one process) or ``deepspeed`` (ranks, for the jobs that train)."""
    ranks: int = 1
    """Processes on each node."""
    hostfile: str | None = None
    """DeepSpeed hostfile for several nodes; None for this machine."""

    def takes(self, job: LaunchableJob) -> bool:
        """Whether DeepSpeed runs this job: it does what trains, never an evaluation."""
        return self.name == "deepspeed" and job.spec.get("kind") != "evaluate"

    def command(self, job: LaunchableJob, job_file: Path) -> list[str]:
        """The command line of a job."""
        program = self._program(job)
        if _wants_servers(job):
            return [sys.executable, "-m", "pipelines.launchers.serving", str(job_file), *program]
        return [*program, str(job_file)]

    def _program(self, job: LaunchableJob) -> list[str]:
        """The command line up to the job file, which comes last."""
        if not self.takes(job):
            return [sys.executable, "-m", "corecode.training.job"]
        # A port of its own, so that two jobs can run at a time. No --local_rank argument: ranks read the environment.
        return [
            *(sys.executable, "-m", "deepspeed.launcher.runner", *self._where(job)),
            *(PORT_OPTION, str(free_port()), "--no_local_rank", "--module", "corecode.training.job"),
        ]

    def _where(self, job: LaunchableJob) -> list[str]:
        """Nodes and devices of the ranks. DeepSpeed counts the GPUs of the machine, not those that are visible."""
        count = ["--num_accelerators", str(self.ranks)]
        if self.hostfile:
            return ["--hostfile", self.hostfile, *count]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if not visible or _execution(job).get("device") != "cuda":
            return count
        return ["--include", "localhost:" + ",".join(visible.split(",")[: self.ranks])]


def _buffers(command: Sequence[str]) -> str:
    """Pattern of the shared memory (64 MiB a rank) that DeepSpeed's CPU ranks leave behind; empty without ranks."""
    if PORT_OPTION not in command:
        return ""
    port = command[command.index(PORT_OPTION) + 1]
    return f"/dev/shm/deepspeed_allreduce_buffer_{os.getuid()}_*_{port}_*"


def _execution(job: LaunchableJob) -> Mapping[str, Any]:
    """The profile's section of that name."""
    return job.spec.get("profile", {}).get("execution", {})


def _wants_servers(job: LaunchableJob) -> bool:
    """Whether servers answer for the roles that the job samples without training them."""
    frozen = set(job.spec.get("team", ())) - {job.spec.get("role")}
    return _execution(job).get("partner") == "vllm" and job.spec.get("kind") != "sft" and bool(frozen)


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class _Running:
    job: LaunchableJob
    program: Supervised
    tail: JsonTail


@dataclass
class LocalLauncher:
    """See :class:`pipelines.launchers.Launcher`."""

    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to this process' environment."""
    engine: Engine = field(default_factory=Engine)
    grace_s: float = 10.0
    """Between SIGTERM and SIGKILL when jobs are ended."""
    command: Callable[[LaunchableJob, Path], list[str]] | None = None
    """Replaces the engine's command line."""

    def run(self, jobs: Sequence[LaunchableJob], parallel: int, on_metrics: MetricsCallback) -> None:
        waiting = list(jobs)
        running: dict[str, _Running] = {}
        ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        if any(self.engine.takes(job) for job in waiting):
            build_extensions(self.environment)
        try:
            while waiting or running:
                while waiting and len(running) < parallel:
                    started = self._start(waiting.pop(0), ended)
                    running[started.program.token] = started
                finished = _take(ended)
                for one in running.values():
                    for line in one.tail.lines():
                        on_metrics(one.job, line)
                if finished is not None:
                    one = running.pop(finished)
                    for line in one.tail.lines():
                        on_metrics(one.job, line)
                    _check(one)
        finally:
            end_all([one.program for one in running.values()])

    def _start(self, job: LaunchableJob, ended: queue.SimpleQueue[str]) -> _Running:
        job_file = job.write()
        command = (self.command or self.engine.command)(job, job_file)
        program = start(command, self.environment, job.folder / LOG_NAME, self.grace_s, _buffers(command))

        def wait() -> None:
            program.process.wait()
            ended.put(program.token)

        threading.Thread(target=wait, name=f"wait-{job.name}", daemon=True).start()
        return _Running(job, program, JsonTail(job.folder / "metrics.jsonl"))


def _take(ended: queue.SimpleQueue[str]) -> str | None:
    try:
        return ended.get(timeout=POLL_S)
    except queue.Empty:
        return None


def _check(one: _Running) -> None:
    program = one.program
    code = program.process.returncode
    if code < 0:  # the supervisor itself was killed: its tree may have outlived it
        sweep(program.token)
    if code == 0:
        return
    tail = last_lines(program.log)
    if "No space left on device" in tail:
        raise UserError(f"the disk is full: job {one.job.name} could not write under {one.job.folder}; free some space")
    if code == 2 and (sentence := _sentence(last_lines(program.log, FAREWELLS))):
        raise UserError(sentence + (f" (log: {program.log})" if "Traceback" in tail else ""))
    if sentence := _sentence(tail):
        raise InfrastructureError(f"job {one.job.name}: {sentence} (log: {program.log})")
    raise InfrastructureError(
        f"job {one.job.name} ended with {program.outcome}; the last lines of {program.log}:\n{tail}"
    )


def _sentence(lines: str) -> str:
    """The last thing that a job said is wrong; empty when it did not say so."""
    said = [line.removeprefix("error: ") for line in lines.splitlines() if line.startswith("error: ")]
    return said[-1] if said else ""


def job_environment(threads: int, device: str, offline: bool) -> dict[str, str]:
    """Environment of every job: the same number of threads and hash seed each time, so that a run repeats.

    ``device`` is ``cpu`` or ``cuda``; ``offline`` keeps Hugging Face libraries from asking the network about models
    that are on this disk.
    """
    environment = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if device == "cpu":
        environment["DS_ACCELERATOR"] = "cpu"
    if offline:
        environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return environment
