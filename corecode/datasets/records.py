"""Raw records of a source: a JSON or JSON-lines file (also gzipped), a Parquet file, a folder of such, or a data set on
the Hugging Face hub. What a record means is the business of :mod:`corecode.datasets.formats`.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from corecode.errors import InfrastructureError, UserError
from corecode.hub import hub_answers
from corecode.lines import not_an_object, not_json

Record = dict[str, Any]

ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz", ".parquet")
MAX_BYTES = 2 << 30
"""Most that is read at once: of a line, or of a .json file as a whole."""
DEFAULT_SPLIT = "test"
"""The split that is read where a source has one of this name and none is asked for."""
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
RENAMED = "-ReasonFlux"
"""Ending that the paper's authors added to the names of some of their data sets; ids with and without it are tried."""


def is_hub_id(source: str) -> bool:
    """Whether a source is named like a data set on the hub (``owner/name``), not like a file or folder here."""
    return bool(_HUB_ID.fullmatch(source)) and not source.endswith(ENDINGS) and not Path(source.split("/")[0]).is_dir()


def stem(path: Path) -> str:
    """A file's name without its ending: ``train`` for ``train.jsonl.gz``."""
    return path.name.removesuffix(".gz").rpartition(".")[0]


def data_files(folder: Path) -> list[Path]:
    """The files of a folder that may hold problems, by name."""
    return sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS) and path.is_file())


def chosen_files(path: Path, split: str | None) -> list[Path]:
    """The files to read of a file or folder: of a folder those named like the split (``test`` where none is asked for
    and the folder has one), else all.

    Raises:
        UserError: for a path that is not there, a folder without problem files, or without the split.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"there is no file or folder {path}; give one, or the id of a data set on the hub (owner/name)")
    found = data_files(path)
    if not found:
        raise UserError(f"the folder {path} holds no problem file; one ends with {', '.join(ENDINGS)}")
    named = [one for one in found if stem(one) == (split or DEFAULT_SPLIT)]
    if split is not None and not named and any(stem(one) in ("train", "validation", "test") for one in found):
        raise UserError(f"the folder {path} has no file of the split {split!r}; it has {_names(found)}")
    return named or found


def _names(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths)


def records_of(path: Path) -> Iterator[tuple[int, Record]]:
    """The records of a file, each with its line number (of JSON lines) or position, from 1.

    Raises:
        UserError: naming the file, and the line of what is not a JSON object.
    """
    if path.name.endswith(".parquet"):
        yield from _parquet(path)
        return
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        for number, line in _lines(path):
            where = f"{path}, line {number}"
            if line.strip():
                yield number, _object(_parse(line, where), where)
        return
    with _opened(path) as file:
        content = _parse(_bounded(file.read(MAX_BYTES + 1), str(path)), str(path))
    if not isinstance(content, list):
        raise UserError(f"{path}: a .json file has to hold one array of records; write one record a line into a .jsonl")
    for number, record in enumerate(cast("list[object]", content), 1):
        yield number, _object(record, f"{path}, record {number}")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines by line feeds alone, each with its number: a string may hold U+2028 and its like."""
    with _opened(path) as file:
        number = 1
        while line := file.readline(MAX_BYTES + 1):
            yield number, _bounded(line, f"{path}, line {number}")
            number += 1


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise UserError(f"{where}: this is larger than {MAX_BYTES >> 30} GiB; write one record a line into a .jsonl")
    return data


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    try:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
            yield cast("IO[bytes]", file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: this is not a whole gzip file ({error})") from error
    except OSError as error:
        raise UserError(f"cannot read the problem file {path}: {error.strerror}") from error


def _parse(data: bytes, where: str) -> object:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: this is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: {not_json(error)}") from error


def _object(value: object, where: str) -> Record:
    if not isinstance(value, dict):
        raise UserError(f"{where}: {not_an_object(value)}")
    return cast("Record", value)


def _parquet(path: Path) -> Iterator[tuple[int, Record]]:
    import pyarrow
    from pyarrow import parquet

    try:
        number = 0
        for batch in parquet.ParquetFile(path).iter_batches(256):
            for record in cast("list[Record]", batch.to_pylist()):
                number += 1
                yield number, record
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: this is not a Parquet file that can be read ({error})") from error


def hub_records(name: str, split: str | None) -> Iterator[tuple[int, Record]]:
    """The records of a data set on the hub, as they arrive: reading a few does not download all.

    Raises:
        UserError: when the hub has no such data set or split.
        InfrastructureError: when the hub does not answer; the message names the remedy.
    """
    for number, record in enumerate(_stream(name, split), 1):
        yield number, dict(record)


def _stream(name: str, split: str | None) -> Iterator[Record]:
    remedy = "download it where there is a connection and give the file or folder instead"
    if not hub_answers():
        raise InfrastructureError(f"the data set {name} cannot be read: the Hugging Face hub does not answer; {remedy}")
    from datasets import get_dataset_split_names, load_dataset
    from datasets.exceptions import DatasetNotFoundError, DatasetsError

    other = name.removesuffix(RENAMED) if name.endswith(RENAMED) else name + RENAMED
    for one in (name, other):
        try:
            splits = get_dataset_split_names(one)
            chosen = _split(one, splits, split)
            yield from cast("Iterator[Record]", load_dataset(one, split=chosen, streaming=True))
            return
        except DatasetNotFoundError:
            continue
        except (OSError, DatasetsError, ValueError, RuntimeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InfrastructureError(
                f"the data set {one} cannot be read from the Hugging Face hub ({reason}); {remedy}"
            ) from error
    raise UserError(f"the Hugging Face hub has no data set {name} (or it needs a login); check the id, or give a file")


def _split(name: str, splits: list[str], wanted: str | None) -> str:
    """The split to read: the one asked for, else ``test``, else the only one."""
    if wanted is None and DEFAULT_SPLIT not in splits and len(splits) == 1:
        return splits[0]
    chosen = wanted or DEFAULT_SPLIT
    if chosen not in splits:
        raise UserError(f"the data set {name} has the splits {', '.join(splits)}, not {chosen!r}; name one of them")
    return chosen
