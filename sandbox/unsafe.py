"""No isolation at all: the runner as a plain subprocess. Only for programs that are trusted anyway."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings

from sandbox.backend import START_S
from sandbox.bundle import BOOT, PYTHON_OPTIONS, bundle, runner_config
from sandbox.channel import Channel
from sandbox.wire import Frame


class UnsafeBackend:
    """Starts interpreters that run with all rights of this user."""

    name = "unsafe"

    def __init__(self) -> None:
        warnings.warn(
            "the sandbox 'unsafe' isolates nothing: every program runs with your rights, on your files and network",
            stacklevel=4,
        )
        self.capabilities: dict[str, object] = {
            "isolation": "none",
            "memory": "rlimit",
            "processes": "none",
            "seccomp": False,
            "network": True,
        }

    def start(self) -> UnsafeWorker:
        return UnsafeWorker()

    def close(self) -> None:
        """Nothing is shared between workers."""


class UnsafeWorker:
    """One interpreter and its working folder."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="corecode-unsafe-")
        here, there = socket.socketpair()
        self._channel = Channel(here)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, *PYTHON_OPTIONS, BOOT],
                stdin=there.fileno(),
                stdout=there.fileno(),
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin", "HOME": self._folder, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
        try:
            self.put(bundle(runner_config(scratch=[self._folder], namespaced=False, count_processes=False)))
            self.base_kb: int = self.get(time.monotonic() + START_S).header["base_kb"]
        except BaseException:
            self.close()
            raise

    def put(self, data: bytes) -> None:
        self._channel.put(data)

    def get(self, deadline: float) -> Frame:
        return self._channel.get(deadline)

    def fit(self, memory_mb: int, processes: int) -> None:
        """There are no outer bounds."""

    def oom_kills(self) -> int:
        return 0

    def interrupt(self) -> None:
        self._channel.interrupt()

    def close(self) -> None:
        self._channel.close()
        try:
            self._process.wait(timeout=2)  # the runner ends when its connection closes
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
