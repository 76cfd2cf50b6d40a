"""Run programs that a language model wrote, and say what they did. Usable alone::

    from sandbox import Program, TestCase, open_sandbox

    with open_sandbox() as sandbox:
        program = Program("print(int(input()) + 1)", (TestCase.stdio("4", "5"),))
        print(sandbox.backend, sandbox.judge([program])[0].verdict)

Threat model
============
The program is hostile: it runs any Python and any machine code it likes. The host, the tests and the checkers' authors
are trusted; checkers still run inside.

*Layout.* A sandbox is a container (docker) or a set of namespaces (bubblewrap), with ``runner.py`` as PID 1. The runner
reads requests and never forks after its start. A zygote, forked from it before the first request, forks one
process a test; it sees limits and file descriptors only. So a program finds in its memory its own source, this test's
input and the runner's code: no expected output, no other test, no other program. Runner, zygote and examiner are not
dumpable, and ptrace and its relatives are forbidden, so their memory and descriptors cannot be opened.

*What is enforced, on both backends:* no network (an empty network namespace); a read-only root with nothing but Python;
private /tmp, /dev/shm and message queues, emptied after every test; uid 65534, no capabilities, no new privileges; a
seccomp list of *allowed* calls; limits of memory, CPU and wall time, processes, file size and output; everything a
program leaves running is killed before the next one. ``capabilities`` says how memory and processes are bounded here:
by a control group, or (bubblewrap without one) by resource limits of each process alone.

*Verdicts cannot be forged.* Whatever a program writes, to whatever descriptor, is its answer and no more. Outputs and
return values are compared on the host, as plain data whose types are checked. Asserts run in an examiner, a process
without untrusted code, which asks the program's process for plain values; its report leaves through a pipe that only
it holds. Exit code 0 is not acceptance. A program that kills or freezes its zygote or examiner fails, and its sandbox
is replaced.

*Failures of the sandbox are not verdicts.* A runner that dies or stays silent is replaced, its program tried once
more, then reported as ``sandbox_error``. No call waits for ever. When the owning process is killed, bubblewrap's
processes die with it; a container ends because its standard input closes, and the next opening sweeps what an engine
forgot.

*Not covered.* Faults of the kernel, the container runtime or the CPU (side channels). Timing of a neighbour's load, and
the few bits that numbers of processes and inodes tell of the programs before.
Counted steps: they are counted in the program's own interpreter, so a program bent on it can lower them; CPU time and
memory are the kernel's. What asserts take from the program by name without defining it themselves, such as helper
functions of a prompt, is the program's. A checker, to do its work, gets the expected output inside, after the program
has ended. ``unsafe`` promises nothing at all.

Costs
=====
CPU time: user and system, of the program, its waited-for children and its strays; varies 10-40 % under load. Wall time:
from fork to reaping. Peak memory: largest resident set of any one process above an empty program's; repeats within
1 %. Steps: see :mod:`sandbox.steps`; exact. Limits count the time that the program really took, also when counting
steps slows it.
"""

from __future__ import annotations

from sandbox.errors import SandboxUnavailable
from sandbox.opening import BackendName, open_sandbox
from sandbox.sweeping import sweep
from sandbox.types import Comparison, Judgement, Limits, Program, Sandbox, TestCase, TestResult, Verdict

__all__ = [
    "BackendName",
    "Comparison",
    "Judgement",
    "Limits",
    "Program",
    "Sandbox",
    "SandboxUnavailable",
    "TestCase",
    "TestResult",
    "Verdict",
    "open_sandbox",
    "sweep",
]
