"""The pool: lanes of one thread and one sandbox each, fed from one queue."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from sandbox.backend import Backend, Worker
from sandbox.channel import WorkerLost
from sandbox.errors import SandboxUnavailable
from sandbox.exchange import Exchange, Reply, exchange
from sandbox.judging import Raw, unjudged, wall_s
from sandbox.types import Judgement, Program, Verdict
from sandbox.wire import Frame

Cost = Literal["cpu_time", "steps"]
ATTEMPTS = 2
"""A program whose sandbox died is tried once more; then it counts as a sandbox error."""
INBOX = 4
"""Programs in a sandbox at a time, of which one runs: it never waits for us. A batch's end is shared out singly."""
SILENCE_S = 12.0
"""How long after a test's wall limit a runner may keep silent."""
RESTART_PAUSE_S = 0.5
_STREAMS = 3
"""Blobs a test's result has: standard output, standard error, answer."""


@dataclass
class _Job:
    program: Program
    future: Future[Judgement] = field(default_factory=Future[Judgement])
    submitted: float = field(default_factory=time.monotonic)
    attempts: int = 0
    course: Exchange | None = None
    reply: Reply = field(default_factory=lambda: Reply(0))

    def fail(self, reason: str) -> None:
        """The sandbox could not judge this program."""
        self.future.set_result(unjudged(self.program, Verdict.SANDBOX_ERROR, reason))


class Pool:
    """A :class:`sandbox.types.Sandbox` over any backend."""

    def __init__(self, backend: Backend, workers: int, cost: Cost) -> None:
        """Start the first sandbox.

        Raises:
            SandboxUnavailable: when it cannot be started.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.backend = backend.name
        self.capabilities: dict[str, object] = {**backend.capabilities, "cost": cost, "workers": workers}
        self._backend = backend
        self._shared = _Shared(backend, cost == "steps", workers)
        self._lanes = [_Lane(self._shared) for _ in range(workers)]
        self._closed = False
        self._finalizer = weakref.finalize(self, _shut, self._shared, self._lanes)
        try:
            self._lanes[0].open()
        except BaseException:
            self.close()
            raise

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        """Judge a batch; results in input order. Raises ValueError for a program without tests."""
        jobs = [_Job(program) for program in programs]
        self._submit(jobs)
        return [job.future.result() for job in jobs]

    async def judge_one(self, program: Program) -> Judgement:
        """Judge one program; many may be awaited at once."""
        import asyncio  # late: a caller that awaits has it, others are spared 80 ms

        job = _Job(program)
        self._submit([job])
        return await asyncio.wrap_future(job.future)

    def _submit(self, jobs: list[_Job]) -> None:
        if self._closed:
            raise RuntimeError("the sandbox is closed")
        for job in jobs:
            if not job.program.tests:
                raise ValueError("a program without tests cannot be judged: it would pass by mistake")
        for job in jobs:
            if job.program.source is None or not job.program.source.strip():
                job.future.set_result(unjudged(job.program, Verdict.NO_CODE, "there is no program"))
            else:
                self._shared.queue.put(job)
        for lane, _ in zip(self._lanes, jobs, strict=False):
            lane.wake()
        if jobs and self._shared.queue.qsize() > 1:
            for lane in self._lanes:
                lane.wake()

    def close(self) -> None:
        """End all sandboxes; programs still waiting get a sandbox error."""
        self._closed = True
        self._finalizer()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Shared:
    """What the lanes of a pool have in common."""

    def __init__(self, backend: Backend, steps: bool, workers: int) -> None:
        self.backend = backend
        self.steps = steps
        self.workers = workers
        self.queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.serials = itertools.count(1)
        self.closing = False
        self.failed_at = float("-inf")
        """When a sandbox last could not be started: whoever was waiting then has to go without."""
        self.failure = ""


class _Lane:
    """One thread with one sandbox. It keeps the sandbox's inbox filled."""

    def __init__(self, shared: _Shared) -> None:
        self.shared = shared
        self.worker: Worker | None = None
        self.running: deque[_Job] = deque()
        """Jobs with a request in the sandbox, in the order of the requests."""
        self.again: deque[_Job] = deque()
        """Jobs that have to start anew."""
        self.thread: threading.Thread | None = None
        self.opened: Future[None] = Future()
        self.silent_since = 0.0
        self.seen_oom = 0

    def wake(self) -> None:
        """Have a thread."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, name="sandbox", daemon=True)
            self.thread.start()

    def open(self) -> None:
        """Start thread and sandbox and wait for them. Raises SandboxUnavailable."""
        self.wake()
        self.opened.result()

    def _work(self) -> None:
        # The sandbox is started in this thread: bubblewrap's children die with the thread that made them.
        try:
            self._start()
            self.opened.set_result(None)
        except (WorkerLost, OSError) as error:
            self.opened.set_exception(SandboxUnavailable(f"a sandbox does not start here: {error}"))
        except Exception as error:  # the opener waits for it
            self.opened.set_exception(error)
        try:
            while not self.shared.closing:
                self._turn()
        finally:
            self._stop()
            for job in (*self.running, *self.again):
                job.fail("the sandbox was closed")

    def _turn(self) -> None:
        job = self._next()
        try:
            if job is not None:
                self._begin(job)
            elif self.running:
                self._listen(self.running[0])
        except WorkerLost as error:
            self._recover(str(error))
        except Exception as error:  # a fault of ours must reach the caller, not leave him waiting
            self._stop()
            for one in {id(one): one for one in (job, *self.running) if one is not None}.values():
                one.future.set_exception(error)
            self.running.clear()

    def _next(self) -> _Job | None:
        """A job to begin now, if the sandbox's inbox has room for one."""
        if self.again:
            return self.again.popleft() if len(self.running) < INBOX else None
        if not self.running:
            job = self.shared.queue.get()
        elif len(self.running) < INBOX and self.shared.queue.qsize() >= self.shared.workers * len(self.running):
            try:
                job = self.shared.queue.get_nowait()
            except queue.Empty:
                return None
        else:
            return None
        return job if job is not None and job.future.set_running_or_notify_cancel() else None

    def _begin(self, job: _Job) -> None:
        if self.worker is None and not self._restart(job):
            return
        assert self.worker is not None
        self.worker.fit(job.program.limits.memory_mb, job.program.limits.processes)
        job.course = exchange(job.program, next(self.shared.serials), self.shared.steps)
        self._advance(job, None)

    def _restart(self, job: _Job) -> bool:
        """Start a sandbox for the job, or fail the job."""
        if job.submitted < self.shared.failed_at:
            job.fail(self.shared.failure)
            return False
        for attempt in range(ATTEMPTS):
            try:
                self._start()
                return True
            except (SandboxUnavailable, WorkerLost, OSError) as error:
                self.shared.failure = f"no sandbox could be started: {error}"
            if attempt + 1 < ATTEMPTS:
                time.sleep(RESTART_PAUSE_S)
        self.shared.failed_at = time.monotonic()
        job.fail(self.shared.failure)
        return False

    def _advance(self, job: _Job, reply: Reply | None) -> None:
        """Give a job the reply to its last request; send its next one, or finish it."""
        assert self.worker is not None
        assert job.course is not None
        try:
            data = next(job.course) if reply is None else job.course.send(reply)
        except StopIteration as end:
            job.future.set_result(end.value)
            return
        job.reply = Reply(self.worker.base_kb)
        if not self.running:
            self.silent_since = time.monotonic()
        self.running.append(job)
        self.worker.put(data)

    def _listen(self, job: _Job) -> None:
        assert self.worker is not None
        frame = self.worker.get(self.silent_since + wall_s(job.program.limits) + SILENCE_S)
        self.silent_since = time.monotonic()
        _collect(job.reply, frame)
        job.reply.oom_kills += frame.header["oom"]
        if not frame.header["last"]:
            return
        seen, self.seen_oom = self.seen_oom, self.worker.oom_kills()
        job.reply.oom_kills += self.seen_oom - seen
        self.running.popleft()
        if frame.header["retire"]:
            self._stop()
            self.again.extend(self.running)
            self.running.clear()
            if not self._restart(job):
                return
        self._advance(job, job.reply)

    def _recover(self, reason: str) -> None:
        """The sandbox died: blame the job it was working on, begin the others anew."""
        self._stop()
        jobs = list(self.running)
        self.running.clear()
        if not jobs:
            return
        jobs[0].attempts += 1
        if jobs[0].attempts >= ATTEMPTS or self.shared.closing:
            jobs.pop(0).fail(reason)
        self.again.extend(jobs)

    def _start(self) -> None:
        self.worker = self.shared.backend.start()
        self.seen_oom = self.worker.oom_kills()

    def _stop(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.close()


def _collect(reply: Reply, frame: Frame) -> None:
    results: list[dict[str, Any]] = frame.header["results"]
    for index, result in enumerate(results):
        reply.raws.append(Raw(result, *frame.blobs[_STREAMS * index : _STREAMS * (index + 1)]))


def _shut(shared: _Shared, lanes: list[_Lane]) -> None:
    """End all lanes. Module-level, so that the finalizer keeps no reference to the pool."""
    shared.closing = True
    for _ in lanes:
        shared.queue.put(None)
    for lane in lanes:
        worker = lane.worker
        if worker is not None:
            worker.interrupt()  # its own thread closes it
    for lane in lanes:
        if lane.thread is not None and lane.thread is not threading.current_thread():
            lane.thread.join(timeout=10)
    with contextlib.suppress(queue.Empty):
        while True:
            job = shared.queue.get_nowait()
            if job is not None:
                job.fail("the sandbox was closed")
    shared.backend.close()
