"""Plain data and the frames that carry it."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import plain
from sandbox.wire import FrameReader, WireError, pack

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.integers() | st.text() | st.booleans() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.frozensets(st.integers(), max_size=4)
        | st.sets(st.text(), max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_plain_values_come_back_with_their_types(value: object) -> None:
    back = plain.loads(plain.dumps(value))
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(10**5000, id="long"),
        -(2**63),
        math.inf,
        Decimal("1.10"),
        Fraction(1, 3),
        deque([1]),
        range(1, 9, 2),
        bytearray(b"x"),
        {"!": 1},
    ],
)
def test_rare_values_come_back(value: object) -> None:
    back = plain.loads(plain.dumps(value))
    assert (type(back), back) == (type(value), value)


def test_nan_comes_back_as_nan() -> None:
    assert math.isnan(plain.loads(plain.dumps(math.nan)))  # type: ignore[arg-type]


class Liar(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "8"


class LyingList(list[int]):
    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter([9, 9])

    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize(
    ("value", "base"),
    [
        (Liar(5), 5),
        (LyingList([1, 2]), [1, 2]),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (namedtuple("P", "x y")(1, 2), (1, 2)),
        (True, True),
    ],
)
def test_subclasses_arrive_as_their_base(value: object, base: object) -> None:
    back = plain.loads(plain.dumps(value))
    assert type(back) is type(base)
    assert back == base


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("value", [AlwaysEqual(), [1, AlwaysEqual()], {"a": AlwaysEqual()}, print, object])
def test_objects_are_refused(value: object) -> None:
    with pytest.raises(plain.NotPlain):
        plain.dumps(value)


def test_cycles_and_depth_are_refused() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (cycle, deep):
        with pytest.raises(plain.NotPlain):
            plain.dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[" * 200_000,
        '{"!": "set", "v": [[1]]}',
        '{"!": "int", "v": "zz"}',
        '{"!": "int"}',
        '{"!": "dict", "v": [[1]]}',
        '{"!": "range", "v": ["a"]}',
        '{"!": "Decimal", "v": "x"}',
        '{"!": "bytes", "v": 5}',
        '{"!": ["tuple"], "v": 5}',
        '{"!": "handle", "v": [1, "x"]}',
        "9" * 5000,
    ],
)
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(plain.NotPlain):
        plain.loads(text)


@given(st.lists(st.binary(max_size=50), max_size=4), st.integers(1, 40))
def test_frames_survive_any_cutting(blobs: list[bytes], size: int) -> None:
    data = pack({"id": 1}, blobs) + pack({"id": 2})
    reader = FrameReader()
    frames = []
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        while (frame := reader.next()) is not None:
            frames.append(frame)
    assert [frame.header["id"] for frame in frames] == [1, 2]
    assert list(frames[0].blobs) == blobs


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b"{}\n", b'{"blobs": 3}\n', b'{"blobs": [-1]}\n', b"[]\n", b"\xff\n", b'{"blobs": ["x"]}\n']
)
def test_malformed_frames_are_refused(line: bytes) -> None:
    reader = FrameReader()
    reader.feed(line)
    with pytest.raises(WireError):
        reader.next()


def test_a_header_is_one_ascii_line() -> None:
    line = pack({"text": "a\nb\u2028ü"}, [b"\n\n"]).split(b"\n")[0]
    assert json.loads(line)["text"] == "a\nb\u2028ü"
    assert line.isascii()
