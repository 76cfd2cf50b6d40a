"""``corecode compare``: two runs problem by problem, or the gains of several seeds together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SHOWN = 20
"""Changed problems that are listed."""


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders: two are compared, with --pool any number.")],
    arm: Annotated[str, typer.Option(help="Arm to compare.")] = "final/team",
    temperature: Annotated[float, typer.Option(min=0, help="Temperature to compare at.")] = 0.2,
    against: Annotated[str | None, typer.Option(help="Arm of the second run; by default the same.")] = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool the gains of runs with different seeds.")] = False,
) -> None:
    """Compare two runs (second minus first), or pool several seeds."""
    from corecode.errors import UserError

    if pool:
        _show_pooled(runs)
    elif len(runs) == 2:
        _show_comparison(runs[0], runs[1], arm, temperature, against)
    else:
        raise UserError(f"compare takes two run folders, got {len(runs)}; add --pool for several seeds")


def _show_comparison(first: Path, second: Path, arm: str, temperature: float, against: str | None) -> None:
    from rich import print as show

    from corecode.evaluation.compare import compare as compare_runs
    from corecode.evaluation.statistics import interval_json

    found = compare_runs(first, second, arm, temperature, against)
    show(f"{second.name} {against or arm} − {first.name} {arm}, temperature {temperature}, {found.problems} problems")
    if found.not_shared or found.excluded:
        show(f"left out: {found.not_shared} problems not shared, {found.excluded} with a missing result")
    table = _table("measure", "first %", "second %", "points", "95 % interval", "p")
    for name, change in found.measures.items():
        table.add_row(
            name,
            f"{100 * change.first:.1f}",
            f"{100 * change.second:.1f}",
            *_interval(interval_json(change.difference.interval)),
            f"{change.difference.p_value:.4f}",
        )
    show(table)
    if found.mcnemar_p is not None:
        show(f"exact McNemar p-value of pass@1: {found.mcnemar_p:.4f}")
    better = sum(one.second > one.first for one in found.changed)
    show(f"{better} problems better, {len(found.changed) - better} worse; the largest changes:")
    for one in found.changed[:SHOWN]:
        show(f"  {one.problem_id}: {100 * one.first:.0f} % -> {100 * one.second:.0f} % of the samples right")


def _show_pooled(runs: list[Path]) -> None:
    from rich import print as show

    from corecode.evaluation.compare import pool
    from corecode.evaluation.statistics import interval_json

    table = _table("comparison", "T", "measure", "points", "95 % interval", "each seed", "between seeds")
    for one in pool(runs):
        if one.kind == "cg":
            continue
        seeds = " ".join(f"{100 * value:+.1f}" for value in one.pooled.per_seed)
        table.add_row(
            f"{one.comparison.system} − {one.comparison.baseline}",
            str(one.temperature),
            one.measure,
            *_interval(interval_json(one.pooled.interval)),
            seeds,
            f"{100 * one.pooled.deviation:.1f}",
        )
    show(table)
    show(f"{len(runs)} runs; intervals resample the problems within each run. CG in points is the difference to alone.")


def _interval(figures: dict[str, float | None]) -> tuple[str, str]:
    low, high = (f"{100 * bound:+.1f}" if (bound := figures[end]) is not None else "?" for end in ("low", "high"))
    return f"{100 * (figures['value'] or 0):+.1f}", f"\\[{low}, {high}]"


def _table(*headings: str):
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    return table
