"""Seconds, memory and size of a run's report: ``python benchmarks/bench_report.py RUN [ROWS]``.

The report is built in a temporary folder from the run's own rows; with ROWS from its first problems, as many as come to
so many rows.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from corecode.config import Profile
from corecode.evaluation import build_report
from corecode.evaluation.table import read_rows, row_files


def copy(run: Path, target: Path, most: int | None) -> int:
    """Copy what a report is built from, with the first problems only where ``most`` is given; returns the rows."""
    (target / "problems").mkdir()
    shutil.copy(run / "problems" / "test.jsonl", target / "problems")
    for metrics in run.glob("*_grpo/metrics.jsonl"):
        (target / metrics.parent.name).mkdir()
        shutil.copy(metrics, target / metrics.parent.name)
    rows = [row for path in row_files(run) for row in read_rows(path)]
    counts = Counter(str(row["problem_id"]) for row in rows)
    kept: set[str] = set()
    total = 0
    for problem, count in sorted(counts.items()):
        if most is None or total + count <= most:
            kept.add(problem)
            total += count
    files: dict[Path, list[str]] = {}
    for row in rows:
        if row["problem_id"] in kept:
            file = target / "evaluation" / str(row["arm"]).replace("/", "__") / f"T{row['temperature']:g}.jsonl"
            files.setdefault(file, []).append(json.dumps(row) + "\n")
    for file, lines in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(lines), encoding="utf-8")
    return total


def main() -> None:
    run, most = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    profile = Profile.model_validate_json((run / "profile.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / run.name
        target.mkdir()
        rows = copy(run, target, most)
        started = time.perf_counter(), time.process_time()
        summary = build_report(profile, target, {}, {})
        wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
        page = summary.with_name("report.html").stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{rows:,} rows: {wall:.1f} s, of them {cpu:.1f} s CPU; peak memory {peak:.0f} MB; report.html {page:.1f} MB")


if __name__ == "__main__":
    main()
