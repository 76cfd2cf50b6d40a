"""The system calls that a sandbox may make: one list of allowed ones, for both backends.

Everything that is not in ``seccomp.json`` fails with EPERM: among others ptrace, io_uring, bpf, perf, keyrings, System
V and POSIX message queues and shared memory, extended attributes, namespaces, mounts, and scheduling or limits of
other processes. What happens on SIGCHLD cannot be changed: a process that ignores it has children whose CPU time no
one is told of. ``clone3`` fails with ENOSYS, so that the C library falls back to ``clone``, whose flags can be read.
"""

from __future__ import annotations

import errno
import json
import os
import signal
from functools import cache
from importlib.resources import files
from typing import Any, BinaryIO

from sandbox.errors import SandboxUnavailable

_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEW* of mount, cgroup, uts, ipc, user, pid, net and time."""
_LARGEST_FAMILY = 10
"""AF_INET6: sockets of later families (netlink, packet, vsock, alg) do not open."""


@cache
def allowed() -> list[str]:
    """Names of the system calls that are allowed without conditions."""
    return json.loads((files("sandbox") / "seccomp.json").read_text(encoding="utf-8"))["allow"]


def docker_profile() -> dict[str, Any]:
    """The policy in the engine's format."""

    def rule(names: list[str], action: str, *args: dict[str, Any], number: int | None = None) -> dict[str, Any]:
        extra = {} if number is None else {"errnoRet": number}
        return {"names": names, "action": action, "args": list(args), **extra}

    def arg(index: int, op: str, value: int, second: int = 0) -> dict[str, Any]:
        return {"index": index, "op": op, "value": value, "valueTwo": second}

    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": errno.EPERM,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": [
            rule(allowed(), "SCMP_ACT_ALLOW"),
            rule(["clone"], "SCMP_ACT_ALLOW", arg(0, "SCMP_CMP_MASKED_EQ", _NEW_NAMESPACES, 0)),
            rule(["socket"], "SCMP_ACT_ALLOW", arg(0, "SCMP_CMP_LE", _LARGEST_FAMILY)),
            rule(["rt_sigaction"], "SCMP_ACT_ALLOW", arg(0, "SCMP_CMP_NE", signal.SIGCHLD)),
            rule(["rt_sigaction"], "SCMP_ACT_ALLOW", arg(1, "SCMP_CMP_EQ", 0)),
            rule(["prlimit64"], "SCMP_ACT_ALLOW", arg(0, "SCMP_CMP_EQ", 0)),
            rule(["personality"], "SCMP_ACT_ALLOW", arg(0, "SCMP_CMP_EQ", 0xFFFFFFFF)),
            rule(["clone3"], "SCMP_ACT_ERRNO", number=errno.ENOSYS),
        ],
    }


def bpf_program() -> BinaryIO:
    """The policy as a compiled filter in an anonymous file, positioned at its start.

    Raises:
        SandboxUnavailable: when libseccomp is not installed.
    """
    try:
        import pyseccomp as seccomp
    except (ImportError, OSError, RuntimeError) as error:
        raise SandboxUnavailable(
            f"the bubblewrap backend needs pyseccomp and libseccomp ({error}): "
            "pip install pyseccomp, and install the system's libseccomp2 package"
        ) from error
    program = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    for name in allowed():
        if _known(seccomp, name):
            program.add_rule(seccomp.ALLOW, name)
    program.add_rule(seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _NEW_NAMESPACES, 0))
    program.add_rule(seccomp.ALLOW, "socket", seccomp.Arg(0, seccomp.LE, _LARGEST_FAMILY))
    program.add_rule(seccomp.ALLOW, "rt_sigaction", seccomp.Arg(0, seccomp.NE, signal.SIGCHLD))
    program.add_rule(seccomp.ALLOW, "rt_sigaction", seccomp.Arg(1, seccomp.EQ, 0))
    program.add_rule(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0))
    program.add_rule(seccomp.ALLOW, "personality", seccomp.Arg(0, seccomp.EQ, 0xFFFFFFFF))
    if _known(seccomp, "clone3"):
        program.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    file = os.fdopen(os.memfd_create("seccomp"), "w+b", buffering=0)
    program.export_bpf(file)
    file.seek(0)
    return file


def _known(seccomp: Any, name: str) -> bool:
    """Whether this machine has the call and its libseccomp has heard of it; others stay forbidden."""
    try:
        return seccomp.resolve_syscall(seccomp.system_arch(), name) >= 0
    except (ValueError, OSError):
        return False
