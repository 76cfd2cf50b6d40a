"""Python values as plain data, and back. Used inside the sandbox and on the host.

JSON holds what it can; every other plain value is an object ``{"!": kind, "v": ...}``. A subclass of a plain type is
written as that type, so a class of the program never travels: what arrives is data whose methods are Python's own.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

MAX_DEPTH = 200
MAX_NODES = 4_000_000
_SAFE_INT = 1 << 62

Opaque = Callable[[object], tuple[str, object]]
"""Called for a value that is not plain; gives a tag and a plain value for it, or raises :class:`NotPlain`."""


class NotPlain(Exception):
    """The value is not plain data, or too deep or too large to be shipped."""


def refuse(value: object) -> tuple[str, object]:
    """The default for values that are not plain."""
    raise NotPlain(f"an object of type {type(value).__name__} is not plain data")


class _Encoder:
    def __init__(self, opaque: Opaque) -> None:
        self.opaque = opaque
        self.nodes = 0

    def encode(self, value: object, depth: int = 0) -> object:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise NotPlain("the value is too deep or too large")
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if isinstance(value, int):
            number = int.__index__(value)
            return number if -_SAFE_INT < number < _SAFE_INT else {"!": "int", "v": hex(number)}
        if isinstance(value, float):
            real = float.__float__(value)
            return real if math.isfinite(real) else {"!": "float", "v": repr(real)}
        if isinstance(value, str):
            return str.__str__(value)
        deeper = depth + 1
        if isinstance(value, list):
            return [self.encode(item, deeper) for item in list.__iter__(cast("list[object]", value))]
        if isinstance(value, dict):
            return self._encode_dict(cast("dict[object, object]", value), deeper)
        for base, tag in ((tuple, "tuple"), (set, "set"), (frozenset, "frozenset"), (deque, "deque")):
            if isinstance(value, base):
                items = base.__iter__(cast("Any", value))
                return {"!": tag, "v": [self.encode(item, deeper) for item in items]}
        return self._encode_rare(value, deeper)

    def _encode_dict(self, value: dict[object, object], depth: int) -> object:
        items = list(dict.items(value))
        if all(type(key) is str for key, _ in items) and not dict.__contains__(value, "!"):
            return {cast("str", key): self.encode(item, depth) for key, item in items}
        return {"!": "dict", "v": [[self.encode(key, depth), self.encode(item, depth)] for key, item in items]}

    def _encode_rare(self, value: object, depth: int) -> object:
        kind = type(value)
        if kind is bytes or kind is bytearray:
            return {"!": kind.__name__, "v": bytes(cast("bytes", value)).hex()}
        if kind is complex:
            number = cast("complex", value)
            return {"!": "complex", "v": [repr(number.real), repr(number.imag)]}
        if kind is Decimal:
            return {"!": "Decimal", "v": str(value)}
        if kind is Fraction:
            ratio = cast("Fraction", value)
            return {"!": "Fraction", "v": [hex(ratio.numerator), hex(ratio.denominator)]}
        if kind is range:
            span = cast("range", value)
            return {"!": "range", "v": [span.start, span.stop, span.step]}
        tag, content = self.opaque(value)
        return {"!": tag, "v": self.encode(content, depth)}


def dumps(value: object, opaque: Opaque = refuse) -> str:
    """``value`` as ASCII JSON text.

    Raises:
        NotPlain: when it, or something in it, is not plain data.
    """
    try:
        return json.dumps(_Encoder(opaque).encode(value), separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise NotPlain("the value is too deep") from error


def _complex(parts: list[str]) -> complex:
    return complex(float(parts[0]), float(parts[1]))


def _fraction(parts: list[str]) -> Fraction:
    """From two integers: the text form may hold an exponent, and ``Fraction("1e9999999999")`` never ends."""
    return Fraction(int(parts[0], 16), int(parts[1], 16))


_MAKERS: dict[str, Callable[[Any], object]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "deque": deque,
    "dict": lambda pairs: {key: item for key, item in pairs},  # noqa: C416 - a hostile pair must raise here
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "complex": _complex,
    "Decimal": Decimal,
    "Fraction": _fraction,
    "range": lambda parts: range(*parts),
}


def loads(text: str | bytes, other: Callable[[str, Any], object] | None = None) -> object:
    """The value that ``text`` stands for; ``other(tag, content)`` makes the values that are not plain.

    Raises:
        NotPlain: for text that :func:`dumps` would not write. The text may come from a hostile program.
    """

    def revive(data: dict[str, Any]) -> object:
        tag = data.get("!")
        if tag is None:
            return data
        if tag in _MAKERS:
            return _MAKERS[tag](data["v"])
        if other is not None:
            return other(tag, data["v"])
        raise NotPlain(f"unknown tag {tag!r}")

    try:
        return json.loads(text, object_hook=revive)
    except NotPlain:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError, MemoryError, AttributeError) as error:
        raise NotPlain(f"malformed value: {type(error).__name__}") from error
