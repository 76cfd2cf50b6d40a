"""Frames between the host and the runner: one JSON line, then the byte blobs whose sizes the line lists.

Lengths are explicit, so no byte of a program's output can be taken for the end of a message. Used on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_LINE = 64 << 20
"""Longest header line in bytes; the other side is broken when it sends more."""


class WireError(Exception):
    """The other side does not speak this protocol."""


@dataclass(frozen=True)
class Frame:
    """A header and its blobs."""

    header: dict[str, Any]
    blobs: tuple[bytes, ...]


def pack(header: dict[str, Any], blobs: Iterable[bytes] = ()) -> bytes:
    """The bytes of one frame. ``header`` must not use the key ``blobs``."""
    parts = list(blobs)
    line = json.dumps({**header, "blobs": [len(part) for part in parts]}, separators=(",", ":"))
    return b"".join([line.encode(), b"\n", *parts])


class FrameReader:
    """Takes bytes as they come and gives whole frames."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._header: dict[str, Any] | None = None
        self._sizes: list[int] = []
        self._searched = 0

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> Frame | None:
        """The next whole frame, or None when more bytes are needed.

        Raises:
            WireError: for a malformed header.
        """
        if self._header is None and not self._read_header():
            return None
        if len(self._data) < sum(self._sizes):
            return None
        blobs: list[bytes] = []
        start = 0
        with memoryview(self._data) as view:
            for size in self._sizes:
                blobs.append(bytes(view[start : start + size]))
                start += size
        del self._data[:start]
        header, self._header = self._header, None
        return Frame(header or {}, tuple(blobs))

    def _read_header(self) -> bool:
        end = self._data.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._data)
            if self._searched > MAX_LINE:
                raise WireError("header line too long")
            return False
        try:
            header = json.loads(self._data[:end])
            sizes = [int(size) for size in header.pop("blobs")]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise WireError(f"malformed header: {error!r}") from error
        if any(size < 0 for size in sizes):
            raise WireError("negative blob size")
        del self._data[: end + 1]
        self._header, self._sizes, self._searched = header, sizes, 0
        return True
