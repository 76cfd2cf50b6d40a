"""The local launcher: jobs as subprocesses of this machine, each under a supervisor that owns its process tree."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corecode.errors import InfrastructureError, UserError
from pipelines.launchers import LaunchableJob, MetricsCallback, supervise
from pipelines.launchers.tail import JsonTail, last_lines
from pipelines.owners import owner

JOB_VARIABLE = "CORECODE_JOB"
"""Marks every process of a job: it survives a change of parent or session."""
LOG_NAME = "job.log"
POLL_S = 0.5
"""Between two looks at the metrics files; the end of a job is an event and is not polled."""


@dataclass(frozen=True)
class Engine:
    """How a job's program is started."""

    name: str = "torch"
    """``torch`` (one process) or ``deepspeed`` (ranks, for the jobs that train)."""
    ranks: int = 1
    hostfile: str | None = None
    """DeepSpeed hostfile for several nodes; None for this machine."""

    def command(self, job: LaunchableJob, job_file: Path) -> list[str]:
        """The command line of a job. Evaluation never runs under DeepSpeed."""
        if self.name != "deepspeed" or job.spec.get("kind") == "evaluate":
            return [sys.executable, "-m", "corecode.training.job", str(job_file)]
        # A port of its own, so that two jobs can run at a time. No --local_rank argument: ranks read the environment.
        where = ["--hostfile", self.hostfile] if self.hostfile else []
        return [
            *(sys.executable, "-m", "deepspeed.launcher.runner", *where, "--num_accelerators", str(self.ranks)),
            *("--master_port", str(free_port()), "--no_local_rank", "--module", "corecode.training.job", str(job_file)),
        ]


def free_port() -> int:
    """A TCP port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class _Running:
    job: LaunchableJob
    process: subprocess.Popen[bytes]
    token: str
    tail: JsonTail
    log: Path


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
        try:
            while waiting or running:
                while waiting and len(running) < parallel:
                    started = self._start(waiting.pop(0), ended)
                    running[started.token] = started
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
            self._end(list(running.values()))

    def _start(self, job: LaunchableJob, ended: queue.SimpleQueue[str]) -> _Running:
        job_file = job.write()
        token = f"{owner()}/{uuid.uuid4().hex}"
        command = (self.command or self.engine.command)(job, job_file)
        supervised = [sys.executable, "-I", supervise.__file__, "--grace", str(self.grace_s), "--", *command]
        log = job.folder / LOG_NAME
        environment = {
            **os.environ,
            **self.environment,
            JOB_VARIABLE: token,
            supervise.PARENT_VARIABLE: str(os.getpid()),
        }
        with log.open("wb") as output:
            process = subprocess.Popen(
                supervised,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C in the terminal reaches us alone; we end the job in order
            )

        def wait() -> None:
            process.wait()
            ended.put(token)

        threading.Thread(target=wait, name=f"wait-{job.name}", daemon=True).start()
        return _Running(job, process, token, JsonTail(job.folder / "metrics.jsonl"), log)

    def _end(self, jobs: Sequence[_Running]) -> None:
        for one in jobs:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGTERM)
        for one in jobs:
            try:
                one.process.wait(self.grace_s + 12)
            finally:
                if one.process.poll() is None:
                    one.process.kill()
                sweep(one.token)


def _take(ended: queue.SimpleQueue[str]) -> str | None:
    try:
        return ended.get(timeout=POLL_S)
    except queue.Empty:
        return None


def _check(one: _Running) -> None:
    code = one.process.returncode
    if code < 0:  # the supervisor itself was killed: its tree may have outlived it
        sweep(one.token)
    if code == 0:
        return
    tail = last_lines(one.log)
    said = [line.removeprefix("error: ") for line in tail.splitlines() if line.startswith("error: ")]
    if "No space left on device" in tail:
        raise UserError(f"the disk is full: job {one.job.name} could not write under {one.job.folder}; free some space")
    if code == 2 and said:
        raise UserError(said[-1])
    if said:
        raise InfrastructureError(f"job {one.job.name}: {said[-1]} (log: {one.log})")
    how = f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else f"exit code {code}"
    raise InfrastructureError(f"job {one.job.name} ended with {how}; the last lines of {one.log}:\n{tail}")


def sweep(token: str) -> int:
    """SIGKILL every process that carries a job's token; return how many there were.

    Only needed when a supervisor was killed: its descendants then belong to init and no tree leads to them.
    """
    mark = f"{JOB_VARIABLE}={token}".encode()
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                marked = mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended, or belongs to another user
            if marked:
                found.append(int(entry))
    supervise.signal_all(found, signal.SIGKILL)
    return len(found)


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
    }
    if device == "cpu":
        environment["DS_ACCELERATOR"] = "cpu"
    if offline:
        environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    return environment
