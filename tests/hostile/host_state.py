"""What an attack could leave on the host: processes, containers, mounts, files, shared memory, control groups."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

MARK = "corecode-hostile-mark"
"""The name under which attacks write files where they should not."""

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none can slip away unseen."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("cannot become a subreaper")


def descendants() -> set[str]:
    """Living processes below this one, as ``pid command``; what is dead and waits to be reaped is gone."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            before, _, after = Path(f"/proc/{entry}/stat").read_text().rpartition(")")
        except OSError:
            continue
        state, parent = after.split()[:2]
        parents[int(entry)] = int(parent)
        if state != "Z":
            names[int(entry)] = before.partition("(")[2]
    found: set[str] = set()
    for pid in names:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and pid != above:
            found.add(f"{pid} {names[pid]}")
    return found


def containers(label: str) -> set[str]:
    """Containers of the engine that carry a label, running or not; empty without an engine."""
    import docker

    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        return set()
    try:
        return {container.id for container in client.containers.list(all=True, filters={"label": label})}
    finally:
        client.close()


def mounts() -> set[str]:
    """Mount points of this machine, without those that an engine keeps for anybody's containers."""
    found: set[str] = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point, kind = left.split()[4], right.split()[0]
        if kind not in ("overlay", "nsfs") and "/containers/" not in point:
            found.add(point)
    return found


def files() -> set[str]:
    """Marked files in the folders that attacks aim at, and System V objects with the attacks' key."""
    found: set[str] = set()
    for folder in (
        "/",
        "/tmp",
        "/var/tmp",
        "/dev",
        "/dev/shm",
        "/dev/mqueue",
        "/root",
        "/home",
        "/etc",
        "/run",
        os.getcwd(),
    ):
        path = Path(folder)
        if path.is_dir() and os.access(path, os.R_OK):
            found |= {
                str(path / name) for name in os.listdir(path) if "mark" in name and (MARK in name or "shm" in folder)
            }
    for table in ("shm", "sem", "msg"):
        lines = Path(f"/proc/sysvipc/{table}").read_text().splitlines()[1:]
        found |= {f"sysv {table}" for line in lines if line.split()[0] == "4711"}
    return found


def control_groups(name: str) -> set[str]:
    """Control groups whose name contains ``name``."""
    top = Path("/sys/fs/cgroup")
    return {str(path) for pattern in (f"*{name}*", f"*/*{name}*") for path in top.glob(pattern) if path.is_dir()}
