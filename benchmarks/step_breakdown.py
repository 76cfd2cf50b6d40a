"""Where the wall time of a run's GRPO phases goes: ``python benchmarks/step_breakdown.py RUN_FOLDER ...``.

Reads every ``metrics.jsonl`` under a run folder that holds steps of GRPO, and prints a table of shares. Time in which a
model computes is sampling (the trained role), partner (the frozen ones), update (forward, backward, optimizer) and the
validation without its sandbox. Everything else should be at most 15 % of the wall time, the sandbox at most 5 %.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

OUTSIDE_BAR, SANDBOX_BAR = 0.15, 0.05
MODEL_WORK = ("sampling", "partner", "update", "validation")
PARTS = (*MODEL_WORK, "sandbox", "checkpoint", "other")


def breakdown(metrics: Path) -> Counter[str] | None:
    """Seconds of a phase by part, with ``wall``, ``steps`` and ``tokens``; None where no step of GRPO was recorded."""
    spent: Counter[str] = Counter()
    for line in metrics.read_text(encoding="utf-8").splitlines():
        seconds = json.loads(line).get("seconds", {})
        if "other" in seconds:
            spent.update({part: seconds.get(part, 0.0) for part in PARTS})
            spent.update(steps=1, wall=seconds["step"], tokens=seconds["tokens_per_second"] * seconds["step"])
        elif "validation" in seconds:
            sandbox = seconds["validation_sandbox"]
            spent.update(validation=seconds["validation"] - sandbox, sandbox=sandbox, wall=seconds["validation"])
    return spent if spent["steps"] else None


def outside(spent: Counter[str]) -> float:
    """Share of the wall time in which no model computes."""
    return 1 - sum(spent[part] for part in MODEL_WORK) / spent["wall"]


def table(phases: dict[str, Counter[str]]) -> str:
    """One row a phase; shares in percent."""
    head = ["phase", "steps", "wall, s", "tokens/s", *PARTS, "outside models"]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name, spent in phases.items():
        shares = [f"{100 * spent[part] / spent['wall']:.1f}" for part in PARTS]
        speed = f"{spent['tokens'] / spent['wall']:.0f}"
        cells = [name, f"{spent['steps']:.0f}", f"{spent['wall']:.0f}", speed, *shares, f"{100 * outside(spent):.1f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    """Print the tables; 1 when a bar is missed, 2 when a folder holds no steps."""
    if not arguments:
        print("give the folder of at least one run", file=sys.stderr)
        return 2
    missed = False
    for run in map(Path, arguments):
        found = {str(path.parent.relative_to(run)): breakdown(path) for path in sorted(run.rglob("metrics.jsonl"))}
        phases = {name: spent for name, spent in found.items() if spent is not None}
        if not phases:
            print(f"{run} holds no steps of GRPO with a breakdown of their time", file=sys.stderr)
            return 2
        total: Counter[str] = Counter()
        for spent in phases.values():
            total.update(spent)
        print(f"{run.name}, shares of the wall time in percent\n\n{table({**phases, 'all': total})}\n")
        for what, share, bar in (
            ("outside model computation", outside(total), OUTSIDE_BAR),
            ("sandbox", total["sandbox"] / total["wall"], SANDBOX_BAR),
        ):
            missed |= share > bar
            print(f"{what}: {share:.1%}, {'above' if share > bar else 'within'} the {bar:.0%} that are allowed")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
