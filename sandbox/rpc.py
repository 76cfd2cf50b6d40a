"""Messages between the examiner and the process that holds the untrusted program. Inside the sandbox only.

A message is four bytes of length and one plain value (:mod:`sandbox.plain`) with two tags of its own: ``handle``, an
object that stays in the program's process, and ``object``, an instance of a class that both sides know.
"""

from __future__ import annotations

import os
import struct
from typing import Any, cast

from sandbox import plain

MAX_MESSAGE = 32 << 20
"""Longest message in bytes."""


class Closed(BaseException):
    """The other process is gone. A BaseException, so that no test code catches it by mistake."""


def send(fd: int, message: dict[str, Any], opaque: plain.Opaque) -> None:
    """Send one message.

    Raises:
        NotPlain: when a value in it cannot be shipped. Closed: when nobody listens.
    """
    text = plain.dumps(message, opaque).encode()
    if len(text) > MAX_MESSAGE:
        raise plain.NotPlain("the value is too large")
    left = memoryview(struct.pack("!I", len(text)) + text)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except (BrokenPipeError, ConnectionError) as error:
        raise Closed from error


def receive(fd: int, other: Any) -> dict[str, Any]:
    """Wait for one message; ``other`` as in :func:`sandbox.plain.loads`.

    Raises:
        NotPlain: for a malformed message. Closed: when the other process is gone.
    """
    (size,) = struct.unpack("!I", _exactly(fd, 4))
    if size > MAX_MESSAGE:
        raise plain.NotPlain("the message is too large")
    message = plain.loads(_exactly(fd, size), other)
    if not isinstance(message, dict):
        raise plain.NotPlain("the message is no object")
    return cast("dict[str, Any]", message)


def _exactly(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            part = os.read(fd, min(size - len(data), 1 << 20))
        except ConnectionError as error:
            raise Closed from error
        if not part:
            raise Closed
        data += part
    return bytes(data)
