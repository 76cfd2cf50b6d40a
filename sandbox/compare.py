"""Is an answer the expected one? On the host, where no program can reach.

Text is compared token by token, case-sensitive. A number that the reference writes with a point or an exponent is
compared with a tolerance of 1e-6, absolute or relative; every other token must be the same. nan equals only nan.
"""

from __future__ import annotations

import math
import re
from typing import cast

from sandbox.types import Comparison, JsonValue

DEFAULT_TOLERANCE = 1e-6
_REAL = re.compile(rb"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = {b"nan", b"inf", b"+inf", b"-inf", b"infinity", b"-infinity"}
_LONGEST_NUMBER = 400
"""Longer digit strings compare as text: turning them into floats would be slow, and wrong."""


def same_text(expected: str, actual: str, how: Comparison) -> bool:
    """Whether the output ``actual`` answers as ``expected`` does."""
    if how.exact_whitespace:
        return _same_spaced(expected, actual, how)
    if expected == actual:
        return True
    # Bytes: only ASCII white space separates tokens, and only ASCII digits make numbers.
    wanted, given = _bytes(expected).split(), _bytes(actual).split()
    return len(wanted) == len(given) and all(
        one == other or _same_number(one, other, how.tolerance) for one, other in zip(wanted, given, strict=True)
    )


def _same_spaced(expected: str, actual: str, how: Comparison) -> bool:
    """Every character counts, except a final line end; numbers have a tolerance only if the problem gives one."""
    one, other = _strip_line_end(_bytes(expected)), _strip_line_end(_bytes(actual))
    if how.tolerance is None:
        return one == other
    wanted, given = re.split(rb"(\s+)", one), re.split(rb"(\s+)", other)
    return len(wanted) == len(given) and all(
        one == other or _same_number(one, other, how.tolerance) for one, other in zip(wanted, given, strict=True)
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _strip_line_end(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").removesuffix(b"\n")


def _same_number(expected: bytes, actual: bytes, tolerance: float | None) -> bool:
    if len(expected) > _LONGEST_NUMBER or len(actual) > _LONGEST_NUMBER:
        return False
    if expected.lower() in _WORDS and actual.lower() in _WORDS:
        return _close(float(expected), float(actual), tolerance or DEFAULT_TOLERANCE)
    if not _NUMBER.fullmatch(actual):
        return False
    if tolerance is None and not _REAL.fullmatch(expected):
        return False
    if tolerance is not None and not _NUMBER.fullmatch(expected):
        return False
    one, other = float(expected), float(actual)
    if math.isinf(one) or math.isinf(other):  # written with digits, but beyond the range of floats
        return False
    return _close(one, other, DEFAULT_TOLERANCE if tolerance is None else tolerance)


def _close(expected: float, actual: float, tolerance: float) -> bool:
    if math.isnan(expected) or math.isnan(actual):
        return math.isnan(expected) and math.isnan(actual)
    if math.isinf(expected) or math.isinf(actual):
        return expected == actual
    return abs(expected - actual) <= tolerance * max(1.0, abs(expected))


def same_value(expected: JsonValue, actual: object, how: Comparison) -> bool:
    """Whether the return value ``actual``, plain data from the sandbox, is the expected JSON value.

    Types count: a bool is no number, an integer no real (unless the problem has a tolerance), None only None. Tuples
    count as lists. A real in the reference takes any number within the tolerance. Keys of a dictionary compare as JSON
    writes them.
    """
    if expected is None or isinstance(expected, (bool, str)):
        return type(actual) is type(expected) and actual == expected
    if isinstance(expected, int):
        if type(actual) is int:
            return actual == expected or (how.tolerance is not None and _near(expected, actual, how.tolerance))
        return how.tolerance is not None and type(actual) is float and _near(expected, actual, how.tolerance)
    if isinstance(expected, float):
        if type(actual) is not int and type(actual) is not float:
            return False
        return _near(expected, actual, DEFAULT_TOLERANCE if how.tolerance is None else how.tolerance)
    if isinstance(expected, list):
        if type(actual) is not list and type(actual) is not tuple:
            return False
        values = cast("list[object]", actual)
        return len(values) == len(expected) and all(
            same_value(one, other, how) for one, other in zip(expected, values, strict=True)
        )
    if type(actual) is not dict:
        return False
    items = cast("dict[object, object]", actual)
    given = {_json_key(key): value for key, value in items.items()}
    return (
        len(given) == len(items)
        and given.keys() == expected.keys()
        and all(same_value(expected[key], given[key], how) for key in expected)
    )


def _near(expected: float, actual: float, tolerance: float) -> bool:
    try:
        return _close(float(expected), float(actual), tolerance)
    except OverflowError:  # an integer beyond the range of floats
        return expected == actual


def _json_key(key: object) -> object:
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key) if isinstance(key, (int, float)) else key
