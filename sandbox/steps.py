"""The deterministic step counter: how many bytecode events a program executed. Runs inside the sandbox.

Python 3.12 and later count JUMP, BRANCH and PY_START events through ``sys.monitoring``; Python 3.11 counts opcodes
through ``sys.settrace``. Both give the same number on every run of the same program with the same input, and both are
blind to work inside functions written in C. Numbers of different Python versions do not compare.
"""

from __future__ import annotations

import mmap
import sys
import threading
from types import CodeType, FrameType
from typing import Any

_TOOL = 4
"""A tool id that no debugger, coverage or profiler claims."""


class StepCounter:
    """Counts into a shared page, which the runner reads even when the program ends by ``os._exit`` or a signal."""

    def __init__(self, fd: int) -> None:
        self._cell = memoryview(mmap.mmap(fd, mmap.PAGESIZE)).cast("Q")

    def start(self) -> None:
        """Count everything that runs from here on, in every thread."""
        if sys.version_info >= (3, 12):
            self._start_monitoring()
        else:
            self._start_tracing()

    def stop(self) -> None:
        """Stop counting; :meth:`start` goes on from the same number."""
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(_TOOL, 0)
        else:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]

    def _start_monitoring(self) -> None:
        if sys.version_info >= (3, 12):
            cell = self._cell
            monitoring = sys.monitoring
            events = monitoring.events
            if monitoring.get_tool(_TOOL) is None:
                monitoring.use_tool_id(_TOOL, "steps")

                def jumped(_code: CodeType, _offset: int, _to: int) -> None:
                    cell[0] += 1

                def started(_code: CodeType, _offset: int) -> None:
                    cell[0] += 1

                monitoring.register_callback(_TOOL, events.JUMP, jumped)
                monitoring.register_callback(_TOOL, events.BRANCH, jumped)
                monitoring.register_callback(_TOOL, events.PY_START, started)
            monitoring.set_events(_TOOL, events.JUMP | events.BRANCH | events.PY_START)

    def _start_tracing(self) -> None:
        cell = self._cell

        def local(_frame: FrameType, event: str, _arg: Any) -> Any:
            if event == "opcode":
                cell[0] += 1
            return local

        def enter(frame: FrameType, _event: str, _arg: Any) -> Any:
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return local

        threading.settrace(enter)
        sys.settrace(enter)
