"""The formats that are read, recognised by the fields of a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from corecode.datasets import codecontests, codeforces, evalplus, humaneval, livecodebench, mbpp, shapes
from corecode.datasets.converted import Converted, Origin, Refused
from corecode.lines import first_mistake
from corecode.problems import Problem

Record = dict[str, Any]


@dataclass(frozen=True)
class Format:
    """One format of records."""

    name: str
    fields: frozenset[str]
    """Fields that tell a record of this format."""
    shape: TypeAdapter[Any]
    """What its fields have to hold."""
    convert: Callable[[Record, Origin], Converted]
    split_of: Callable[[Record], str | None] | None = None
    """The split that a record belongs to, where the format says so."""

    def fits(self, record: Record) -> bool:
        """Whether the fields hold what they have to."""
        try:
            shapes.check(self.shape, record)
        except Refused:
            return False
        return True

    def missing(self, record: Record) -> list[str]:
        """Fields that a record would need to be of this format."""
        return sorted(self.fields - record.keys())


def _format(
    name: str,
    fields: str,
    shape: type,
    convert: Callable[[Record, Origin], Converted],
    split_of: Callable[[Record], str | None] | None = None,
) -> Format:
    return Format(name, frozenset(fields.split()), TypeAdapter(shape), convert, split_of)


def _own(record: Record, origin: Origin) -> Converted:
    shapes.check_characters(record)
    return Converted(Problem.model_validate(record))


OWN = _format("corecode", "id statement tests", shapes.Own, _own)
"""This project's own format."""
_LISTS, _CASES = shapes.Lists, "public_test_cases private_test_cases"
FORMATS = (
    OWN,
    _format("evalplus", "task_id prompt entry_point canonical_solution base_input", shapes.EvalPlus, evalplus.convert),
    _format("humaneval", "task_id prompt entry_point canonical_solution test", shapes.HumanEval, humaneval.convert),
    _format("mbpp+ of the hub", "task_id prompt test_list test", shapes.Mbpp, evalplus.refuse_hub),
    _format("mbpp", "task_id text test_list", shapes.Mbpp, mbpp.convert, mbpp.split_of),
    _format("mbpp-sanitized", "task_id prompt test_list", shapes.Mbpp, mbpp.convert, mbpp.split_of),
    _format("gen-verse-function", "question test_list test_method", _LISTS, codecontests.convert_lists),
    _format("gen-verse", "question test_input test_output", _LISTS, codecontests.convert_lists),
    _format("code_contests", "description public_tests private_tests", shapes.Columns, codecontests.convert_columns),
    _format("sandbox-sample", "content labels test", shapes.Sample, codecontests.convert_sample),
    _format("codeforces", "contest_id description official_tests", shapes.Codeforces, codeforces.convert),
    _format("livebench", f"turns {_CASES}", shapes.LiveBench, livecodebench.convert_livebench),
    _format("livecodebench", f"question_content {_CASES}", shapes.LiveCodeBench, livecodebench.convert),
)
"""In the order in which they are tried: the first whose fields a record has."""


def recognise(record: Record) -> Format | None:
    """The format of a record; None for one of no known format. Two of our own format's three fields tell it, so that a
    misspelt third is named as a mistake."""
    if len(OWN.fields & record.keys()) >= 2:
        return OWN
    return next((one for one in FORMATS if one.fields <= record.keys()), None)


def unknown(record: Record) -> str:
    """What is said of a record of no known format: the field that it lacks, where it lacks only one."""
    lacking = [(one.missing(record), one.name) for one in FORMATS]
    nearly = [f"{fields[0]!r} ({name})" for fields, name in lacking if len(fields) == 1]
    if nearly:
        return f"a field is missing: {' or '.join(dict.fromkeys(nearly))}"
    known = ", ".join(one.name for one in FORMATS)
    return f"a record with the fields {', '.join(sorted(record)) or 'none'} is of no known format ({known})"


def convert(found: Format, record: Record, origin: Origin) -> Converted:
    """The problem of a record.

    Raises:
        Refused: with the reason, whatever is wrong with the record.
    """
    shapes.check(found.shape, record)
    try:
        return found.convert(record, origin)
    except Refused:
        raise
    except ValidationError as error:
        raise Refused(first_mistake(error)) from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, SyntaxError, RecursionError) as error:
        raise Refused(f"a field is missing or malformed ({type(error).__name__}: {error})") from error
