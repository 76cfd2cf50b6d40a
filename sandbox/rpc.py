"""Messages between the examiner and the process that holds the untrusted program. Inside the sandbox only.

A message is four bytes of length and one plain value (:mod:`sandbox.plain`) with tags of its own: ``handle``, an
object that stays in the program's process; ``object``, an instance of a class that both sides know; ``builtin``, a type
or function of Python; ``callback``, a function of the tests that stays with them.
"""

from __future__ import annotations

import builtins
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


def exception(names: object, text: str) -> BaseException:
    """The nearest built-in exception to one of the other side, whose classes have these names."""
    for name in cast("list[object]", names) if isinstance(names, list) else []:
        kind = getattr(builtins, name, None) if isinstance(name, str) else None
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(text)
            except TypeError:  # a Unicode error wants five arguments
                continue
    return RuntimeError(text)


def is_builtin(value: object) -> bool:
    """Whether both sides have this object: a built-in type or function."""
    name = getattr(value, "__name__", None)
    return isinstance(name, str) and callable(value) and getattr(builtins, name, None) is value
