"""Run a command and own its whole process tree: when this program ends, no descendant is left.

Stands alone (standard library only), so that it starts in 20 ms. It is a child-subreaper: processes that leave their
session or lose their parent still come back to it. It ends the tree when it gets SIGTERM, SIGINT or SIGHUP, and when
its own parent dies, however that happens (PR_SET_PDEATHSIG). The command first gets SIGTERM, then, once it is gone,
whatever it left behind; ``--grace`` seconds after the first everything left gets SIGKILL.

Files that the command's processes leave behind when they are killed are named by ``--leftovers``, a glob pattern; they
are removed when no process is left.

Exit code: the command's, 128 + n when it died of signal n, 128 + n when signal n ended the supervision.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PARENT_VARIABLE = "CORECODE_SUPERVISOR_PARENT"
"""Environment variable with the pid of the process that must stay alive."""
ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PARENT_CHECK_S = 1.0
"""Fallback beside PDEATHSIG, which a kernel clears when credentials change."""


def descendants(root: int) -> set[int]:
    """Pids of all living descendants of ``root``; zombies are not alive."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                state, parent = stat.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it ended while we looked
        if state != "Z":
            parents[int(entry)] = int(parent)
    found: set[int] = set()
    grew = True
    while grew:
        new = {pid for pid, parent in parents.items() if pid not in found and (parent == root or parent in found)}
        found |= new
        grew = bool(new)
    return found


def signal_all(pids: Iterable[int], number: int) -> None:
    """Send a signal to each pid that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def kill_descendants(root: int, patience_s: float = 10.0) -> set[int]:
    """SIGKILL all descendants of ``root`` until none is left; return those that survived the patience."""
    deadline = time.monotonic() + patience_s
    while (left := descendants(root)) and time.monotonic() < deadline:
        signal_all(left, signal.SIGKILL)
        time.sleep(0.02)
    return left


def _arm(number: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def _reap(child: subprocess.Popen[bytes]) -> int | None:
    """Collect every zombie that was re-parented to us; return the command's exit code once it ended."""
    code = child.poll()
    while True:
        try:
            status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return code
        if status is None:
            return code
        if status.si_pid == child.pid:
            code = child.wait()
        else:
            os.waitpid(status.si_pid, os.WNOHANG)


def main(arguments: list[str]) -> int:
    """Supervise the command after ``--``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--leftovers", default="", help="glob pattern of files to remove at the end")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command

    # Signals are taken by sigtimedwait below: no handler, no polling, no race between check and wait.
    watched = {signal.SIGCHLD, *ENDINGS}
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _arm(signal.SIGTERM)
    parent = int(os.environ.get(PARENT_VARIABLE) or os.getppid())
    if os.getppid() != parent:
        return 128 + signal.SIGTERM  # the parent died before PDEATHSIG was armed

    def before_exec() -> None:
        # A shell starts background commands with SIGINT ignored; the tree needs it, launchers end their ranks with it.
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, inherited)
        _arm(signal.SIGKILL)  # should this supervisor itself be killed, the command goes too

    child = subprocess.Popen(command, preexec_fn=before_exec)
    code: int | None = None
    ended_by = 0
    while code is None and not ended_by:
        arrived = signal.sigtimedwait(watched, PARENT_CHECK_S)
        if arrived is not None and arrived.si_signo in ENDINGS:
            ended_by = arrived.si_signo
        elif os.getppid() != parent:
            ended_by = signal.SIGTERM
        code = _reap(child)

    me = os.getpid()
    told = {child.pid}
    if ended_by and code is None:
        signal_all(told, signal.SIGTERM)
    deadline = time.monotonic() + (options.grace if ended_by else 0.0)
    while (remaining := deadline - time.monotonic()) > 0 and (left := descendants(me)):
        if code is not None:  # it did not pass the signal on, as DeepSpeed's runner does not: its ranks would train on
            signal_all(left - told, signal.SIGTERM)
            told |= left
        signal.sigtimedwait({signal.SIGCHLD}, min(remaining, 0.2))
        ended = _reap(child)
        code = ended if code is None else code
    survivors = kill_descendants(me)
    final = _reap(child)
    for path in glob.glob(options.leftovers):
        os.unlink(path)
    code = final if code is None else code
    if survivors:
        print(f"supervisor: could not end {sorted(survivors)}", file=sys.stderr)
    if ended_by:
        return 128 + ended_by
    return code if code is not None and code >= 0 else 128 - (code or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
