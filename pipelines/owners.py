"""Who owns a run or a process, said in a way that tells later whether the owner still lives."""

from __future__ import annotations

import getpass
import os
import platform
from pathlib import Path


def person() -> str:
    """Who asks: user and host. A container may run as a number that has no name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # Python before 3.13, and since
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def owner() -> str:
    """This process: host, PID namespace, pid, and when it started (pids are used again)."""
    return f"{platform.node()}/{_namespace()}/{os.getpid()}/{started(os.getpid())}"


def is_gone(name: str) -> bool:
    """Whether an :func:`owner` is dead. False for what is no owner, and for one that cannot be seen from here: another
    host, or another container of this one."""
    parts = name.split("/")
    if len(parts) != 4 or parts[:2] != [platform.node(), _namespace()] or not parts[2].isdigit():
        return False
    return started(int(parts[2])) != parts[3]


def started(pid: int) -> str:
    """Start time of a process in clock ticks since boot; empty when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state == "Z" else rest[18]


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return "-"
