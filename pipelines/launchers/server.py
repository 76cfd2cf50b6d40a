"""A vLLM server for one model: started on loopback, asked until it answers, ended with everything it started."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from corecode.errors import InfrastructureError, UserError
from pipelines.launchers.process import Supervised, start
from pipelines.launchers.tail import last_lines

READY_S = 1200.0
"""Longest start: a large model comes from a slow disk."""
POLL_S = 0.5
"""Between two questions to a server that is starting; its death is noticed at once."""
OWN_ENVIRONMENT = Path(__file__).parents[2] / ".venv-vllm" / "bin" / "python"
"""What ``make vllm`` installs: on a CPU vLLM needs other versions of torch and transformers than training does."""
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}


@dataclass(frozen=True)
class ServerOptions:
    """How to serve one model."""

    model: str
    """Folder or hub id."""
    names: tuple[str, ...]
    """The names that requests give: roles with the same weights share a server."""
    dtype: str
    """``float32`` or ``bfloat16``."""
    python: str
    """Python of the environment that has vLLM, see :func:`server_python`."""
    device: Literal["cpu", "cuda"] = "cpu"
    gpus: int = 1
    """GPUs to spread over."""
    gpu_memory: float = 0.9
    """Share of each GPU's memory."""
    port: int = 8000

    @property
    def url(self) -> str:
        """Base URL of the protocol."""
        return f"http://127.0.0.1:{self.port}/v1"

    def command(self) -> list[str]:
        """The server's command line."""
        by_device = (
            ("--tensor-parallel-size", str(self.gpus), "--gpu-memory-utilization", str(self.gpu_memory))
            if self.device == "cuda"
            else ("--enforce-eager", "--max-num-seqs", "32")
        )
        return [
            *(self.python, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", self.model, "--served-model-name", *self.names, "--dtype", self.dtype),
            *("--host", "127.0.0.1", "--port", str(self.port), "--disable-uvicorn-access-log", *by_device),
        ]


def server_python(given: str | None) -> str:
    """The Python that has vLLM: the given one, this one, or that of ``make vllm``.

    Raises:
        UserError: when there is none.
    """
    if given is None and importlib.util.find_spec("vllm") is not None:
        return sys.executable
    chosen = given or str(OWN_ENVIRONMENT)
    probe = [chosen, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"]
    try:
        found = subprocess.run(probe, check=False, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        found = False
    if found:
        return chosen
    where = f"{given} has no vLLM" if given else "vLLM is not installed"
    raise UserError(
        f"{where}; on a CPU run: make vllm; on GPUs: pip install -e '.[gpu]'; or name a Python that has it"
        " (--python, or execution.server.python in a profile)"
    )


@dataclass(frozen=True)
class ModelServer:
    """A started server; it may not answer yet."""

    options: ServerOptions
    program: Supervised

    @classmethod
    def start(cls, options: ServerOptions, log: Path) -> ModelServer:
        """Start a server; returns at once. It ends when this process ends."""
        environment = {**_QUIET, **(_CPU if options.device == "cpu" else {})}
        # What this process' own imports find is not meant for another environment.
        unset = {name: "" for name in ("PYTHONPATH", "PYTHONHOME") if name in os.environ}
        return cls(options, start(options.command(), {**environment, **unset}, log))

    def wait_ready(self, seconds: float = READY_S) -> None:
        """Return when the server answers for its model.

        Raises:
            InfrastructureError: when it ends or stays silent; the message holds the last lines of its log.
        """
        deadline = time.monotonic() + seconds
        while not self._answers():
            if time.monotonic() > deadline:
                raise InfrastructureError(self.complaint(f"did not answer within {seconds:g} s"))
            try:
                self.program.process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise InfrastructureError(self.complaint(f"ended with {self.program.outcome} before it was ready"))

    def complaint(self, what: str) -> str:
        """One sentence about the server with the end of its log."""
        log = self.program.log
        said = " | ".join(last_lines(log, 6).splitlines()) or "nothing"
        who = " and ".join(self.options.names)
        return f"the model server of {who} ({self.options.model}) {what}; it said: {said} (log: {log})"

    def _answers(self) -> bool:
        """Whether our own server is ready: a stranger on the port would not know our model."""
        import httpx

        try:
            answer = httpx.get(f"{self.options.url}/models", timeout=5, trust_env=False)
            known = {model["id"] for model in answer.json()["data"]} if answer.status_code == 200 else set[str]()
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return False
        return known.issuperset(self.options.names)

    def end(self) -> None:
        """End the server and all of its processes."""
        self.program.end()
