"""The deterministic step counter: how many bytecode events a program executed. Runs inside the sandbox.

Python 3.12 and later count JUMP, BRANCH and PY_START events through ``sys.monitoring``; Python 3.11 counts opcodes
through ``sys.settrace``. Both give the same number on every run of the same program with the same input, and both are
blind to work inside functions written in C. Numbers of different Python versions do not compare.
"""

from __future__ import annotations

import _thread
import mmap
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_TOOL = 4
"""A tool id that no debugger, coverage or profiler claims."""


_GUARDED = frozenset({"sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"})
"""Audit events of what a program could do to stop the counter."""


_THREAD_START: CodeType = threading.Thread._bootstrap_inner.__code__  # type: ignore[attr-defined]
"""Where :mod:`threading` sets a new thread's trace function."""


class StepCounter:
    """Counts into a shared page, which the runner reads even when the program ends by ``os._exit`` or a signal.

    It lives in the program's own interpreter, so a program bent on it can lower its count (not its CPU time, which the
    kernel measures); the plain ways to do so raise RuntimeError.
    """

    def __init__(self, fd: int) -> None:
        self._cell = memoryview(mmap.mmap(fd, mmap.PAGESIZE)).cast("Q")
        self._armed = False
        self._trusted = {_THREAD_START}
        if sys.version_info >= (3, 12):
            self._prepare_monitoring()
        else:
            self._enter = self._tracer()
            self._follow_bare_threads()
        sys.addaudithook(self._guard)

    def _guard(self, event: str, _args: object) -> None:
        if not self._armed or event not in _GUARDED:
            return
        if event == "sys.settrace" and sys._getframe(1).f_code in self._trusted:  # pyright: ignore[reportPrivateUsage]
            return  # a thread of the program begins to be counted
        raise RuntimeError(f"{event}: not while steps are counted")

    def start(self) -> None:
        """Count everything that runs from here on, in every thread."""
        if sys.version_info >= (3, 12):
            self._set_events(_TOOL, self._events)
        else:
            self._armed = False
            threading.settrace(self._enter)
            sys.settrace(self._enter)
        self._armed = True

    def stop(self) -> None:
        """Stop counting; :meth:`start` goes on from the same number."""
        self._armed = False
        if sys.version_info >= (3, 12):
            self._set_events(_TOOL, 0)
        else:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    def _prepare_monitoring(self) -> None:
        if sys.version_info >= (3, 12):
            cell = self._cell
            monitoring = sys.monitoring
            events = monitoring.events

            def jumped(_code: CodeType, _offset: int, _to: int) -> None:
                cell[0] += 1

            def started(_code: CodeType, _offset: int) -> None:
                cell[0] += 1

            monitoring.use_tool_id(_TOOL, "steps")
            monitoring.register_callback(_TOOL, events.JUMP, jumped)
            monitoring.register_callback(_TOOL, events.BRANCH, jumped)
            monitoring.register_callback(_TOOL, events.PY_START, started)
            self._events = events.JUMP | events.BRANCH | events.PY_START
            self._set_events = monitoring.set_events
            del sys.monitoring  # its functions raise no audit events

    def _follow_bare_threads(self) -> None:
        """Have threads that do not start through :mod:`threading` traced as well."""
        begin, enter = _thread.start_new_thread, self._enter

        def start_new_thread(function: Callable[..., object], *rest: Any) -> int:
            def run(*args: Any, **kwargs: Any) -> None:
                sys.settrace(enter)
                function(*args, **kwargs)

            self._trusted.add(run.__code__)
            return begin(run, *rest)

        _thread.start_new_thread = start_new_thread

    def _tracer(self) -> Any:
        cell = self._cell

        def local(_frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "opcode":
                cell[0] += 1
            return local

        def enter(frame: FrameType, _event: str, _arg: Any) -> Any:
            if frame.f_code.co_filename.startswith("<sandbox"):
                return None  # the runner's own
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return local

        return enter
