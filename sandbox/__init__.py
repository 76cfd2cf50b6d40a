"""Run programs that a language model wrote, and say what they did. Usable alone."""

from __future__ import annotations

from sandbox.types import Comparison, Judgement, Limits, Program, Sandbox, TestCase, TestResult, Verdict

__all__ = ["Comparison", "Judgement", "Limits", "Program", "Sandbox", "TestCase", "TestResult", "Verdict"]
