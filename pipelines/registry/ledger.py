"""The history kept in MLflow: the versions of the registered model, and aliases that are true to them.

The store numbers versions one after the other. That order is what makes promotions at the same time safe, from however
many machines: every process decides the same for an entry, also for that of a process that died. Aliases and decision
tags only show the result, and :meth:`Ledger.settle` does not return before they do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corecode.errors import InfrastructureError, UserError
from pipelines.redact import reason, shown_cause
from pipelines.registry import MODEL
from pipelines.registry.gate import Finding
from pipelines.registry.history import Entry, Request, State, decide, read_entry
from pipelines.registry.package import fetch
from pipelines.registry.team import SCORES, Scores, read_scores

if TYPE_CHECKING:
    from pipelines.tracking import Tracking

CHAMPION, CHALLENGER = "champion", "challenger"
ATTEMPTS = 20
"""Tries to add a version; each that fails means that another process added one."""


class Ledger:
    """The history in one MLflow store."""

    def __init__(self, store: Tracking) -> None:
        self._store = store
        self._scores: dict[str, Scores] = {}

    @contextmanager
    def answering(self) -> Generator[None]:
        """Turn whatever the store raises into an outage: nothing is decided without it."""
        from mlflow.exceptions import MlflowException

        try:
            yield
        except (MlflowException, OSError) as error:
            raise InfrastructureError(f"the registry in MLflow at {self._store.shown} failed: {reason(error)}") from (
                shown_cause(error)
            )

    def read(self) -> list[Entry]:
        """All entries in order. Versions that were registered by hand have no ``corecode.kind`` and are none."""
        client, found, token = self._store.client, [], None
        with self.answering():
            while True:
                page = client.search_model_versions(f"name='{MODEL}'", max_results=1000, page_token=token)
                found += page
                token = page.token
                if not token:
                    break
        entries: dict[str, Entry] = {}
        for version in sorted(found, key=lambda one: int(one.version)):
            if "corecode.kind" in version.tags:
                entry = self._entry(version)
                entries.setdefault(entry.request.ticket, entry)
        return list(entries.values())

    @staticmethod
    def _entry(version: Any) -> Entry:
        try:
            return read_entry(int(version.version), version.source, version.run_id or None, version.tags)
        except ValueError as error:
            raise InfrastructureError(
                f"version {version.version} of {MODEL} in MLflow has damaged tags ({error}); delete the version"
            ) from error

    def state(self) -> State:
        """The history as it is decided so far; changes nothing."""
        state = State()
        for entry in self.read():
            state = state.after(entry)
        return state

    def settle(self) -> State:
        """Decide what is undecided, and make the aliases say so."""
        while True:
            changed = False
            state = State()
            for entry in self.read():
                if entry.finding is None:
                    entry = self._record(entry, decide(entry, state, self.scores), state)
                    changed = True
                state = state.after(entry)
            # A process that is slower than another may just have put an older alias: look again until nothing is left.
            if not self._align(state) and not changed:
                return state

    def _record(self, entry: Entry, finding: Finding, state: State) -> Entry:
        champion = state.champion
        previous = champion.version if champion else 0
        values: dict[str, Any] = {"reason": finding.reason, "previous": previous}
        values |= {"previous_run": champion.request.run if champion else None}
        values |= {"difference": finding.difference, "low": finding.low, "high": finding.high}
        with self.answering():
            for name, value in values.items():
                if value is not None:
                    self._tag(entry.version, name, str(value))
            self._describe(entry, finding)
            self._tag(entry.version, "outcome", finding.outcome)  # last: with it the entry counts as decided
        return replace(entry, finding=finding, previous=previous)

    def _tag(self, version: int, name: str, value: str) -> None:
        self._write(
            lambda: self._store.client.set_model_version_tag(MODEL, str(version), f"corecode.{name}", value[:4000])
        )

    def _describe(self, entry: Entry, finding: Finding) -> None:
        """One line for MLflow's table of versions, which shows its beginning only."""
        request = entry.request
        sentence = f"{finding.outcome}, pass@1 {100 * request.pass_at_1:.1f} %, {request.run}: {finding.reason}"
        self._write(
            lambda: self._store.client.update_model_version(MODEL, str(entry.version), description=sentence[:4000])
        )

    @staticmethod
    def _write(write: Callable[[], None]) -> None:
        """Of two processes that add a row at once the store refuses one, which finds the row when it tries again."""
        from mlflow.exceptions import MlflowException

        try:
            write()
        except MlflowException:
            write()

    def aliases(self) -> dict[str, int]:
        """Version of each alias."""
        from mlflow.exceptions import MlflowException

        with self.answering():
            try:
                found = self._store.client.get_registered_model(MODEL).aliases
            except MlflowException as error:
                if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                    return {}
                raise
        return {alias: int(version) for alias, version in found.items()}

    def _align(self, state: State) -> bool:
        """Set the aliases that differ; whether there were any."""
        present = self.aliases() if state.entries else {}
        changed = False
        with self.answering():
            for alias, entry in ((CHAMPION, state.champion), (CHALLENGER, state.challenger)):
                if entry is not None and present.get(alias) != entry.version:
                    self._alias(alias, entry.version)
                    changed = True
                elif entry is None and alias in present:
                    self._store.client.delete_registered_model_alias(MODEL, alias)
                    changed = True
        return changed

    def _alias(self, alias: str, version: int) -> None:
        self._write(lambda: self._store.client.set_registered_model_alias(MODEL, alias, str(version)))

    def append(self, request: Request, source: str, run_id: str | None) -> int:
        """Add an entry; return its version. An offered team is the challenger until it is decided."""
        with self.answering():
            self._create_model()
            version = self._create_version(request, source, run_id)
            if request.kind == "offer":
                self._alias(CHALLENGER, version)
        return version

    def _create_model(self) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._store.client.create_registered_model(
                MODEL, description="A Planner and a Coder that were trained together; see docs/registry.md."
            )
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def _create_version(self, request: Request, source: str, run_id: str | None) -> int:
        from mlflow.exceptions import MlflowException

        model_id = source.removeprefix("models:/")
        for attempt in range(ATTEMPTS):
            try:
                created = self._store.client.create_model_version(
                    MODEL, source, run_id=run_id, tags=request.tags(), model_id=model_id
                )
                return int(created.version)
            except MlflowException:
                # The store gives up after a few collisions over the next number; and an answer may have been lost.
                made = [entry for entry in self.read() if entry.request.ticket == request.ticket]
                if made:
                    return made[0].version
                if attempt + 1 == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def location(self, entry: Entry) -> str:
        """Where the store keeps the folder of an entry's team."""
        with self.answering():
            uri = self._store.client.get_model_version_download_uri(MODEL, str(entry.version))
        return f"{uri.rstrip('/')}/artifacts"

    def scores(self, entry: Entry) -> Scores:
        """The scores that came with a version.

        Raises:
            UserError: the store answers, and they are not there or damaged.
            InfrastructureError: the store does not answer.
        """
        import mlflow.artifacts

        key = entry.request.content
        if key not in self._scores:
            damaged = UserError(f"the scores of version {entry.version} are not in MLflow any more, or damaged")
            location = self.location(entry)
            with tempfile.TemporaryDirectory() as folder, self.answering():
                if SCORES not in {Path(one.path).name for one in mlflow.artifacts.list_artifacts(location)}:
                    raise damaged
                fetch(f"{location}/{SCORES}", Path(folder) / SCORES)
                try:
                    self._scores[key] = read_scores(Path(folder))
                except UserError as error:
                    raise damaged from error
        return self._scores[key]
