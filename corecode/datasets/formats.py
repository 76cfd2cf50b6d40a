"""The formats that are read, recognised by the fields of a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from corecode.datasets import codecontests, codeforces, evalplus, humaneval, livecodebench, mbpp
from corecode.datasets.converted import Converted, Origin, Refused
from corecode.problems import Problem

Record = dict[str, Any]


@dataclass(frozen=True)
class Format:
    """One format of records."""

    name: str
    fields: frozenset[str]
    """Fields that tell a record of this format."""
    convert: Callable[[Record, Origin], Converted]
    split_of: Callable[[Record], str | None] | None = None
    """The split that a record belongs to, where the format says so."""


def _format(
    name: str,
    fields: str,
    convert: Callable[[Record, Origin], Converted],
    split_of: Callable[[Record], str | None] | None = None,
) -> Format:
    return Format(name, frozenset(fields.split()), convert, split_of)


def _own(record: Record, origin: Origin) -> Converted:
    return Converted(Problem.model_validate(record))


OWN = _format("corecode", "id statement tests", _own)
"""This project's own format."""
FORMATS = (
    OWN,
    _format("evalplus", "task_id prompt entry_point canonical_solution base_input", evalplus.convert),
    _format("humaneval", "task_id prompt entry_point canonical_solution test", humaneval.convert),
    _format("mbpp+ of the hub", "task_id prompt test_list test", evalplus.refuse_hub),
    _format("mbpp", "task_id text test_list", mbpp.convert, mbpp.split_of),
    _format("mbpp-sanitized", "task_id prompt test_list", mbpp.convert, mbpp.split_of),
    _format("gen-verse-function", "question test_list test_method", codecontests.convert_lists),
    _format("gen-verse", "question test_input test_output", codecontests.convert_lists),
    _format("code_contests", "description public_tests private_tests", codecontests.convert_columns),
    _format("sandbox-sample", "content labels test", codecontests.convert_sample),
    _format("codeforces", "contest_id description official_tests", codeforces.convert),
    _format("livebench", "turns public_test_cases private_test_cases", livecodebench.convert_livebench),
    _format("livecodebench", "question_content public_test_cases private_test_cases", livecodebench.convert),
)
"""In the order in which they are tried: the first whose fields a record has."""


def recognise(record: Record) -> Format | None:
    """The format of a record; None for one of no known format. Two of our own format's three fields tell it, so that a
    misspelt third is named as a mistake."""
    if len(OWN.fields & record.keys()) >= 2:
        return OWN
    return next((one for one in FORMATS if one.fields <= record.keys()), None)


def convert(found: Format, record: Record, origin: Origin) -> Converted:
    """The problem of a record.

    Raises:
        Refused: with the reason, whatever is wrong with the record.
    """
    try:
        return found.convert(record, origin)
    except Refused:
        raise
    except ValidationError as error:
        raise Refused(first_mistake(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError, SyntaxError, RecursionError, StopIteration) as error:
        raise Refused(f"a field is missing or malformed ({type(error).__name__}: {error})") from error


def first_mistake(error: ValidationError) -> str:
    """The first mistake of a record with its field, in one sentence."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
