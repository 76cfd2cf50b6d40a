"""Programs to judgements: duplicates are run once, an infrastructure failure is retried once, order is kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from corecode.config import SandboxConfig
from corecode.errors import InfrastructureError
from corecode.problems import Problem
from sandbox import Judgement, Program, Sandbox, SandboxUnavailable, Verdict, open_sandbox

Job = tuple[Problem, str | None]
"""A problem and the program that should solve it (None: no program was found)."""


def open_configured(config: SandboxConfig) -> Sandbox:
    """The sandbox that a profile asks for.

    Raises:
        InfrastructureError: when it cannot be had here; the message names the remedy.
    """
    try:
        return open_sandbox(config.backend, workers=config.workers, cost=config.cost)
    except SandboxUnavailable as error:
        raise InfrastructureError(str(error)) from error


_Key = tuple[str, str | None]
"""A problem's id and a program."""
AHEAD = 64
"""Programs handed to the sandbox ahead of time at once: more than its workers keep in hand."""


class _Ahead:
    """Judges programs while others are still being written, each as soon as a worker is free."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._threads = ThreadPoolExecutor(AHEAD, thread_name_prefix="judge-ahead")
        self._lock = threading.Lock()
        self._begun: dict[_Key, Future[Judgement]] = {}

    def add(self, key: _Key, program: Program) -> None:
        """Judge this program too, unless that has begun already."""
        with self._lock:
            if key not in self._begun:
                self._begun[key] = self._threads.submit(self._judge, program)

    def take(self) -> dict[_Key, Judgement]:
        """The judgements of all programs since the last call; waits for them. Raises what the sandbox raised."""
        with self._lock:
            begun, self._begun = self._begun, {}
        return {key: future.result() for key, future in begun.items()}

    def _judge(self, program: Program) -> Judgement:
        return self._sandbox.judge([program])[0]


class Executor:
    """Judges programs in a sandbox.

    With ``remember`` it keeps every verdict for its lifetime, so that a program is never run twice on a problem;
    otherwise duplicates are found within one call. Infrastructure failures are never remembered. With ``pass_or_fail``
    a program's tests end with the first that fails: who asks wants to know whether it passes them all, and no ratio.
    """

    def __init__(self, sandbox: Sandbox, remember: bool = False, pass_or_fail: bool = False) -> None:
        self.sandbox = sandbox
        self.submitted = 0
        """Programs asked about so far."""
        self.executed = 0
        """Programs that really ran, retries included."""
        self._remember = remember
        self._pass_or_fail = pass_or_fail
        self._known: dict[_Key, Judgement] = {}
        self._begun = _Ahead(sandbox)

    def begin(self, problem: Problem, source: str | None) -> None:
        """Start to judge a program that the next :meth:`judge` will ask about; returns at once, from any thread."""
        if source is not None:
            self._begun.add((problem.id, source), self._program(problem, source))

    def _program(self, problem: Problem, source: str | None) -> Program:
        return replace(problem.program(source), stop_at_first_failure=self._pass_or_fail)

    def judge(self, jobs: Sequence[Job]) -> list[Judgement]:
        """Judge each program on its problem; results in input order.

        A judgement with verdict ``sandbox_error`` stands for a program that could not be judged twice in a row.
        """
        ahead = self._begun.take()
        known = self._known if self._remember else {}
        self.submitted += len(jobs)
        waiting: dict[_Key, Job] = {}
        for problem, source in jobs:
            key = (problem.id, source)
            if key not in known:
                waiting[key] = (problem, source)
        failed: dict[_Key, Judgement] = {}
        for _attempt in range(2):
            if not waiting:
                break
            self.executed += len(waiting)
            rest = [key for key in waiting if key not in ahead]
            judgements = self.sandbox.judge([self._program(*waiting[key]) for key in rest])
            found = {**ahead, **dict(zip(rest, judgements, strict=True))}
            ahead = {}
            for key in list(waiting):
                judgement = found[key]
                if judgement.verdict is Verdict.SANDBOX_ERROR:
                    failed[key] = judgement
                else:
                    known[key] = judgement
                    del waiting[key]
        return [
            known[key] if key in known else failed[key] for key in ((problem.id, source) for problem, source in jobs)
        ]
