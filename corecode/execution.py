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


class _Ahead:
    """Judges programs in a thread while others are still being written. Those that wait form one batch."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge-ahead")
        self._lock = threading.Lock()
        self._known: set[_Key] = set()
        self._waiting: dict[_Key, Program] = {}
        self._batches: list[Future[dict[_Key, Judgement]]] = []

    def add(self, key: _Key, program: Program) -> None:
        """Judge this program too, unless that has begun already."""
        with self._lock:
            if key in self._known:
                return
            self._known.add(key)
            self._waiting[key] = program
            if len(self._waiting) == 1:
                self._batches.append(self._thread.submit(self._judge_waiting))

    def take(self) -> dict[_Key, Judgement]:
        """The judgements of all programs since the last call; waits for them. Raises what the sandbox raised."""
        with self._lock:
            batches, self._batches = self._batches, []
            self._known = set()
        return {key: judgement for batch in batches for key, judgement in batch.result().items()}

    def _judge_waiting(self) -> dict[_Key, Judgement]:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return dict(zip(waiting, self._sandbox.judge(list(waiting.values())), strict=True))


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
