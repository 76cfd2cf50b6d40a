"""A program under a supervisor that owns its process tree (see :mod:`pipelines.launchers.supervise`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.launchers import supervise
from pipelines.owners import owner

JOB_VARIABLE = "CORECODE_JOB"
"""Marks every process of a program: it survives a change of parent or session."""
SUPERVISOR_S = 12.0
"""What a supervisor may take beyond the grace to end its tree."""


@dataclass(frozen=True)
class Supervised:
    """A started program; its exit code is that of ``process``."""

    process: subprocess.Popen[bytes]
    token: str
    log: Path
    """Standard output and standard error together."""
    grace_s: float

    def end(self) -> None:
        """End the program and every process that it started; returns when none is left."""
        end_all([self])

    @property
    def outcome(self) -> str:
        """How it ended, in words."""
        code = self.process.returncode
        if code < 0:
            return f"signal {-code}"
        return f"signal {code - 128}" if code > 128 else f"exit code {code}"


def start(
    command: Sequence[str], environment: Mapping[str, str], log: Path, grace_s: float = 10.0, leftovers: str = ""
) -> Supervised:
    """Start a program that ends, whole, when this process ends.

    Args:
        environment: added to this process' environment.
        log: file for all that it prints; written anew.
        grace_s: seconds between SIGTERM and SIGKILL when it is ended.
        leftovers: glob pattern of files that it may leave behind; they are removed at its end.
    """
    token = f"{owner()}/{uuid.uuid4().hex}"
    marked = {**os.environ, **environment, JOB_VARIABLE: token, supervise.PARENT_VARIABLE: str(os.getpid())}
    supervision = ["--grace", str(grace_s), "--leftovers", leftovers]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", supervise.__file__, *supervision, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=marked,
            start_new_session=True,  # Ctrl-C in the terminal reaches us alone; we end the program in order
        )
    return Supervised(process, token, log, grace_s)


def end_all(programs: Sequence[Supervised]) -> None:
    """End programs side by side."""
    for one in programs:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
    for one in programs:
        try:
            one.process.wait(one.grace_s + SUPERVISOR_S)
        finally:
            if one.process.poll() is None:
                one.process.kill()
            sweep(one.token)


def sweep(token: str) -> int:
    """SIGKILL every process that carries a program's token; return how many there were.

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
