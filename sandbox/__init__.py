"""Run programs that a language model wrote, and say what they did. Usable alone."""

from __future__ import annotations

from sandbox.errors import SandboxUnavailable
from sandbox.opening import BackendName, open_sandbox
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
]
