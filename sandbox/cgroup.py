"""A control group around one bubblewrap sandbox, where this machine lets us make one (version 1 or 2)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_PREFIX = "corecode-sandbox-"
_CONTROLLERS = ("memory", "pids", "cpu")


class ControlGroup:
    """Bounds memory, processes and CPU of all processes of a sandbox together. Use :meth:`create`."""

    def __init__(self, folders: dict[str, Path], version: int) -> None:
        self._folders = folders
        self.version = version

    @classmethod
    def create(cls, serial: int) -> ControlGroup | None:
        """A new group named after this process, or None where groups cannot be made."""
        name = f"{_PREFIX}{os.getpid()}-{_start_time(os.getpid())}-{serial}"
        version = 2 if (ROOT / "cgroup.controllers").exists() else 1
        for bases in _places(version):
            group = cls({kind: base / name for kind, base in bases.items() if base.is_dir()}, version)
            if group._make():
                return group
            group.close()
        return None

    def _make(self) -> bool:
        try:
            for folder in self._folders.values():
                folder.mkdir(exist_ok=True)
        except OSError:
            return False
        return self._file("memory").is_file()

    def add(self, pid: int) -> None:
        """Move a process into the group."""
        for folder in self._folders.values():
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, memory_bytes: int, processes: int, cores: float) -> None:
        """Set the bounds of the whole group; a controller that is missing stays without one."""
        if self.version == 2:
            values = [
                ("memory.max", memory_bytes),
                ("memory.swap.max", 0),
                ("cpu.max", f"{int(cores * 100_000)} 100000"),
            ]
        else:
            # Memory with swap may not be below memory: which one has to be written first depends on the direction.
            swap, memory = ("memory.memsw.limit_in_bytes", memory_bytes), ("memory.limit_in_bytes", memory_bytes)
            values = [swap, memory, swap, ("cpu.cfs_quota_us", int(cores * 100_000))]
        for name, value in (*values, ("pids.max", processes), self._weight()):
            self._write(name, str(value))

    def _weight(self) -> tuple[str, int]:
        """The weight that this process's niceness has outside groups: a group must not lose it, nor gain any."""
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        if self.version == 2:
            return "cpu.weight.nice", nice
        return "cpu.shares", max(2, min(1 << 18, round(1024 * 1.25**-nice)))

    def oom_kills(self) -> int:
        """How many processes of this group the kernel has killed for want of memory so far."""
        file = self._file("memory").with_name("memory.events" if self.version == 2 else "memory.oom_control")
        with contextlib.suppress(OSError):
            for line in file.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def close(self) -> None:
        """Remove the group; its processes must be dead or dying."""
        for folder in self._folders.values():
            _remove(folder)

    def _file(self, what: str) -> Path:
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        return self._folders.get("" if self.version == 2 else what, Path("/nonexistent")) / name

    def _write(self, name: str, value: str) -> None:
        kind = "" if self.version == 2 else name.split(".")[0]
        folder = self._folders.get(kind)
        if folder is not None:
            with contextlib.suppress(OSError):  # a controller may be missing or read-only
                (folder / name).write_text(value)


def usable() -> int | None:
    """The version of control groups in which a group can be made and a process put, or None."""
    group = ControlGroup.create(-1)
    if group is None:
        return None
    probe = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)
    try:
        group.add(probe.pid)
    except OSError:
        return None
    finally:
        probe.kill()
        probe.wait()
        group.close()
    return group.version


def _places(version: int) -> list[dict[str, Path]]:
    """Folders in which to make a group, by controller: the root, and beside our own group where that is delegated."""
    if version == 1:
        return [{kind: ROOT / kind for kind in _CONTROLLERS}]
    with contextlib.suppress(OSError):  # mostly enabled already; refused to ordinary users
        (ROOT / "cgroup.subtree_control").write_text("+memory +pids +cpu")
    own = ""
    with contextlib.suppress(OSError):
        own = Path("/proc/self/cgroup").read_text().strip().removeprefix("0::/")
    return [{"": ROOT}, {"": (ROOT / own).parent}] if own else [{"": ROOT}]


def sweep() -> None:
    """Remove the groups of owners that are dead."""
    version = 2 if (ROOT / "cgroup.controllers").exists() else 1
    for base in {base for bases in _places(version) for base in bases.values()}:
        for folder in base.glob(_PREFIX + "*"):
            owner, started = folder.name.removeprefix(_PREFIX).split("-")[:2]
            if _start_time(int(owner)) != started:
                _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # busy until its last process is reaped
            time.sleep(0.01)
        else:
            return


def _start_time(pid: int) -> str:
    """The kernel's start time of a process, which tells a reused number from the old owner; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
