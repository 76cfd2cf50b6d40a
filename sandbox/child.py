"""The process that runs one untrusted program on one test. Inside the sandbox only.

It is a fresh fork of the zygote, which has never seen a request: all that this process can find in its own memory is
the program, this test's input and the code of the runner. Nothing here is trusted once the program has started.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import marshal
import math
import os
import random
import resource
import signal
import struct
import sys
import threading
import typing
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, NoReturn

from sandbox import plain
from sandbox.steps import StepCounter

_SIZE = struct.Struct("!Q")
CRASHED = 1
"""Exit code after an uncaught exception, as Python's own."""


@dataclass
class Job:
    """What a fork of the zygote has to do: a command and its file descriptors, in the command's order."""

    command: dict[str, Any]
    fds: list[int]


@dataclass
class Task:
    """A prepared job: the compiled program, its input and the channels left open."""

    code: CodeType
    command: dict[str, Any]
    data: bytes
    channel: int
    counter: StepCounter | None


def read_all(fd: int) -> bytes:
    """The whole content of a regular file, from its start."""
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", closefd=False) as file:
        return file.read()


def run(job: Job, purpose: Callable[[Task], int]) -> NoReturn:
    """Run the job and end the process. ``job.fds``: stdin, stdout, stderr, program, cache, channel, steps."""
    code = 125
    try:
        task = _prepare(job)
        code = purpose(task)
    except SystemExit as error:
        code = exit_code(error)
    except BaseException as error:  # whatever the program throws ends here
        code = report(error)
    finally:
        finish(code)


def _prepare(job: Job) -> Task:
    stdin, stdout, stderr, program, cache, channel, steps = job.fds
    command = job.command
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    data = b""
    if command["do"] != "stdio":
        data = read_all(stdin)
        stdin = os.open("/dev/null", os.O_RDONLY)
    os.dup2(stdin, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    counter = StepCounter(steps) if command["steps"] else None
    code = _compiled(program, cache, command["name"])
    close_others(channel if command["channel"] else 0)
    set_limits(command["limits"])
    random.seed(0)  # forks share the zygote's generator; a verdict must not depend on it
    return Task(code, command, data, channel, counter)


def _compiled(program: int, cache: int, name: str) -> CodeType:
    """The program's code: from the cache that an earlier test's process left *before* it ran anything untrusted."""
    cached = read_all(cache)
    if len(cached) > _SIZE.size and _SIZE.unpack_from(cached)[0] == len(cached):
        return marshal.loads(memoryview(cached)[_SIZE.size :])
    code = compile(read_all(program), name, "exec", dont_inherit=True)
    data = marshal.dumps(code)
    # The size comes last: a process that is killed here leaves nothing that looks whole.
    for content, position in ((data, _SIZE.size), (_SIZE.pack(_SIZE.size + len(data)), 0)):
        left = memoryview(content)
        while left:
            written = os.pwrite(cache, left, position)
            left, position = left[written:], position + written
    return code


def open_standard_streams() -> None:
    """Streams like those of a fresh interpreter in a UTF-8 locale; they stay open for good.

    The zygote opens them once, on a file and two pipes; in a child other files and pipes take these numbers.
    """
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def close_others(*keep: int) -> None:
    """Close every descriptor above 2 that is not kept."""
    low = 3
    for fd in sorted(fd for fd in keep if fd > 2):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, max(low, 256))


def set_limits(limits: dict[str, Any]) -> None:
    """Lower this process's limits for good."""
    seconds = math.ceil(limits["cpu_s"])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds + 1, seconds + 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["file_bytes"], limits["file_bytes"]))
    resource.setrlimit(resource.RLIMIT_DATA, (limits["data_bytes"], limits["data_bytes"]))
    resource.setrlimit(resource.RLIMIT_AS, (limits["address_bytes"], limits["address_bytes"]))
    if limits["processes"]:
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"], limits["processes"]))


def new_module(name: str, filename: str) -> dict[str, Any]:
    """A fresh module registered as ``name``; its namespace."""
    module = ModuleType(name)
    sys.modules[name] = module
    namespace = module.__dict__
    namespace["__builtins__"] = __builtins__
    namespace["__file__"] = filename
    return namespace


def run_nothing(_task: Task) -> int:
    """Leave the compiled program for others."""
    return 0


def run_stdio(task: Task) -> int:
    sys.argv = task.command["argv"]
    namespace = new_module("__main__", task.command["name"])
    if task.counter is not None:
        task.counter.start()
    exec(task.code, namespace)
    return 0


def run_call(task: Task) -> int:
    """Call one function with plain arguments and write its plain result to the channel."""
    request = json.loads(task.data)
    sys.argv = ["main.py"]
    namespace = new_module("program", task.command["name"])
    namespace.update(CALL_PRELUDE)
    arguments = plain.loads(request["arguments"])
    assert isinstance(arguments, list)
    if task.counter is not None:
        task.counter.start()
    exec(task.code, namespace)
    if request["setup"]:
        exec(compile(request["setup"], "setup.py", "exec", dont_inherit=True), namespace)
    function = find_function(namespace, request["function"])
    result = function(*arguments[0], **arguments[1])
    if task.counter is not None:
        task.counter.stop()
    try:
        answer = {"value": plain.dumps(result)}
    except plain.NotPlain as error:
        answer = {"refused": str(error)}
    left = memoryview(json.dumps(answer).encode())
    while left:
        left = left[os.write(task.channel, left) :]
    return 0


def find_function(namespace: dict[str, Any], name: str) -> Callable[..., Any]:
    """A function of the program, or the method of that name of its class ``Solution``."""
    if name in namespace:
        return namespace[name]
    if "Solution" in namespace:
        return getattr(namespace["Solution"](), name)
    raise NameError(f"name {name!r} is not defined")


def exit_code(error: SystemExit) -> int:
    """The exit status that Python gives this exception."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 255
    with contextlib.suppress(BaseException):
        print(error.code, file=sys.stderr)
    return CRASHED


def report(error: BaseException) -> int:
    """Print an uncaught exception as Python does, without the runner's own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<sandbox"):
        trace = trace.tb_next
    try:
        sys.excepthook(type(error), error, trace)
        sys.stderr.flush()
    except BaseException:  # out of memory, or a hook of the program's own
        os.write(2, b"\n" + type(error).__name__.encode("ascii", "replace") + b"\n")
    return CRASHED


def finish(code: int) -> NoReturn:
    """End as an interpreter does: wait for threads, run exit functions, flush; then leave without teardown."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter itself calls at exit
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        for stream in (sys.stdout, sys.__stdout__, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException:  # a stream that the program closed, or an exit function that fails
        code = code or 120
    finally:
        os._exit(code)


def _call_prelude() -> dict[str, Any]:
    """Names that function-style problems take for granted in a signature."""
    names: dict[str, Any] = {name: getattr(typing, name) for name in typing.__all__}
    for module in ("bisect", "collections", "functools", "heapq", "itertools", "math", "operator", "re", "string"):
        names[module] = __import__(module)
    for module, exported in (
        ("collections", ("Counter", "OrderedDict", "defaultdict", "deque")),
        ("functools", ("cache", "lru_cache", "reduce")),
        ("heapq", ("heapify", "heappop", "heappush")),
        ("math", ("ceil", "comb", "floor", "gcd", "inf", "sqrt")),
        ("itertools", ("accumulate", "combinations", "permutations", "product")),
        ("bisect", ("bisect_left", "bisect_right")),
    ):
        names.update({name: getattr(__import__(module), name) for name in exported})
    return names


CALL_PRELUDE = _call_prelude()
