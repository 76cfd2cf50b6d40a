"""Measures, statistics, Collaboration Gain and the report of a run."""

from __future__ import annotations

from corecode.evaluation.report.build import build_report

__all__ = ["build_report"]
