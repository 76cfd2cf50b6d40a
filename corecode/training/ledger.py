"""What a job that was killed goes on from: records that are kept as they come, in a file that only grows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from corecode.config import SamplingConfig
from corecode.generation.generator import Chat, Completion, Generator, Listener
from corecode.problems import Problem
from corecode.teams.samples import Report, Tester

UNFINISHED = "unfinished"
"""Folder of a job's ledgers; it goes when the job is complete."""


class Ledger:
    """Records (JSON objects) in a file, one a line. Opening it again gives those that were written whole.

    The first line names what the records belong to; a file that belongs to something else is started anew. A line that
    its writer did not finish is cut off.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._head = {"identity": identity}
        self.records: list[dict[str, Any]] = self._open()

    def append(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add records; they are on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(b"".join(_line(record) for record in records))
            file.flush()
            os.fsync(file.fileno())
        self.records += [dict(record) for record in records]

    def clear(self) -> None:
        """Forget all records."""
        self.path.write_bytes(_line(self._head))
        self.records = []

    def _open(self) -> list[dict[str, Any]]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        data = self.path.read_bytes() if self.path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        if not lines or lines[0] + b"\n" != _line(self._head):
            self.clear()
            return []
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        return [json.loads(line) for line in lines[1:]]


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, sort_keys=True, ensure_ascii=False) + "\n").encode()


class Recorded:
    """A :class:`~corecode.generation.generator.Generator` that never buys the same answers twice.

    Every call that was answered is in the ledger, and is answered from there when it is asked again: after a kill, or
    when another call of the same work had failed.
    """

    def __init__(self, name: str, inner: Generator, ledger: Ledger) -> None:
        """``name`` tells the generators that share a ledger apart."""
        self._name = name
        self._inner = inner
        self._ledger = ledger

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        """See :class:`~corecode.generation.generator.Generator`."""
        key = _key([self._name, [list(chat) for chat in chats], n, sampling.model_dump(), seed])
        known = _known(self._ledger, key)
        if known is not None:
            return [[_completion(one) for one in group] for group in known]
        answers = self._inner.generate(chats, n, sampling, seed)
        self._ledger.append([{"call": key, "answer": [[_plain(one) for one in group] for group in answers]}])
        return answers


def recorded_tester(inner: Tester, ledger: Ledger) -> Tester:
    """A tester whose reports are kept like answers: another measurement could lead an attempt elsewhere, and what it
    then asks would be bought anew. Where the sandbox has failed nothing is kept."""

    def test(drafts: Sequence[tuple[Problem, str | None]]) -> list[Report]:
        key = _key(["sample tests", [[problem.id, source] for problem, source in drafts]])
        known = _known(ledger, key)
        if known is not None:
            return [Report(**one) for one in known]
        reports = inner(drafts)
        if all(report.lost is None for report in reports):
            ledger.append([{"call": key, "answer": [asdict(report) for report in reports]}])
        return reports

    return test


def _key(question: object) -> str:
    return sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _known(ledger: Ledger, key: str) -> Any:
    return next((record["answer"] for record in ledger.records if record["call"] == key), None)


def _plain(completion: Completion) -> list[Any]:
    return [completion.text, list(completion.token_ids), completion.tokens, completion.truncated]


def _completion(plain: Sequence[Any]) -> Completion:
    text, token_ids, tokens, truncated = plain
    return Completion(text, tuple(token_ids), tokens, truncated)
