"""The report of a run: ``summary.json``, ``metrics.json``, ``report.html`` and ``report.md``."""
