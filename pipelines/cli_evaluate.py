"""``corecode evaluate``: arms on a benchmark, without a training run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    arm: Annotated[list[str], typer.Option(help="Arm to evaluate (docs/evaluation.md); may be repeated.")],
    benchmark: Annotated[
        str | None,
        typer.Option(help="Name of a benchmark, or a file of problems. By default the test problems of the source."),
    ] = None,
    run: Annotated[str | None, typer.Option(help="Take the weights of this run: its name, or its folder.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Take the weights of 'champion', of a version, or of a folder with team.json."),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Take the untrained model of this profile.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Evaluate the first problems only.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Programs a problem.")] = None,
    temperature: Annotated[list[float] | None, typer.Option(min=0, help="May be repeated.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the sampling.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field of the profile.")
    ] = None,
) -> None:
    """Evaluate arms on a benchmark. The same command goes on where it was stopped; the last line is summary.json."""
    from pipelines.evaluation import Request, run_evaluation

    changes = list(overrides or [])
    changes += [f"evaluation.samples={samples}"] if samples is not None else []
    changes += [f"evaluation.temperatures={list(dict.fromkeys(temperature))}"] if temperature else []
    changes += [f"seed={seed}"] if seed is not None else []
    path = run_evaluation(Request(tuple(dict.fromkeys(arm)), benchmark, run, model, profile, limit, tuple(changes)))
    _show(path)


def _show(path: Path) -> None:
    import json
    import sys

    from rich.console import Console

    from pipelines.figures import percent, results_table

    summary = json.loads(path.read_text(encoding="utf-8"))
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(f"In percent, CG in points, with 95 % intervals, {summary['problems']['evaluated']} problems:")
    console.print(results_table(summary, console.width))
    for one in summary["gains"].values():
        for temperature, at in one["temperatures"].items():
            difference = percent(at["pass@1"], sign=True)
            exact = f", exact McNemar p {at['mcnemar_p']:.3f}" if at["mcnemar_p"] is not None else ""
            print(f"{one['system']} − {one['baseline']}, T {temperature}: {difference} points of pass@1{exact}")
    print(f"report  {path.with_name('report.html')}")
    print(path)
