"""Promote a run's team, go back to a former champion, and find the champion's folder.

champions/<run>-<content>/   teams that were champion and are kept on this machine
champion -> champions/...    the present one, when it is kept here
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from corecode.config import Profile
from corecode.errors import InfrastructureError, UserError
from pipelines.home import one_at_a_time, plain_name
from pipelines.owners import person
from pipelines.redact import reason as one_line
from pipelines.registry.gate import Criteria, Outcome
from pipelines.registry.history import Entry, Kind, Request, State
from pipelines.registry.ledger import Ledger
from pipelines.registry.package import fetch, store_model
from pipelines.registry.team import assemble, content_digest, link_tree, read_scores
from pipelines.tracking import run_key

if TYPE_CHECKING:
    from pipelines.tracking import Tracking

LONGEST_REASON = 500
"""Characters of a reason that are kept."""


@dataclass(frozen=True)
class Decision:
    """What came of a promotion or a rollback."""

    champion: bool
    """Whether the team is the champion now."""
    outcome: Outcome
    reason: str
    run: str
    version: int
    """Version of the registered model."""
    previous: str = ""
    """Run of the champion before."""
    difference: float | None = None
    """Difference in pass@1 to the champion before, with its 95 % interval."""
    low: float | None = None
    high: float | None = None


def promote(
    profile: Profile, run: Path, home: Path, store: Tracking, margin: float | None = None, force: str | None = None
) -> Decision:
    """Offer a run's team as champion; calling it again changes nothing.

    Args:
        margin: replaces the profile's.
        force: a reason, and the gate is not asked.

    Raises:
        InfrastructureError: the run has no complete evaluation of its team, a model is missing, or MLflow failed.
        UserError: a model folder holds pickled files, the profile does not evaluate the team, or the run's folder has a
            name that the history could not be read with.
    """
    plain_name(run.name, "the run's folder")
    asked = profile.promotion
    criteria = Criteria(asked.margin if margin is None else margin, dict(asked.guards))
    with one_at_a_time(home / "champions"):
        folder = assemble(profile, run)
        content = content_digest(folder)
        ledger = Ledger(store)
        state = ledger.settle()
        champion, known = state.champion, state.offered(content)
        if champion is not None and champion.request.content == content:
            _keep(champion, home, folder)
            return _decision(champion, state, "already the champion")
        if known is None or force is not None or not _same_question(known, criteria, state):
            scores = read_scores(folder)
            with ledger.answering():
                run_id = store.find(run_key(run.name))
            source = known.source if known else _store(store, ledger, folder, run_id, run.name)
            request = _request(
                "offer" if force is None else "force",
                run=run.name,
                content=content,
                digest=scores.digest,
                pass_at_1=scores.pass_at_1,
                criteria=criteria,
                asked=force or "",
            )
            version = ledger.append(request, source, run_id)
            state = ledger.settle()
            known = state.entry(version)
            if known is None:
                raise InfrastructureError(f"version {version} vanished from MLflow while it was decided")
        _refresh(state, home, folder, content)
    return _decision(known, state)


def rollback(home: Path, store: Tracking, to: int | None, reason: str) -> Decision:
    """Make a former champion the champion again: the one before the present one, or that of a version.

    Raises:
        UserError: there is no such champion to go back to.
        InfrastructureError: MLflow failed.
    """
    none = UserError("there is no champion to go back from; 'corecode promote RUN' makes one")
    if not store.exists:
        raise none
    with one_at_a_time(home / "champions"):
        ledger = Ledger(store)
        state = ledger.settle()
        present = state.champion
        if present is None:
            raise none
        target = _target(state, present, to)
        old = target.request
        request = _request(
            "rollback",
            run=old.run,
            content=old.content,
            digest=old.digest,
            pass_at_1=old.pass_at_1,
            criteria=old.criteria,
            asked=reason,
            champion_then=present.version,
        )
        version = ledger.append(request, target.source, target.run_id)
        state = ledger.settle()
        entry = state.entry(version)
        if entry is None:
            raise InfrastructureError(f"version {version} vanished from MLflow while it was decided")
        _refresh(state, home)
    return _decision(entry, state)


def _target(state: State, present: Entry, to: int | None) -> Entry:
    if to is None:
        if len(state.reign) < 2:
            raise UserError(f"{present.request.run} is the first champion: there is none before it to go back to")
        return state.reign[-2]
    target = state.entry(to)
    if target is None:
        raise UserError(f"--to {to}: the registry has no such version; 'corecode champions' lists them")
    if target.request.content == present.request.content:
        raise UserError(f"--to {to}: {target.request.run} is the champion already")
    if not target.promoted:
        raise UserError(
            f"--to {to}: that version was never champion; 'corecode promote {target.request.run} --force REASON' makes"
            " it one"
        )
    return target


def champion_folder(home: Path, store: Tracking, model: str = "champion") -> Path | None:
    """Folder of the champion's team on this machine; None when there is no champion.

    What is not here is fetched from the registry. A server's registry is asked each time which team is champion:
    another machine may have promoted one.

    Args:
        model: ``champion``, ``challenger`` or a version's number.

    Raises:
        InfrastructureError: MLflow failed, or what it sent is not what was registered.
    """
    link = home / "champion"
    if model == "champion" and store.local and (link / "team.json").is_file():
        return link
    if not store.exists:
        return None
    ledger = Ledger(store)
    state = ledger.state()
    entry = state.entry(int(model)) if model.isdigit() else {"champion": state.champion}.get(model, state.challenger)
    if entry is None:
        return None
    with one_at_a_time(home / "champions"):
        kept = _kept(entry, home)
        if not kept.is_dir():
            _fetch(ledger, entry, kept)
        if entry == state.champion:
            _point(home, kept)
    return kept


def _fetch(ledger: Ledger, entry: Entry, kept: Path) -> None:
    """Bring an entry's team to ``kept``, which is there only once its files are known to be those registered."""
    with tempfile.TemporaryDirectory(prefix="fetched.", dir=kept.parent) as folder:
        found = Path(folder) / kept.name
        with ledger.answering():
            fetch(ledger.location(entry), found)
        damaged = f"version {entry.version} in MLflow is damaged"
        try:
            content = content_digest(found)
        except UserError as error:
            raise InfrastructureError(f"{damaged}: {error}") from error
        if content != entry.request.content:
            raise InfrastructureError(f"{damaged}: its files are not those registered")
        found.rename(kept)


def _request(
    kind: Kind,
    *,
    run: str,
    content: str,
    digest: str,
    pass_at_1: float,
    criteria: Criteria,
    asked: str,
    champion_then: int = 0,
) -> Request:
    return Request(
        ticket=uuid.uuid4().hex,
        kind=kind,
        run=run,
        content=content,
        digest=digest,
        pass_at_1=pass_at_1,
        criteria=criteria,
        asked=one_line(asked, LONGEST_REASON),
        champion_then=champion_then,
        by=person(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _same_question(known: Entry, criteria: Criteria, state: State) -> bool:
    """Whether a team was already held against the present champion, with the same criteria."""
    champion = state.champion
    return (
        not known.promoted
        and champion is not None
        and (known.previous, known.request.criteria)
        == (
            champion.version,
            criteria,
        )
    )


def _store(store: Tracking, ledger: Ledger, folder: Path, run_id: str | None, run: str) -> str:
    with ledger.answering():
        model_id = store_model(store.client, store.experiment, folder, run_id, {"corecode.run": run})
    return f"models:/{model_id}"


def _decision(entry: Entry, state: State, reason: str | None = None) -> Decision:
    finding = entry.finding
    if finding is None:
        raise InfrastructureError(f"version {entry.version} is still undecided")
    before = state.entry(entry.previous)
    return Decision(
        champion=state.champion is not None and state.champion.request.content == entry.request.content,
        outcome=finding.outcome,
        reason=reason or finding.reason,
        run=entry.request.run,
        version=entry.version,
        previous=before.request.run if before else "",
        difference=finding.difference,
        low=finding.low,
        high=finding.high,
    )


def _kept(entry: Entry, home: Path) -> Path:
    return home / "champions" / f"{entry.request.run}-{entry.request.content[:8]}"


def _refresh(state: State, home: Path, offered: Path | None = None, content: str = "") -> None:
    """Let ``champion`` point to the present champion. One that another machine trained is fetched when it is asked."""
    champion = state.champion
    if champion is None:
        return
    if offered is not None and champion.request.content == content:
        _keep(champion, home, offered)
    elif _kept(champion, home).is_dir():
        _point(home, _kept(champion, home))
    else:
        (home / "champion").unlink(missing_ok=True)


def _keep(champion: Entry, home: Path, folder: Path) -> None:
    kept = _kept(champion, home)
    if not kept.is_dir():
        partial = kept.with_name(f"{kept.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        link_tree(folder, partial)
        partial.rename(kept)
    _point(home, kept)


def _point(home: Path, kept: Path) -> None:
    link = home / "champion.new"
    link.unlink(missing_ok=True)
    link.symlink_to(Path("champions") / kept.name)
    link.replace(home / "champion")  # atomic: there is a whole champion at every moment
