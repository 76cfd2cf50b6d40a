"""``corecode compare``: two runs problem by problem, or the gains of several seeds together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.home import home_folder

if TYPE_CHECKING:
    from rich.table import Table

SHOWN = 20
"""Changed problems that are listed."""


def compare(
    runs: Annotated[
        list[Path], typer.Argument(help="Runs, by name or folder: two are compared, with --pool any number.")
    ],
    arm: Annotated[str, typer.Option(help="Arm to compare.")] = "final/team",
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Temperature to compare at; by default the lowest that both have.")
    ] = None,
    against: Annotated[str | None, typer.Option(help="Arm of the second run; by default the same.")] = None,
    pool: Annotated[bool, typer.Option("--pool", help="Pool the gains of runs with different seeds.")] = False,
) -> None:
    """Compare two runs (second minus first), or pool several seeds."""
    from corecode.errors import UserError

    folders = [_folder(run) for run in runs]
    if pool:
        _show_pooled(folders)
    elif len(folders) == 2:
        _show_comparison(folders[0], folders[1], arm, temperature, against)
    else:
        raise UserError(f"compare takes two runs, got {len(runs)}; add --pool for several seeds")


def _folder(run: Path) -> Path:
    """A run's folder; a bare name is one of the home folder's runs."""
    named = home_folder() / "runs" / run
    return named if not run.exists() and named.is_dir() else run


def _show_comparison(first: Path, second: Path, arm: str, temperature: float | None, against: str | None) -> None:
    from corecode.evaluation.compare import compare as compare_runs
    from corecode.evaluation.statistics import interval_json

    found = compare_runs(first, second, arm, temperature, against)
    sides = f"{second.name} {against or arm} − {first.name} {arm}"
    print(f"{sides}, temperature {found.temperature}, {found.problems} problems")
    if found.not_shared or found.excluded:
        print(f"left out: {found.not_shared} problems not shared, {found.excluded} with a missing result")
    table = _table("measure", "first %", "second %", "points", "95 % interval", "p")
    for name, change in found.measures.items():
        table.add_row(
            name,
            f"{100 * change.first:.1f}",
            f"{100 * change.second:.1f}",
            *_interval(interval_json(change.difference.interval)),
            f"{change.difference.p_value:.4f}",
        )
    _show(table)
    if found.mcnemar_p is not None:
        print(f"exact McNemar p-value of pass@1: {found.mcnemar_p:.4f}")
    better = sum(one.second > one.first for one in found.changed)
    changes = f"{better} problems better, {len(found.changed) - better} worse"
    print(f"{changes}; the largest changes:" if found.changed else changes)
    for one in found.changed[:SHOWN]:
        print(f"  {one.problem_id}: {100 * one.first:.0f} % -> {100 * one.second:.0f} % of the samples right")
    if link := page_link([first, second]):
        print(f"MLflow: {link}")


def _show_pooled(runs: list[Path]) -> None:
    from corecode.evaluation.collaboration import CG_PAIRS
    from corecode.evaluation.compare import pool
    from corecode.evaluation.statistics import interval_json

    table = _table("comparison", "T", "measure", "points", "95 % interval", "sd", "each seed")
    for one in pool(runs):
        if one.kind == "cg":
            continue
        seeds = " ".join(f"{100 * value:+.1f}" for value in one.pooled.per_seed)
        table.add_row(
            f"CG {one.comparison.name}" if one.comparison in CG_PAIRS else one.comparison.name,
            str(one.temperature),
            one.measure,
            *_interval(interval_json(one.pooled.interval)),
            f"{100 * one.pooled.deviation:.1f}",
            seeds,
        )
    _show(table)
    print(f"{len(runs)} runs; differences in points, CG as CG_abs (docs/method.md, sections 6 and 7).")
    print("Intervals resample the problems within each run; sd is the standard deviation between the runs.")
    if fields := _different_fields(runs):
        print(f"note: these runs differ in more than their seed: {', '.join(fields)}")
    if link := page_link(runs):
        print(f"MLflow: {link}")


def _different_fields(runs: list[Path]) -> list[str]:
    """Profile fields, apart from the seed, in which runs differ that are pooled as if they were one recipe."""
    from corecode.config import stored_profile
    from pipelines.tracking import flat

    told = {"seed", "description", "hardware", "expected_minutes"}
    profiles = [flat(stored_profile(run / "profile.json").model_dump(mode="json")) for run in runs]
    names = sorted({name for profile in profiles for name in profile} - told)
    return [name for name in names if any(one.get(name) != profiles[0].get(name) for one in profiles)]


def page_link(runs: list[Path]) -> str | None:
    """The address of MLflow's page that compares these runs (``corecode up`` opens a local one); None when they are
    not all of one store."""
    import json
    from urllib.parse import quote

    pages: list[tuple[str, str, str]] = []
    for run in runs:
        try:
            summary = json.loads((run / "collaboration_gain" / "summary.json").read_bytes())
            address = str(summary["provenance"]["mlflow_url"])
        except (OSError, ValueError, KeyError, TypeError):  # the comparison itself needs no summary
            return None
        base, found, place = address.partition("/#/experiments/")
        if not found:
            return None
        experiment, _, run_id = place.partition("/runs/")
        pages.append((base, experiment, run_id))
    if len({base for base, _, _ in pages}) != 1:
        return None
    ids = quote(json.dumps([run_id for _, _, run_id in pages], separators=(",", ":")))
    experiments = quote(json.dumps(sorted({experiment for _, experiment, _ in pages}), separators=(",", ":")))
    return f"{pages[0][0]}/#/compare-runs?runs={ids}&experiments={experiments}"


def _interval(figures: dict[str, float | None]) -> tuple[str, str]:
    low, high = (f"{100 * bound:+.1f}" if (bound := figures[end]) is not None else "?" for end in ("low", "high"))
    return f"{100 * (figures['value'] or 0):+.1f}", f"\\[{low}, {high}]"


def _table(*headings: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _show(table: Table) -> None:
    from rich.console import Console

    Console().print(table)
