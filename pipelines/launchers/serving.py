"""Run a job with model servers beside it: ``python -m pipelines.launchers.serving JOB.json COMMAND...``.

Starts a server for the roles that the job samples and does not train, waits until all answer, and runs COMMAND with the
path of a job file that names their URLs. Servers end with the job. A server that dies ends the job at once, with one
sentence: a dead server is never waited for, and no sample is scored by its silence.

Everything here is inside the process tree that the launcher's supervisor owns.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corecode.errors import InfrastructureError, UserError
from corecode.training.partners import frozen_roles, model_source
from corecode.training.records import write_json
from corecode.training.spec import JobSpec, read_spec
from pipelines.launchers.local import free_port
from pipelines.launchers.process import end_all
from pipelines.launchers.server import ModelServer, ServerOptions, server_python

SERVED = "job.served.json"
"""The job file with the servers' URLs, beside the job file."""
GRACE_S = 5.0
"""For a job whose server died, between SIGTERM and SIGKILL."""


def main(arguments: Sequence[str]) -> int:
    """Exit code of the command; 1 with a sentence for a server that failed, 2 for a user's mistake."""

    def end(number: int, _frame: Any) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    job_file, *command = arguments
    try:
        return serve_and_run(Path(job_file), command)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except InfrastructureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def serve_and_run(job_file: Path, command: Sequence[str]) -> int:
    """See the module; returns the command's exit code (128 + n for signal n).

    Raises:
        UserError, InfrastructureError: when a server cannot be had, or dies while the job runs.
    """
    spec, _ = read_spec(job_file)
    servers: list[ModelServer] = []
    try:
        sharing: dict[str, list[str]] = {}
        for name in frozen_roles(spec):
            sharing.setdefault(spec.weights[name], []).append(name)
        for names in sharing.values():
            servers.append(ModelServer.start(_options(spec, names), spec.folder / f"server-{'-'.join(names)}.log"))
            if spec.profile.execution.device == "cuda":
                # One after the other: vLLM sizes its cache by the free memory, and would count the other's as its own.
                servers[-1].wait_ready()
        for server in servers:
            server.wait_ready()
        served = job_file.with_name(SERVED)
        urls = {name: server.options.url for server in servers for name in server.options.names}
        write_json(served, spec.model_copy(update={"servers": urls}).model_dump(mode="json"))
        return _run([*command, str(served)], servers)
    finally:
        end_all([server.program for server in servers])


def _options(spec: JobSpec, names: Sequence[str]) -> ServerOptions:
    execution = spec.profile.execution
    return ServerOptions(
        model=model_source(spec, names[0]),
        names=tuple(names),
        dtype=spec.profile.model.dtype,
        python=server_python(execution.server.python),
        device=execution.device,
        gpus=execution.server.gpus,
        gpu_memory=execution.server.gpu_memory,
        port=free_port(),
    )


def _run(command: Sequence[str], servers: Sequence[ModelServer]) -> int:
    """Run the command until it ends or a server does."""
    job = subprocess.Popen(command)
    ended: queue.SimpleQueue[ModelServer | None] = queue.SimpleQueue()

    def watch(process: subprocess.Popen[bytes], who: ModelServer | None) -> None:
        process.wait()
        ended.put(who)

    for process, who in [(job, None), *((server.program.process, server) for server in servers)]:
        threading.Thread(target=watch, args=(process, who), daemon=True).start()
    try:
        dead = ended.get()
    finally:
        if job.poll() is None:
            job.terminate()
            try:
                job.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                job.kill()  # ranks that are left end with the supervisor's tree
    if dead is not None:
        raise InfrastructureError(dead.complaint(f"ended with {dead.program.outcome} in the middle of the job"))
    return job.returncode if job.returncode >= 0 else 128 - job.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
