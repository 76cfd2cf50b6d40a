"""What an attack could leave on the host: processes, containers, mounts, files, shared memory, control groups."""

from __future__ import annotations

import ctypes
import os
import time
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


def containers() -> set[str]:
    """Containers that this process owns, running or not; empty without an engine."""
    import docker
    import docker.errors

    from sandbox.docker_engine import OWNER_LABEL, owner

    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        return set()
    mine = {"label": f"{OWNER_LABEL}={owner()}"}
    try:
        return {container.id for container in client.containers.list(all=True, filters=mine, ignore_removed=True)}
    finally:
        client.close()


def mounts() -> set[str]:
    """Mount points of this machine, without those that an engine keeps for anybody's containers, and without those of
    the engines that tests beside this one start in their temporary folders."""
    found: set[str] = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point, kind = left.split()[4], right.split()[0]
        engines = {"containers", "overlay2"} & set(point.split("/")) or "/pytest-" in point
        if kind not in ("overlay", "nsfs") and not engines:
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


def control_groups() -> set[str]:
    """Control groups that this process made."""
    top, mine = Path("/sys/fs/cgroup"), f"corecode-sandbox-{os.getpid()}-*"
    return {str(path) for pattern in (mine, f"*/{mine}") for path in top.glob(pattern)}


def left_behind() -> dict[str, set[str]]:
    """Everything of the above that is there now."""
    return {
        "processes": descendants(),
        "containers": containers(),
        "mounts": mounts(),
        "files": files(),
        "control groups": control_groups(),
    }


def check_nothing_left(before: dict[str, set[str]]) -> None:
    """Compare with the state before; what is dying gets a moment."""
    until = time.monotonic() + 10
    while True:
        after = left_behind()
        more = {kind: after[kind] - before[kind] for kind in after}
        if not any(more.values()) or time.monotonic() > until:
            assert not any(more.values()), f"left on the host: {more}"
            return
        time.sleep(0.2)
