"""Processes of jobs whose launcher is gone.

A supervisor ends its job when the launcher dies. Only where both were killed at once, processes that had left the job's
tree can outlive them; every process of a job carries the job's token, and the token names the launcher.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pipelines.launchers import supervise
from pipelines.launchers.process import JOB_VARIABLE
from pipelines.owners import is_gone


def tokens() -> dict[int, str]:
    """Pid and token of every process of a job on this machine, as far as this user may look."""
    found: dict[int, str] = {}
    mark = f"{JOB_VARIABLE}=".encode()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended, or belongs to another user
            for variable in environment:
                if variable.startswith(mark):
                    found[int(entry)] = variable.removeprefix(mark).decode(errors="replace")
    return found


def sweep_orphans() -> int:
    """SIGKILL every process of a job whose launcher is gone; return how many there were."""
    found = [pid for pid, token in tokens().items() if is_gone(token.rpartition("/")[0])]
    supervise.signal_all(found, signal.SIGKILL)
    return len(found)
