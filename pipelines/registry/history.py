"""The history of the registry: what each version asks, what came of it, and what all of them amount to.

A version says when it is made what is asked: a team offered, forced, or gone back to. What comes of it follows from the
entries before it alone, so any process comes to the same decision. Nothing here knows MLflow but by its tags.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from corecode.errors import UserError
from pipelines.home import plain_name
from pipelines.registry.gate import Criteria, Finding, Outcome, compare
from pipelines.registry.team import Scores

Kind = Literal["offer", "force", "rollback"]


@dataclass(frozen=True)
class Request:
    """What an entry asks for."""

    ticket: str
    """Unique: an entry that was sent twice counts once."""
    kind: Kind
    run: str
    content: str
    """Identity of the team (see :func:`pipelines.registry.team.content_digest`)."""
    digest: str
    """Identity of the evaluation."""
    pass_at_1: float
    criteria: Criteria
    asked: str
    """Why, in the words of who forces or rolls back; empty for an offer."""
    champion_then: int
    """Version that a rollback goes back from; 0 for other kinds."""
    by: str
    at: str
    """Time as ISO 8601."""

    def tags(self) -> dict[str, str]:
        values = {
            "ticket": self.ticket,
            "kind": self.kind,
            "run": self.run,
            "content": self.content,
            "digest": self.digest,
            "pass_at_1": f"{self.pass_at_1:.6f}",
            "criteria": self.criteria.text(),
            "asked": self.asked,
            "champion_then": str(self.champion_then),
            "by": self.by,
            "time": self.at,
        }
        return {f"corecode.{name}": value[:4000] for name, value in values.items()}

    @staticmethod
    def read(tags: Mapping[str, str]) -> Request:
        """The inverse of :meth:`tags`.

        Raises:
            KeyError, ValueError, UserError: the tags are not those of a request.
        """
        kind = tags["corecode.kind"]
        if kind not in get_args(Kind):
            raise ValueError(f"kind {kind!r}")
        return Request(
            ticket=tags["corecode.ticket"],
            kind=kind,
            run=plain_name(tags["corecode.run"], "run"),
            content=plain_name(tags["corecode.content"], "content"),
            digest=tags["corecode.digest"],
            pass_at_1=float(tags["corecode.pass_at_1"]),
            criteria=Criteria.read(tags["corecode.criteria"]),
            asked=tags.get("corecode.asked", ""),
            champion_then=int(tags["corecode.champion_then"]),
            by=tags["corecode.by"],
            at=tags["corecode.time"],
        )


@dataclass(frozen=True)
class Entry:
    """A version: what it asks, and what came of it."""

    version: int
    request: Request
    source: str
    """Where the store keeps the model: ``models:/<id>``."""
    run_id: str | None
    """MLflow run that the team is from."""
    finding: Finding | None = None
    """None while undecided."""
    previous: int = 0
    """Version that was champion before the decision; 0 for none."""

    @property
    def promoted(self) -> bool:
        return self.finding is not None and self.finding.outcome == "promoted"


@dataclass(frozen=True)
class State:
    """What the entries amount to, up to some point."""

    entries: tuple[Entry, ...] = ()
    reign: tuple[Entry, ...] = ()
    """The champions that led to the present one, which is the last. Going back removes from the end."""
    withdrawn: Mapping[str, str] = field(default_factory=dict[str, str])
    """Teams that were rolled back, with the reason; only force brings them back."""

    @property
    def champion(self) -> Entry | None:
        return self.reign[-1] if self.reign else None

    @property
    def challenger(self) -> Entry | None:
        """The team that was offered last, unless it became champion, by itself or by force."""
        offers = [entry for entry in self.entries if entry.request.kind == "offer"]
        if not offers or offers[-1].promoted:
            return None
        champion = self.champion
        return None if champion and champion.request.content == offers[-1].request.content else offers[-1]

    def entry(self, version: int) -> Entry | None:
        return next((entry for entry in self.entries if entry.version == version), None)

    def offered(self, content: str) -> Entry | None:
        """The last time that a team was offered or forced."""
        known = (one for one in reversed(self.entries) if one.request.kind != "rollback")
        return next((one for one in known if one.request.content == content), None)

    def after(self, entry: Entry) -> State:
        """The state with one more decided entry."""
        entries = (*self.entries, entry)
        if not entry.promoted:
            return replace(self, entries=entries)
        content = entry.request.content
        withdrawn = {team: reason for team, reason in self.withdrawn.items() if team != content}
        reign = list(self.reign)
        if entry.request.kind == "rollback" and any(one.request.content == content for one in reign):
            while reign[-1].request.content != content:
                withdrawn[reign.pop().request.content] = entry.request.asked
            reign.pop()
        return State(entries, (*reign, entry), withdrawn)


def decide(entry: Entry, state: State, scores: Callable[[Entry], Scores]) -> Finding:
    """What comes of an entry in the state before it."""
    request, champion = entry.request, state.champion
    if request.kind == "rollback":
        if champion is None or champion.version != request.champion_then:
            return Finding(
                "held", "held: the champion changed meanwhile; look at it, and roll back again if you still want to"
            )
        return Finding("promoted", f"rolled back from {champion.request.run}: {request.asked}")
    if request.kind == "force":
        return Finding("promoted", f"forced: {request.asked}")
    if champion is None:
        return Finding("promoted", "the first champion")
    if champion.request.content == request.content:
        return Finding("held", f"already the champion, as version {champion.version}")
    if request.content in state.withdrawn:
        return Finding(
            "held", f"held: it was rolled back ({state.withdrawn[request.content]}); only force brings it back"
        )
    try:
        offered, present = scores(entry), scores(champion)
    except UserError as error:  # nothing is gained by asking again, and what comes after must not wait for it
        return Finding("refused", f"refused: nothing can be compared with {champion.request.run}: {error}")
    return compare(offered, present, champion.request.run, request.criteria)


def read_entry(version: int, source: str, run_id: str | None, tags: Mapping[str, str]) -> Entry:
    """An entry from the tags of its version.

    Raises:
        ValueError: the tags are not those of an entry.
    """
    try:
        return Entry(version, Request.read(tags), source, run_id, *_finding(tags))
    except (KeyError, ValueError, TypeError, UserError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _finding(tags: Mapping[str, str]) -> tuple[Finding | None, int]:
    outcome = tags.get("corecode.outcome")
    if outcome is None:
        return None, 0
    if outcome not in get_args(Outcome):
        raise ValueError(f"outcome {outcome!r}")
    figures: Sequence[float | None] = [
        float(tags[name]) if (name := f"corecode.{figure}") in tags else None
        for figure in ("difference", "low", "high")
    ]
    return Finding(outcome, tags["corecode.reason"], *figures), int(tags["corecode.previous"])
