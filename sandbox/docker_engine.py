"""The docker backend: one warm container a lane, spoken to over its attached standard input and output."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

from sandbox import image, seccomp
from sandbox.backend import CORES, HEADROOM_MB, SHM_MB, START_S, TMP_MB
from sandbox.bundle import BOOT, PYTHON_OPTIONS, bundle, runner_config
from sandbox.channel import Channel, WorkerLost
from sandbox.errors import SandboxUnavailable
from sandbox.wire import Frame

LABEL = "corecode.sandbox"
OWNER_LABEL = "corecode.sandbox.owner"
NOBODY = "65534:65534"
_OOM_FILES = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"]
_serials = itertools.count()


def owner() -> str:
    """Who this process is, for as long as this machine runs: boot, PID namespace, number and start time."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return f"{boot}/{namespace}/{os.getpid()}/{_start_time(os.getpid())}"


def _start_time(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _orphaned(label: str) -> bool:
    """Whether the owner lived in our PID namespace and is dead."""
    mine = owner().split("/")
    parts = label.split("/")
    return len(parts) == 4 and parts[:2] == mine[:2] and _start_time(int(parts[2])) != parts[3]


def sweep(client: Any) -> None:
    """Remove an engine's containers whose owner was killed.

    Raises:
        SandboxUnavailable: the engine does not list its containers.
    """
    import docker.errors

    try:
        for container in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True):
            if _orphaned(container.labels.get(OWNER_LABEL, "")):
                with contextlib.suppress(docker.errors.APIError):
                    container.remove(force=True)
    except (docker.errors.DockerException, OSError) as error:
        raise SandboxUnavailable(f"the Docker engine does not list its containers ({error})") from error


class DockerBackend:
    """Starts containers of one image.

    Args:
        name: the image; None takes the one made from this machine's Python, and makes it when the engine lacks it.

    Raises:
        SandboxUnavailable: with the remedy.
    """

    name = "docker"

    def __init__(self, name: str | None = None) -> None:
        self._client = image.connect()
        host = str(self._client.api.base_url)
        if host.startswith("https"):
            raise SandboxUnavailable("the docker backend speaks to unix:// and plain tcp:// engines only: use a tunnel")
        if name is None:
            name = image.build(self._client)
        elif not image.present(self._client, name):
            raise SandboxUnavailable(f"the Docker engine has no image {name}: build or load it (nothing is pulled)")
        self._image = name
        self._info = self._client.info()
        sweep(self._client)
        self.capabilities: dict[str, object] = {
            "isolation": "container",
            "image": name,
            "memory": f"cgroup v{self._info.get('CgroupVersion', '1')}",
            "processes": "cgroup",
            "seccomp": True,
            "network": False,
            "uid": 65534,
        }

    def start(self) -> DockerWorker:
        import docker.errors

        try:
            return DockerWorker(self._client, self._image, self._options())
        except (docker.errors.DockerException, OSError) as error:
            raise SandboxUnavailable(f"the Docker engine cannot start a container ({error})") from error

    def _options(self) -> dict[str, Any]:
        from docker.types import Ulimit

        memory = f"{256 + HEADROOM_MB}m"
        swap = {"memswap_limit": memory} if self._info.get("SwapLimit") else {}
        cpu = {"nano_cpus": int(CORES * 1e9)} if self._info.get("CpuCfsQuota") else {}
        return {
            **swap,
            **cpu,
            "network_mode": "none",
            "read_only": True,
            "tmpfs": {"/tmp": f"rw,noexec,nosuid,nodev,size={TMP_MB}m,nr_inodes=32k,mode=1777"},
            "shm_size": f"{SHM_MB}m",
            "mem_limit": memory,
            "pids_limit": 32,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges", f"seccomp={json.dumps(seccomp.docker_profile())}"],
            "user": NOBODY,
            "ipc_mode": "private",
            "stdin_open": True,
            "environment": image.ENVIRONMENT,
            "working_dir": "/tmp",
            "ulimits": [Ulimit(name="core", soft=0, hard=0), Ulimit(name="nofile", soft=1024, hard=1024)],
            "log_config": {"type": "none"},  # a log file has no limit of its own
            "labels": {LABEL: "1", OWNER_LABEL: owner()},
            "name": f"corecode-sandbox-{os.getpid()}-{next(_serials)}-{time.time_ns() & 0xFFFFFF:x}",
            # The engine closes standard input when this process dies; the runner then ends, and its container goes.
            "auto_remove": True,
        }

    def close(self) -> None:
        self._client.close()


class DockerWorker:
    """One container."""

    def __init__(self, client: Any, name: str, options: dict[str, Any]) -> None:
        self._client = client
        self._memory_mb, self._processes = 256, 16
        self._container = client.containers.create(name, ["python3", *PYTHON_OPTIONS, BOOT], **options)
        self._channel: Channel | None = None
        try:
            params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            attached = client.api.attach_socket(self._container.id, params=params)
            self._channel = Channel(socket.socket(fileno=os.dup(attached.fileno())), multiplexed=True)
            attached.close()
            self._container.start()
            scratch = ["/tmp", "/dev/shm", "/dev/mqueue"]
            config = runner_config(scratch=scratch, namespaced=True, count_processes=False, oom_files=_OOM_FILES)
            self.put(bundle(config))
            self.base_kb: int = self.get(time.monotonic() + START_S).header["base_kb"]
        except BaseException:
            self.close()
            raise

    def put(self, data: bytes) -> None:
        assert self._channel is not None
        self._channel.put(data)

    def get(self, deadline: float) -> Frame:
        assert self._channel is not None
        return self._channel.get(deadline)

    def fit(self, memory_mb: int, processes: int) -> None:
        fits = memory_mb <= self._memory_mb and processes <= self._processes
        # The engine takes 20 ms for a change: bounds a little too wide stay.
        close = 2 * (memory_mb + HEADROOM_MB) >= self._memory_mb + HEADROOM_MB and 4 * processes >= self._processes
        if fits and close:
            return
        import docker.errors

        self._memory_mb, self._processes = memory_mb, processes
        memory = (self._memory_mb + HEADROOM_MB) << 20
        api = self._client.api
        url = f"{api.base_url}/v{api.api_version}/containers/{self._container.id}/update"
        bounds = {"Memory": memory, "MemorySwap": memory, "PidsLimit": self._processes + 16}
        try:
            api.post(url, json=bounds, timeout=api.timeout).raise_for_status()
        except (docker.errors.DockerException, OSError) as error:
            raise WorkerLost(f"the engine does not change the container's limits ({error})") from error

    def oom_kills(self) -> int:
        """0: the runner reads its own group's counter and tells."""
        return 0

    def interrupt(self) -> None:
        if self._channel is not None:
            self._channel.interrupt()

    def close(self) -> None:
        import docker.errors

        # First: the engine would wait a minute for this connection to take what the container still wrote.
        if self._channel is not None:
            self._channel.close()
        with contextlib.suppress(docker.errors.DockerException, OSError):
            self._container.remove(force=True)
