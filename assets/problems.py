"""The problems of a run, in four splits."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.options import stage_options
from assets.ports import Run
from corecode.stages import make_problems

SHOWN = 50
"""Findings that are listed; problems/problems.json has all."""


@dg.asset(**stage_options("data", "python"), code_version="2")
def problems(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """Problems for the warm-up, for both GRPO phases, for validation and for the final test, which no training sees."""
    with run.stage(context) as stage:
        made = make_problems(stage.profile, stage.folder)
        stage.datasets()
        counts = {f"{split} problems": n for split, n in made["counts"].items()}
        return dg.MaterializeResult(
            metadata={**stage.metadata(), **counts, **_findings(made)},
            data_version=dg.DataVersion(stage.data_version()),
        )


def _findings(made: Mapping[str, Any]) -> dict[str, Any]:
    """What was removed, refused and flagged: the numbers, and a table of the first cases."""
    removed = made["decontamination"]["removed"]
    sources = made["validation"]["sources"]
    issues = [(name, kind, one) for name, s in sources.items() for kind in ("refused", "flagged") for one in s[kind]]
    issues += [(name, "flagged", one) for name, found in made["validation"]["broken_tests"].items() for one in found]
    rows = [(m["split"], m["problem"], "removed", m["reason"], f"is {m['test_problem']}") for m in removed]
    rows += [(name, one["problem"], kind, one["reason"], one["detail"]) for name, kind, one in issues]
    lines = ["| source | problem | what | reason | detail |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows[:SHOWN]]
    return {
        "matching a test problem, removed": len(removed),
        "refused records": sum(kind == "refused" for _, kind, _ in issues),
        "flagged problems": sum(kind == "flagged" for _, kind, _ in issues),
        "findings": dg.MetadataValue.md("\n".join(lines) if rows else "none"),
    }
