"""``corecode promote``, ``corecode rollback`` and ``corecode champions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.home import existing_home, home_folder

if TYPE_CHECKING:
    from corecode.config import Profile
    from pipelines.registry.history import Entry, State
    from pipelines.registry.promotion import Decision


def promote(
    run: Annotated[str, typer.Argument(help="Run, by name or folder.")],
    margin: Annotated[
        float | None,
        typer.Option(min=0, max=0.99, help="Gain in pass@1 that the interval has to exceed; 0.02 are two points."),
    ] = None,
    force: Annotated[
        str | None, typer.Option(metavar="REASON", help="Promote whatever the gate says, and record why.")
    ] = None,
) -> None:
    """Make a run's team the champion if it is better beyond chance (exit code 1: held; 2: cannot be compared)."""
    from corecode.errors import UserError
    from pipelines.home import folder_bytes, prepare_home
    from pipelines.registry import promotion
    from pipelines.tracking import Tracking

    if force is not None and not force.strip():
        raise UserError("--force: give the reason, which is recorded")
    existing_home()
    folder, profile = _run(run)
    home = prepare_home(2 * folder_bytes(folder / "planner_grpo" / "model"))
    decision = promotion.promote(profile, folder, home, Tracking(home), margin, force)
    if decision.outcome == "refused":
        raise UserError(f"{decision.reason}; evaluate both alike, or give --force REASON")
    _say(decision)
    if decision.outcome == "promoted" and not decision.champion:
        print("by now another team is champion")
    raise typer.Exit(0 if decision.champion or decision.outcome == "promoted" else 1)


def rollback(
    to: Annotated[
        int | None,
        typer.Option(min=1, metavar="VERSION", help="Version to go back to; by default the champion before."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, for the history.")] = "no reason given",
) -> None:
    """Make a former champion the champion again."""
    from pipelines.registry import promotion
    from pipelines.tracking import past_store

    decision = promotion.rollback(home_folder(), past_store(), to, reason.strip() or "no reason given")
    _say(decision)
    raise typer.Exit(0 if decision.champion else 1)


def champions() -> None:
    """Show the registry's history: every version, what became of it and why."""
    from pipelines.registry.history import State
    from pipelines.registry.ledger import CHAMPION, Ledger
    from pipelines.tracking import past_store

    store = past_store()
    ledger = Ledger(store)
    state = ledger.state() if store.exists else State()
    if not state.entries:
        print(f"no team was offered yet in MLflow at {store.shown}; 'corecode promote RUN' offers one")
        return
    _table(state)
    aliases, present = ledger.aliases(), state.champion.version if state.champion else None
    if aliases.get(CHAMPION) != present:
        print(
            f"the alias 'champion' points to version {aliases.get(CHAMPION)}, the history says {present}: it was"
            " changed by hand, or a promotion was killed; the next promotion or rollback sets it to the history"
        )


def _run(run: str) -> tuple[Path, Profile]:
    """Folder and profile of a run that is named, or whose folder is given."""
    from corecode.config import stored_profile
    from corecode.errors import UserError
    from pipelines.home import plain_name

    folder = Path(run).expanduser().absolute() if "/" in run else home_folder() / "runs" / plain_name(run, "RUN")
    path = folder / "profile.json"
    try:
        return folder, stored_profile(path)
    except OSError as error:
        raise UserError(f"there is no run {run}: cannot read {path} ({error.strerror})") from error


def _say(decision: Decision) -> None:
    print(f"{decision.run}, version {decision.version}: {decision.reason}")
    if decision.champion and decision.previous:
        print(f"champion before: {decision.previous}")


def _table(state: State) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("run\nwhat became of it", overflow="fold")
    table.add_column("pass@1 %\ndifference", justify="right", no_wrap=True)
    table.add_column("when (UTC)\nby", overflow="fold", min_width=16)
    for entry in state.entries:
        request = entry.request
        table.add_row(
            f"{'* ' if entry == state.champion else ''}{entry.version}",
            f"{request.run}\n{escape(entry.finding.reason) if entry.finding else 'not decided yet'}",
            f"{100 * request.pass_at_1:.1f}\n{_difference(entry)}",
            f"{request.at[:16].replace('T', ' ')}\n{request.by}",
        )
    Console().print(table, highlight=False)
    print("* champion")


def _difference(entry: Entry) -> str:
    finding = entry.finding
    if finding is None or finding.difference is None:
        return ""
    low, high = ("?" if bound is None else f"{100 * bound:.1f}" for bound in (finding.low, finding.high))
    return f"{100 * finding.difference:+.1f} \\[{low}, {high}]"
