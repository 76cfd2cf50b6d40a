"""What the fields of each format have to hold. A record is checked against its shape before it is read, so that a
mistake is named with its field, and text is never taken for a list of characters.

Fields that no reader looks at are not described. ``None`` stands for a field that a set leaves empty.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from corecode.datasets.converted import Refused
from corecode.lines import first_mistake, kind_of


def _encodable(value: str) -> str:
    """JSON can escape half of a surrogate pair; no file can hold it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no character") from None
    return value


def _said(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    return value


def _whole_or_text(value: object) -> object:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | str)):
        raise ValueError(f"has to hold a number or text, found {kind_of(value)}")
    return _encodable(value) if isinstance(value, str) else value


def _given(value: object) -> object:
    if value is None or value == "":
        raise ValueError("is empty")
    return value


def _json_or(kind: type) -> BeforeValidator:
    def check(value: object) -> object:
        if value is not None and not isinstance(value, str | kind):
            raise ValueError(f"has to hold JSON, as {kind_of(kind())} or as text, found {kind_of(value)}")
        return _encodable(value) if isinstance(value, str) else value

    return BeforeValidator(check)


Text = Annotated[str, AfterValidator(_encodable)]
Said = Annotated[Text, AfterValidator(_said)]
"""Text that is not empty."""
Name = Annotated[object, BeforeValidator(_whole_or_text)]
Named = Annotated[Name, AfterValidator(_given)]
JsonList = Annotated[object, _json_or(list)]
JsonObject = Annotated[object, _json_or(dict)]
Limit = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""0 states no limit."""
Texts = list[Text]


class Own(TypedDict, total=False):
    id: Said
    statement: Said


class Mbpp(TypedDict, total=False):
    task_id: Annotated[int, Field(ge=1)]
    text: Said | None
    prompt: Said | None
    code: Text | None
    test_list: Texts
    challenge_test_list: Texts | None
    test_setup_code: Text | None
    test_imports: Texts | None


class HumanEval(TypedDict, total=False):
    task_id: Said
    prompt: Said
    entry_point: Said
    canonical_solution: Text
    test: Said


class EvalPlus(TypedDict, total=False):
    task_id: Said
    prompt: Said
    entry_point: Said
    canonical_solution: Text
    base_input: list[list[Any]]
    plus_input: list[list[Any]] | None
    atol: Limit | None
    assertion: Text | None


class Lists(TypedDict, total=False):
    task_id: Name
    question: Said
    test_method: Text | None
    test_input: Texts | None
    test_output: Texts | None
    example_input: Texts | None
    example_output: Texts | None
    test_list: Texts | None
    test_time_limit: Limit | None


class Streams(TypedDict):
    input: Texts
    output: Texts


class Solutions(TypedDict):
    language: list[int]
    solution: Texts


class Duration(TypedDict, total=False):
    seconds: Limit | None
    nanos: Limit | None


class Columns(TypedDict, total=False):
    name: Said
    description: Said
    public_tests: Streams | None
    private_tests: Streams | None
    generated_tests: Streams | None
    solutions: Solutions | None
    source: Annotated[int, Field(ge=0)] | None
    time_limit: Duration | None
    memory_limit_bytes: Limit | None
    input_file: Text | None
    output_file: Text | None


class Sample(TypedDict, total=False):
    content: Said
    labels: JsonObject
    test: JsonList


class Stream(TypedDict):
    input: Text
    output: Text


class Codeforces(TypedDict, total=False):
    id: Said
    title: Text | None
    description: Said
    input_format: Text | None
    output_format: Text | None
    note: Text | None
    interaction_format: Text | None
    input_mode: Text | None
    official_tests: list[Stream] | None
    examples: list[Stream] | None
    generated_checker: Text | None
    time_limit: Limit | None
    memory_limit: Limit | None


class LiveCodeBench(TypedDict, total=False):
    question_id: Named
    question_content: Said
    starter_code: Text | None
    metadata: JsonObject
    public_test_cases: JsonList
    private_test_cases: JsonList


class LiveBench(TypedDict, total=False):
    question_id: Named
    task: Text | None
    turns: Annotated[list[Said], Field(min_length=1)]
    original_json: JsonObject
    partial_solution: Text | None
    public_test_cases: JsonList
    private_test_cases: JsonList


class Stdin(TypedDict):
    stdin: Text


class Stdout(TypedDict):
    stdout: Text


class SampleCase(TypedDict):
    input: Stdin
    output: Stdout


class Labels(TypedDict, total=False):
    name: Name
    source: Text


class Case(Stream, total=False):
    """One test of LiveCodeBench, when it is decoded."""

    testtype: Text


CASES = TypeAdapter(list[Case])
SAMPLE_CASES = TypeAdapter(list[SampleCase])
LABELS = TypeAdapter(Labels)


def check(shape: TypeAdapter[Any], value: object, within: str = "") -> None:
    """Check a value against a shape.

    Raises:
        Refused: naming the field of the first mistake, inside the field ``within`` where that is given.
    """
    try:
        shape.validate_python(value)
    except ValidationError as error:
        raise Refused(first_mistake(error, within)) from error


def check_characters(record: dict[str, Any]) -> None:
    """Check every text of a record, however deep.

    Raises:
        Refused: naming the place of the first text that no file can hold.
    """
    waiting: list[tuple[str, object]] = [("", record)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, str):
            try:
                _encodable(value)
            except ValueError as error:
                raise Refused(f"{where}: {error}") from error
        elif isinstance(value, dict | list):
            items = cast("dict[str, object]", value).items() if isinstance(value, dict) else enumerate(value)
            waiting += [(f"{where}.{key}".lstrip("."), one) for key, one in items]
