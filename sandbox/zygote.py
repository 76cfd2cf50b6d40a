"""The zygote: forks the processes that run programs, watches their time, and reaps whatever they leave.

It is forked from the runner before the first request and only ever sees commands (limits and kinds of job) and file
descriptors. So no fork of it can find a test, an expected value or another program in its memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import select
import signal
import socket
import time
from dataclasses import dataclass
from typing import Any

from sandbox.child import Job, open_standard_streams

PR_SET_CHILD_SUBREAPER = 36
MAX_COMMAND = 1 << 16
STACK_BYTES = 120 << 20
"""Stack of the main thread: deep recursion inside C functions must not end in a segmentation fault at 8 MiB."""


@dataclass
class _Child:
    pid: int
    tag: str
    started: float
    wall_end: float
    cpu_s: float
    check_at: float
    why: str = ""


@dataclass
class _Strays:
    """Processes that a program left running, and what they cost."""

    count: int = 0
    cpu_s: float = 0.0
    peak_kb: int = 0


class Zygote:
    """``namespaced``: this process lives in a PID namespace of its own, where a signal to everybody is safe."""

    def __init__(self, link: socket.socket, namespaced: bool) -> None:
        self.link = link
        self.namespaced = namespaced
        self.poll = select.poll()
        self.children: dict[int, _Child] = {}

    def serve(self) -> Job:
        """Obey the runner. Returns in a forked child only, with its job; ends the process when the runner is gone."""
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans become children of this process
        self.poll.register(self.link, select.POLLIN)
        while True:
            for fd, _ in self.poll.poll(self._timeout_ms()):
                if fd in self.children:
                    self._reap(fd)
                elif fd == self.link.fileno():
                    job = self._obey()
                    if job is not None:
                        return job
            self._enforce_time()

    def _obey(self) -> Job | None:
        try:
            message, fds, _, _ = socket.recv_fds(self.link, MAX_COMMAND, 16)
        except ConnectionError:
            message, fds = b"", []
        if not message:
            os._exit(0)
        command = json.loads(message)
        if command["do"] == "kill":
            for child in self.children.values():
                _kill(child.pid)
            return None
        started = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            for fd in self.children:
                os.close(fd)
            self.link.close()
            return Job(command, fds)
        for fd in fds:
            os.close(fd)
        self._watch(pid, command, started)
        return None

    def _watch(self, pid: int, command: dict[str, Any], started: float) -> None:
        limits = command["limits"]
        end = started + limits["wall_s"]
        child = _Child(pid, command["do"], started, end, limits["cpu_s"], min(end, started + limits["cpu_s"]))
        fd = os.pidfd_open(pid)
        self.poll.register(fd, select.POLLIN)
        self.children[fd] = child

    def _timeout_ms(self) -> int | None:
        if not self.children:
            return None
        soonest = min(child.check_at for child in self.children.values())
        return max(0, math.ceil((soonest - time.perf_counter()) * 1000))

    def _enforce_time(self) -> None:
        now = time.perf_counter()
        for child in self.children.values():
            if child.why or now < child.check_at:
                continue
            left = child.cpu_s - _cpu_seconds(child.pid)
            if left <= 0:
                child.why = "cpu"
            elif now >= child.wall_end:
                child.why = "wall"
            if child.why:
                _kill(child.pid)
                child.check_at = now + 3600
            else:
                child.check_at = min(child.wall_end, now + max(left, 0.005))

    def _reap(self, fd: int) -> None:
        child = self.children.pop(fd)
        self.poll.unregister(fd)
        os.close(fd)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - child.started
        if child.tag == "examine":  # its partner has nobody left to answer to
            for partner in self.children.values():
                _kill(partner.pid)
        strays = _Strays() if self.children else self._sweep()
        answer = {
            "tag": child.tag,
            "status": status,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "stray_cpu_s": strays.cpu_s,
            "wall_s": wall,
            "peak_kb": usage.ru_maxrss,
            "stray_peak_kb": strays.peak_kb,
            "why": child.why,
            "strays": strays.count,
        }
        self.link.send(json.dumps(answer).encode())

    def _sweep(self) -> _Strays:
        """Kill and reap every process that a program left."""
        strays = _Strays()
        while True:
            try:
                pid, _, usage = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    self._kill_all()
                    pid, _, usage = os.wait4(-1, 0)
            except ChildProcessError:
                return strays
            strays.count += 1
            strays.cpu_s += usage.ru_utime + usage.ru_stime
            strays.peak_kb = max(strays.peak_kb, usage.ru_maxrss)

    def _kill_all(self) -> None:
        if self.namespaced:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # everybody but this process and the runner, which is PID 1
            return
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            for pid in file.read().split():
                _kill(int(pid))


def settle(home: str, stdin: int) -> None:
    """Arrange once what every program needs: standard streams, working directory, limits that are always the same."""
    pipes = [os.pipe(), os.pipe()]
    for fd, number in ((stdin, 0), (pipes[0][1], 1), (pipes[1][1], 2)):
        os.dup2(fd, number)
    for fd in (stdin, *pipes[0], *pipes[1]):
        os.close(fd)
    open_standard_streams()
    os.chdir(home)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    stack = STACK_BYTES if hard == resource.RLIM_INFINITY else min(STACK_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when the sandbox's memory is short, a program goes before the runner


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process so far: the kernel's clock number of a process is ``~pid << 3 | 2``."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def own_size() -> tuple[int, int]:
    """Bytes of private data and of address space of this process, to which a program's limits are added."""
    with open("/proc/self/statm") as file:
        pages = [int(part) for part in file.read().split()]
    return pages[5] * resource.getpagesize(), pages[0] * resource.getpagesize()
