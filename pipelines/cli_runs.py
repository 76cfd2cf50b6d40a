"""``corecode runs``: the pipeline runs of a home, from what MLflow holds of them alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from pipelines.tracking import Tracking

HEADLINE = "final/team"
"""The arm whose pass@1 stands for a run: the team after all training."""
SHOWN_DIGEST = 12
LOST = "lost"
"""Status of a run that says it is running and whose process is gone; the next start will call it killed."""
_FIGURE = re.compile(rf"pass_at_1/{HEADLINE}/T([\d.e+-]+)")


@dataclass(frozen=True)
class Listed:
    """A run; also the fields of ``--json``."""

    id: str
    """In MLflow."""
    run: str
    """Name of the run and of its folder."""
    profile: str
    seed: int | None
    status: str
    """``running``, ``finished``, ``failed``, ``killed`` or ``lost``."""
    started: str
    """ISO 8601, UTC."""
    seconds: float | None
    """From start to end; None for a run that has not ended."""
    digest: str | None
    """Of its figures; None before its report."""
    temperature: float | None
    """The lowest at which the trained team was evaluated."""
    pass_at_1: float | None
    """The trained team's pass@1 there, 0 to 1."""


def runs(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array, times in UTC.")] = False,
) -> None:
    """List the runs of this home, newest first: what 'rerun', 'compare' and 'promote' take."""
    from pipelines.tracking import past_store

    store = past_store()
    found = list_runs(store) if store.exists else []
    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=1))
    elif found:
        _show(found)
    else:
        print(f"no run yet in MLflow at {store.shown}; 'corecode run quickstart' makes one")


def list_runs(store: Tracking) -> list[Listed]:
    """All whole runs of a store, newest first.

    Raises:
        InfrastructureError: MLflow does not answer.
    """
    found: list[Any] = []
    token = None
    client = store.client
    with store.answers():
        while True:
            page = client.search_runs(
                [store.experiment],
                "tags.`corecode.kind` = 'run'",
                max_results=1000,
                order_by=["attributes.start_time DESC"],
                page_token=token,
            )
            found += page
            token = page.token
            if not token:
                return [_listed(run) for run in found]


def _listed(run: Any) -> Listed:
    from datetime import UTC, datetime

    from pipelines.owners import is_gone
    from pipelines.reconcile import OWNER_TAG

    info, tags = run.info, run.data.tags
    running = info.status == "RUNNING"
    temperature, pass_at_1 = headline(run.data.metrics)
    seed = tags.get("corecode.seed", "")
    return Listed(
        id=info.run_id,
        run=info.run_name,
        profile=tags.get("corecode.profile", ""),
        seed=int(seed) if seed.isdigit() else None,
        status=LOST if running and is_gone(tags.get(OWNER_TAG, "")) else info.status.lower(),
        started=datetime.fromtimestamp(info.start_time / 1000, UTC).isoformat(timespec="seconds"),
        seconds=None if running or not info.end_time else round((info.end_time - info.start_time) / 1000, 3),
        digest=tags.get("corecode.digest"),
        temperature=temperature,
        pass_at_1=pass_at_1,
    )


def headline(metrics: Mapping[str, float]) -> tuple[float | None, float | None]:
    """Lowest temperature at which the trained team was evaluated, and its pass@1 there."""
    found = {float(match[1]): value for name, value in metrics.items() if (match := _FIGURE.fullmatch(name))}
    lowest = min(found, default=None)
    return lowest, None if lowest is None else found[lowest]


def _show(found: list[Listed]) -> None:
    from datetime import datetime

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from pipelines.progress import duration

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("run\nid in MLflow", overflow="fold")
    for heading in ("status\ndigest", "started\ntook"):
        table.add_column(heading, no_wrap=True)
    table.add_column("pass@1 %\n", justify="right", no_wrap=True)
    for one in found:
        figure = "" if one.pass_at_1 is None else f"{100 * one.pass_at_1:.1f}\nT {one.temperature:g}"
        table.add_row(
            f"{one.run}\n{one.id}",
            f"{one.status}\n{(one.digest or '')[:SHOWN_DIGEST]}",
            f"{datetime.fromisoformat(one.started).astimezone():%Y-%m-%d %H:%M}\n"
            f"{'' if one.seconds is None else duration(one.seconds)}",
            figure,
        )
    Console().print(table, markup=False, highlight=False)
    print(f"pass@1: of {HEADLINE}, the team after all training, at the lowest temperature T")
