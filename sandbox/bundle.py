"""The runner's modules as one message, so that any Python 3.11 or later can be a sandbox: no file of ours is in it."""

from __future__ import annotations

import json
import struct
from importlib.resources import files
from typing import Any

_MODULES = ("wire", "plain", "steps", "child", "scratch", "zygote", "rpc", "servant", "examiner", "runner")
"""In the order of their imports."""

_WARM = (
    *("abc", "argparse", "array", "base64", "bisect", "calendar", "cmath", "collections", "contextlib", "copy"),
    *("dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "io"),
    *("itertools", "json", "math", "numbers", "operator", "os", "queue", "random", "re", "statistics", "string"),
    *("struct", "sys", "textwrap", "threading", "time", "traceback", "types", "typing"),
)
"""Modules that programs often import; the zygote has them ready."""

PYTHON_OPTIONS = ("-s", "-P", "-c")
"""Isolated like ``-I``, but heeding the environment, which is ours: without PYTHONHASHSEED no run repeats another."""

BOOT = """
import sys, os, json, types
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part: os._exit(0)
        data += part
    return data
def load():
    bundle = json.loads(take(int.from_bytes(take(4), "big")))
    for name in bundle["warm"]: __import__(name)
    sys.modules["sandbox"] = package = types.ModuleType("sandbox")
    package.__path__ = []
    for name, source in bundle["modules"]:
        module = sys.modules["sandbox." + name] = types.ModuleType("sandbox." + name)
        setattr(package, name, module)
        exec(compile(source, "<sandbox." + name + ">", "exec"), module.__dict__)
    return sys.modules["sandbox.runner"].main, bundle["config"]
main, config = load()
del load, take
main(config)
"""
"""What the interpreter is started with; the bundle follows on standard input."""


def bundle(config: dict[str, Any]) -> bytes:
    """The first message to a new interpreter. ``config``: see :func:`runner_config`."""
    folder = files("sandbox")
    modules = [(name, (folder / f"{name}.py").read_text(encoding="utf-8")) for name in _MODULES]
    text = json.dumps({"warm": _WARM, "modules": modules, "config": config}).encode()
    return struct.pack("!I", len(text)) + text


def runner_config(
    *,
    scratch: list[str],
    namespaced: bool,
    count_processes: bool,
    oom_files: list[str] | None = None,
    address_slack_mb: int = 4096,
) -> dict[str, Any]:
    """How a runner has to behave in its place.

    Args:
        scratch: folders a program can write to; the first is its working directory.
        namespaced: the runner is PID 1 of a PID namespace of its own.
        count_processes: RLIMIT_NPROC counts this sandbox's processes only.
        oom_files: where the sandbox itself may read how many processes its group lost to a want of memory.
        address_slack_mb: address space above the memory limit, for shared mappings and thread arenas.
    """
    return {
        "scratch": scratch,
        "namespaced": namespaced,
        "count_processes": count_processes,
        "oom_files": oom_files or [],
        "data_slack": 512 << 20,
        "address_slack": address_slack_mb << 20,
    }
