"""The runner: PID 1 of a sandbox, the same for every backend.

It reads requests (frames of :mod:`sandbox.wire`) from file descriptor 0, has the zygote run one process a test,
collects what the processes write, and answers on descriptor 1. It never forks after its start, so no untrusted process
holds a copy of its memory; it is not dumpable, so none can look into it; and as PID 1 it cannot be killed from within.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, NoReturn

from sandbox import child, examiner, servant
from sandbox.scratch import Scratch
from sandbox.wire import Frame, FrameReader, pack
from sandbox.zygote import Zygote, own_size, settle

PR_SET_DUMPABLE = 4
GRACE_S = 4.0
"""How long after a test's wall limit the zygote may take to answer before it is taken for dead."""
FLUSH_S = 0.2
"""Results wait at most this long for others before they are sent."""
PATIENCE_S = 0.01
"""So long a test may keep results of the one before from being sent."""
CROWD = 8
"""With more threads than this, zygote and examiner among them, a program starves the zygote by itself."""
FLUSH_BYTES = 1 << 20
STDERR_KEPT = 4096
RUNNER_PROCESSES = 3
"""Runner, zygote and examiner, which count against a limit of processes."""
LARGE_SOURCE = 1 << 15
COMPILER = {"cpu_s": 10.0, "wall_s": 31.0}
EXAMINER = {"cpu_s": 20.0, "memory_bytes": 1 << 30, "file_bytes": 1 << 20}

Result = dict[str, Any]


class ZygoteLost(Exception):
    """The zygote died or does not answer: this sandbox has to be replaced."""


def _threads_elsewhere() -> int:
    """How many threads this PID namespace has, without our own."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:  # it has just ended
                continue
    return count


class Runner:
    """Serves requests until the host is gone."""

    def __init__(self, link: socket.socket, zygote: int, config: dict[str, Any]) -> None:
        self.link = link
        self.zygote = zygote
        self.config = config
        self.scratch = Scratch(config["scratch"])
        self.data_bytes, self.address_bytes = own_size()
        self.null = os.open("/dev/null", os.O_RDWR)
        self.reader = FrameReader()
        self.oom_kills = 0
        self.unsent = bytearray()
        self.sent = 0.0

    def serve(self) -> None:
        """Say hello, then answer requests; ends the process when the host closes the connection."""
        hello = {"ready": True, "python": sys.version.split()[0], "base_kb": self._calibrate(), "uid": os.getuid()}
        self._say(pack(hello))
        while True:
            frame = self.reader.next()
            if frame is not None:
                self._answer(frame)
                continue
            self.flush()
            data = os.read(0, 1 << 18)
            if not data:
                os._exit(0)
            self.reader.feed(data)

    def _calibrate(self) -> int:
        """Peak resident KiB of an interpreter that runs an empty program."""
        limits = {"cpu_s": 10.0, "wall_s": 30.0, "memory_bytes": 1 << 30, "output_bytes": 4096, "file_bytes": 1 << 20}
        request = {"kind": "stdio", "limits": {**limits, "processes": 64}, "steps": False}
        peaks: list[int] = []
        for _ in range(3):
            test = Test(self, request, {"in": 0}, (b"",))
            peaks.append(test.run(self.scratch.file(b""), self.scratch.file(b""))["peak_kb"])
        return min(peaks)

    def _answer(self, frame: Frame) -> None:
        """Run all tests of a request; the results go back in order, several to a frame."""
        request = frame.header
        program, cache = self.scratch.file(frame.blobs[0]), self.scratch.file(b"")
        uncompiled = self._compile(request, frame.blobs, program, cache)
        results: list[Result] = []
        blobs: list[bytes] = []
        retire = False
        sent = time.monotonic()
        left = len(request["tests"])
        for item in request["tests"]:
            test = uncompiled or Test(self, request, item, frame.blobs)
            try:
                result = {"why": "supervisor"} if retire else test.result or test.run(program, cache)
            except ZygoteLost:
                result = {"why": "supervisor"}
            retire = retire or result["why"] == "supervisor"
            if not self.scratch.clean():
                retire = True
            results.append(result)
            blobs += test.written()
            left -= 1
            # An examined program is killed when its tests are done, so its status says nothing.
            failed = result["why"] != "" or (result["status"] != 0 and request["kind"] != "asserts")
            last = left == 0 or (request["stop"] and failed)
            if last or time.monotonic() - sent > FLUSH_S or sum(map(len, blobs)) > FLUSH_BYTES:
                killed = any(one.get("status") == signal.SIGKILL for one in results)
                header = {"id": request["id"], "results": results, "last": last, "retire": retire}
                self._say(pack({**header, "oom": self._new_oom_kills() if killed else 0}, blobs))
                results, blobs, sent = [], [], time.monotonic()
            if last and retire:
                self.flush()
                os._exit(0)
            if last:
                break
        os.close(program)
        os.close(cache)

    def _say(self, data: bytes) -> None:
        """Send, at the latest when the runner has to wait for something: a busy host is not woken for every program."""
        self.unsent += data
        if len(self.unsent) > FLUSH_BYTES or time.monotonic() - self.sent > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Send what was said."""
        left = memoryview(bytes(self.unsent))
        self.unsent.clear()
        self.sent = time.monotonic()
        while left:
            left = left[os.write(1, left) :]

    def _compile(self, request: dict[str, Any], blobs: tuple[bytes, ...], program: int, cache: int) -> Test | None:
        """Compile a large source ahead, so that no test pays for it; the failed attempt, which stands for every test.

        A small one is compiled by the first test's process, which saves a fork.
        """
        if len(blobs[0]) < LARGE_SOURCE:
            return None
        limits = {**request["limits"], **COMPILER}
        test = Test(self, {**request, "kind": "compile", "limits": limits, "steps": False}, {"in": 0}, blobs)
        try:
            test.result = test.run(program, cache)
        except ZygoteLost:
            test.result = {"why": "supervisor"}
        return test if test.result["why"] or test.result["status"] else None

    def _new_oom_kills(self) -> int:
        """How many processes the kernel killed in this sandbox for want of memory since the last look."""
        total = 0
        for name in self.config["oom_files"]:
            try:
                with open(name) as file:
                    total += sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
            except OSError:
                continue
        new, self.oom_kills = total - self.oom_kills, total
        return new

    def command(self, request: dict[str, Any], limits: dict[str, Any], extra_s: float = 0.0) -> dict[str, Any]:
        """What the zygote and the process need to know of a request."""
        processes = limits["processes"] + RUNNER_PROCESSES if self.config["count_processes"] else 0
        memory = limits["memory_bytes"]
        return {
            "do": "serve" if request["kind"] == "asserts" else request["kind"],
            "name": request.get("name", "main.py"),
            "argv": request.get("argv", ["main.py"]),
            "steps": request["steps"],
            "limits": {
                "cpu_s": limits["cpu_s"],
                "wall_s": limits["wall_s"] + extra_s,
                "file_bytes": limits["file_bytes"],
                "processes": processes,
                "data_bytes": self.data_bytes + memory + self.config["data_slack"],
                "address_bytes": self.address_bytes + memory + self.config["address_slack"],
            },
        }

    def send(self, command: dict[str, Any], fds: list[int]) -> None:
        """Give the zygote a command."""
        try:
            socket.send_fds(self.link, [json.dumps(command).encode()], fds)
        except OSError as error:
            raise self.lose() from error

    def listen(self) -> dict[str, Any]:
        """One message of the zygote: a process has ended."""
        try:
            message = self.link.recv(1 << 16)
        except ConnectionError:
            message = b""
        if not message:
            raise self.lose()
        return json.loads(message)

    def give_up(self) -> NoReturn:
        """The zygote is silent: a program keeps it from running, or the machine is busy, which is no program's fault.

        Raises:
            ZygoteLost: in the first case. Otherwise this process ends, and the host starts anew.
        """
        with open(f"/proc/{self.zygote}/stat") as file:
            stopped = file.read().rpartition(")")[2].split()[0] == "T"
        if not stopped and not (self.config["namespaced"] and _threads_elsewhere() > CROWD):
            os._exit(1)
        raise self.lose()

    def lose(self) -> ZygoteLost:
        """Give up on the zygote: nobody but this process stays alive."""
        if self.config["namespaced"]:
            try:
                os.kill(-1, signal.SIGKILL)
                while True:
                    os.waitpid(-1, 0)
            except (ProcessLookupError, ChildProcessError):
                return ZygoteLost()
        return ZygoteLost()


class Test:
    """One run of a program on one input."""

    def __init__(self, runner: Runner, request: dict[str, Any], item: dict[str, Any], blobs: tuple[bytes, ...]) -> None:
        self.runner = runner
        self.request = request
        self.item = item
        self.blobs = blobs
        self.streams: dict[str, bytearray] = {"out": bytearray(), "err": bytearray(), "channel": bytearray()}
        self.readers: dict[int, str] = {}
        self.size = 0
        self.flooded = False
        self.result: Result = {}

    def written(self) -> list[bytes]:
        """What it wrote: standard output, the end of standard error, and its answer to a call or an examination."""
        return [bytes(self.streams[name]) for name in ("out", "err", "channel")]

    def run(self, program: int, cache: int) -> Result:
        """Run it and wait until nothing of it is left.

        Raises:
            ZygoteLost: when the sandbox has to be replaced.
        """
        runner, request = self.runner, self.request
        for name, index in self.item.get("files", {}).items():
            runner.scratch.put(name, self.blobs[index])
        kind, limits = request["kind"], request["limits"]
        data = runner.scratch.file(self.blobs[self.item["in"]])
        steps = runner.scratch.file(bytes(8)) if request["steps"] else runner.null
        if request["steps"]:
            os.ftruncate(steps, 1 << 12)
        temporary = [data] if steps == runner.null else [data, steps]
        out, err = self._pipe("out"), self._pipe("err")
        channel = runner.null
        answers = 1
        command = runner.command(request, limits)
        if kind == "call":
            channel = self._pipe("channel")
        elif kind == "asserts":
            channel = self._examine(limits, temporary)
            answers = 2
        command["channel"] = channel != runner.null
        runner.send(command, [data, out, err, program, cache, channel, steps])
        for fd in {out, err, channel} - {runner.null}:
            os.close(fd)
        try:
            result = self._collect(answers, limits)
            if request["steps"]:
                result["steps"] = struct.unpack("Q", os.pread(steps, 8, 0))[0]
            return result
        finally:
            for fd in [*temporary, *self.readers]:
                os.close(fd)

    def _examine(self, limits: dict[str, Any], temporary: list[int]) -> int:
        """Start the examiner; the descriptor through which the program's process talks to it."""
        runner = self.runner
        here, there = socket.socketpair()
        tests = runner.scratch.file(self.blobs[self.item["examiner"]])
        temporary.append(tests)
        report = self._pipe("channel")
        command = runner.command(self.request, {**limits, **EXAMINER}, extra_s=2.0)
        runner.send({**command, "do": "examine"}, [tests, report, here.fileno()])
        os.close(report)
        here.close()
        return there.detach()

    def _pipe(self, name: str) -> int:
        """A new pipe that this process reads into the stream ``name``; its writing end."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self.readers[reading] = name
        return writing

    def _collect(self, answers: int, limits: dict[str, Any]) -> Result:
        """Read the pipes until every process of this test has ended, and then what is left in them."""
        link = self.runner.link
        poll = select.poll()
        poll.register(0, 0)  # hang-up only: the host is gone
        poll.register(link, select.POLLIN)
        for fd in self.readers:
            poll.register(fd, select.POLLIN)
        end = time.monotonic() + limits["wall_s"] + GRACE_S
        said: dict[str, dict[str, Any]] = {}
        while len(said) < answers:
            left = end - time.monotonic()
            if left <= 0:
                self.runner.give_up()
            events = poll.poll(min(left, PATIENCE_S) * 1000 if self.runner.unsent else left * 1000)
            if not events:
                self.runner.flush()
            for fd, _ in events:
                if fd == 0:
                    os._exit(0)
                elif fd == link.fileno():
                    answer = self.runner.listen()
                    said[answer["tag"]] = answer
                elif not self._read(fd, limits["output_bytes"]):
                    poll.unregister(fd)
        for fd in self.readers:
            while self._read(fd, limits["output_bytes"]):
                pass
        examined = said.pop("examine", None)
        (result,) = said.values()
        if examined is not None:
            result["examiner_why"] = examined["why"]
            for name in ("stray_cpu_s", "stray_peak_kb", "strays"):
                result[name] += examined[name]  # one of them is 0: the last to be reaped finds the strays
        result["cpu_s"] += result["stray_cpu_s"]
        result["peak_kb"] = max(result["peak_kb"], result["stray_peak_kb"])
        if self.flooded:
            result["why"] = "output"
        return result

    def _read(self, fd: int, most: int) -> bool:
        """Read once from a pipe; False at its end, and when its writers are dead and it is empty."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        self.size += len(data)
        if self.size > most:
            if not self.flooded:
                self.flooded = True
                self.runner.send({"do": "kill"}, [])
            return bool(data)
        name = self.readers[fd]
        stream = self.streams[name]
        stream += data
        if name == "err":
            del stream[:-STDERR_KEPT]
        return bool(data)


def main(config: dict[str, Any]) -> None:
    """Start the zygote, then serve. Every process of an untrusted program leaves through this function."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Python PID 1 would die of it
    gc.collect()
    gc.freeze()
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        settle(config["scratch"][0], Scratch(config["scratch"]).file(b""))
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # for good, and for every fork of these two
    if pid:
        there.close()
        Runner(here, pid, config).serve()
        return
    here.close()
    job = Zygote(there, config["namespaced"]).serve()
    del there
    if job.command["do"] == "examine":
        examiner.examine(job)
    child.run(job, PURPOSES[job.command["do"]])


PURPOSES = {"stdio": child.run_stdio, "call": child.run_call, "serve": servant.serve, "compile": child.run_nothing}
