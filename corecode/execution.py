"""Programs to judgements: duplicates are run once, an infrastructure failure is retried once, order is kept."""

from __future__ import annotations

from collections.abc import Sequence

from corecode.config import SandboxConfig
from corecode.errors import InfrastructureError
from corecode.problems import Problem
from sandbox import Judgement, Sandbox, SandboxUnavailable, Verdict, open_sandbox

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


class Executor:
    """Judges programs in a sandbox.

    With ``remember`` it keeps every verdict for its lifetime, so that a program is never run twice on a problem;
    otherwise duplicates are found within one call. Infrastructure failures are never remembered.
    """

    def __init__(self, sandbox: Sandbox, remember: bool = False) -> None:
        self.sandbox = sandbox
        self.submitted = 0
        """Programs asked about so far."""
        self.executed = 0
        """Programs that really ran, retries included."""
        self._remember = remember
        self._known: dict[tuple[str, str | None], Judgement] = {}

    def judge(self, jobs: Sequence[Job]) -> list[Judgement]:
        """Judge each program on its problem; results in input order.

        A judgement with verdict ``sandbox_error`` stands for a program that could not be judged twice in a row.
        """
        known = self._known if self._remember else {}
        self.submitted += len(jobs)
        waiting: dict[tuple[str, str | None], Job] = {}
        for problem, source in jobs:
            key = (problem.id, source)
            if key not in known:
                waiting[key] = (problem, source)
        failed: dict[tuple[str, str | None], Judgement] = {}
        for _attempt in range(2):
            if not waiting:
                break
            self.executed += len(waiting)
            judgements = self.sandbox.judge([problem.program(source) for problem, source in waiting.values()])
            for key, judgement in zip(list(waiting), judgements, strict=True):
                if judgement.verdict is Verdict.SANDBOX_ERROR:
                    failed[key] = judgement
                else:
                    known[key] = judgement
                    del waiting[key]
        return [
            known[key] if key in known else failed[key] for key in ((problem.id, source) for problem, source in jobs)
        ]
