"""Print the tables of docs/results.md from runs: ``python benchmarks/results.py SUMMARY.json ...`` (one a run)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def interval(figure: dict[str, Any] | None, scale: float = 100.0) -> str:
    """A figure with its 95 % interval, in percent or points."""
    if figure is None:
        return "–"
    low, high = figure["low"], figure["high"]
    return f"{scale * figure['value']:.1f} [{scale * low:.1f}, {scale * high:.1f}]"


def arms(summary: dict[str, Any]) -> str:
    """One row an arm and temperature."""
    first = next(iter(next(iter(summary["arms"].values()))["temperatures"].values()))
    most = max(first["pass@k"], key=int)
    rows = [f"| arm | T | pass@1 | pass@{most} | APR | thoughts valid |", "|---|---|---|---|---|---|"]
    for name, arm in summary["arms"].items():
        for temperature, figures in arm["temperatures"].items():
            k = figures["pass@k"]
            valid = figures["thoughts"]["validity"]
            cells = [
                interval(k["1"]),
                interval(k[most]),
                interval(figures["apr"]),
                f"{valid:.1%}" if valid is not None else "",
            ]
            rows.append(f"| `{name}` | {temperature} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def differences(summaries: list[dict[str, Any]]) -> str:
    """Gains and Collaboration Gain in points of pass@1, one column a seed."""
    heads = [f"seed {s['seed']}" for s in summaries]
    rows = ["| difference in pass@1, points | T | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for part, key in (("gains", "{}"), ("collaboration_gain", "CG, {}")):
        every = {name: entry for summary in summaries for name, entry in summary[part].items()}
        for name, entry in every.items():
            for temperature in entry["temperatures"]:
                cells: list[str] = []
                for summary in summaries:
                    measured = summary[part].get(name, {}).get("temperatures", {}).get(temperature, {}).get("pass@1")
                    figure = measured["cg_abs"] if measured and part == "collaboration_gain" else measured
                    cells.append(interval(figure))
                rows.append(f"| {key.format(entry['meaning'])} | {temperature} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    summaries = [json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:]]
    if not summaries:
        sys.exit("give the summary.json of at least one run")
    print(differences(summaries))
    for summary in summaries:
        seconds = summary.get("stage_seconds", {})
        print(f"\n### {summary['profile']}, seed {summary['seed']}\n")
        print(f"{summary['problems']['evaluated']} problems, {sum(seconds.values()) / 60:.1f} minutes.\n")
        print(arms(summary))


if __name__ == "__main__":
    main()
