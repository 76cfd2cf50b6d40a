"""Build the report of a run from its sample rows and training curves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.evaluation.collaboration import Comparison, pair
from corecode.evaluation.curves import load_phases
from corecode.evaluation.report.cases import planning_effect, sampled_thoughts
from corecode.evaluation.report.charts import charts
from corecode.evaluation.report.page import Page, render_html, render_markdown
from corecode.evaluation.report.words import headline, headline_pair
from corecode.evaluation.rows import load_samples
from corecode.evaluation.summary import build_figures, metrics_text
from corecode.evaluation.table import write_table
from corecode.problems import read_problems

FOLDER = "collaboration_gain"


def build_report(
    profile: Profile, run: Path, stage_seconds: Mapping[str, float], provenance: Mapping[str, object]
) -> Path:
    """Write ``summary.json``, ``metrics.json``, ``report.html`` and ``report.md`` into ``collaboration_gain``, and all
    rows as one table (``evaluation/rows.parquet``).

    Args:
        profile: the resolved profile of the run.
        run: the run folder, with ``problems/test.jsonl`` and ``evaluation/*/T*.jsonl``.
        stage_seconds: wall seconds by stage.
        provenance: what the run was made with: git commit, package versions, sandbox backend and the like.

    Returns:
        the path of ``summary.json``, which is written last.

    Raises:
        UserError: when the run has no evaluation results or no test problems.
        InfrastructureError: for a malformed result file.
    """
    problems = read_problems(run / "problems" / "test.jsonl")
    by_id = {problem.id: problem for problem in problems}
    samples = load_samples(run, profile.evaluation.samples)
    phases = load_phases(run)

    figures = build_figures(profile, samples, problems, phases)
    figures["headline"] = headline(figures)
    metrics = metrics_text(figures)
    summary = figures | {
        "run": run.name,
        "stage_seconds": {stage: round(seconds, 3) for stage, seconds in stage_seconds.items()},
        "digests": {
            "metrics": hashlib.sha256(metrics.encode()).hexdigest(),
            "samples": samples.digest,
            "problems": hashlib.sha256((run / "problems" / "test.jsonl").read_bytes()).hexdigest(),
        },
        "provenance": {"profile": profile.name, "seed": profile.seed, **provenance},
    }

    temperature = figures["headline"]["temperature"]
    compared = headline_pair(figures, temperature)
    effect, team = None, None
    if compared is not None:
        comparison = Comparison(compared[0], compared[1]["system"], compared[1]["baseline"], compared[1]["meaning"])
        paired = pair(samples, comparison, float(temperature))
        team = samples.get(comparison.system, float(temperature))
        effect = None if paired is None else planning_effect(paired, by_id, profile.seed)
    page = Page(
        summary=summary,
        temperature=temperature,
        charts=charts(figures, temperature, phases, effect),
        effect=effect,
        thoughts=sampled_thoughts(team, by_id, profile.seed) if team else [],
    )

    write_table(run)
    folder = run / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "metrics.json", metrics)
    _write(folder / "report.html", render_html(page))
    _write(folder / "report.md", render_markdown(page))
    path = folder / "summary.json"
    _write(path, _json(summary))
    return path


def _json(tree: Mapping[str, Any]) -> str:
    return json.dumps(tree, indent=1, ensure_ascii=False, default=str) + "\n"


def _write(path: Path, text: str) -> None:
    """Write at once: a reader never sees half a file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
