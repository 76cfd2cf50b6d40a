"""The report of a run: ``summary.json``, ``metrics.json``, ``report.html`` and ``report.md``."""

from __future__ import annotations

from corecode.evaluation.report.build import build_report

__all__ = ["build_report"]
