"""Files of JSON lines, read whole and checked, with the same words for the same mistake wherever a user meets it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from corecode.errors import UserError

_Row = TypeVar("_Row", bound=BaseModel)


def read_rows(path: Path, model: type[_Row], what: str) -> list[tuple[int, _Row]]:
    """The rows of a file with their line numbers; blank lines are skipped.

    Args:
        what: what a row is, such as "problem".

    Raises:
        UserError: one sentence that names the file, the line and the field; also where there is no row.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the {what} file {path}: {error.strerror}") from error
    rows: list[tuple[int, _Row]] = []
    for number, line in numbered(decoded(data, path)):
        try:
            rows.append((number, model.model_validate_json(line)))
        except ValidationError as error:
            raise UserError(f"{path}, line {number}: {first_mistake(error)}") from error
    if not rows:
        raise UserError(f"{path} holds no {what}; give at least one JSON line")
    return rows


def decoded(data: bytes, path: Path) -> str:
    """Bytes of a file as text, without a byte order mark.

    Raises:
        UserError: they are not UTF-8; names the line.
    """
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: this is not UTF-8 text") from error


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1. Only a line feed ends a line: JSON text may hold other line
    separators, such as U+2028, inside its strings."""
    return ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def first_mistake(error: ValidationError, within: str = "") -> str:
    """The first mistake of a record as ``field: what is wrong``; ``within`` is the field that holds the record."""
    first = error.errors(include_url=False)[0]
    where = ".".join([within] * bool(within) + [str(part) for part in first["loc"]])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return not_json(message.removeprefix("Invalid JSON: "))
    if not where and first["type"] == "model_type":
        return not_an_object(first["input"])
    if first["type"].endswith("_type"):
        message += f", found {kind_of(first['input'])}"
    return f"{where}: {message}" if where else message


def not_json(reason: object) -> str:
    """What is said of a text that is not JSON."""
    return f"this is not JSON ({reason})"


def not_an_object(value: object) -> str:
    """What is said of a record that is something else."""
    return f"a record has to be a JSON object, found {kind_of(value)}"


def kind_of(value: object) -> str:
    """What JSON calls a value."""
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


_KINDS: dict[type, str] = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
