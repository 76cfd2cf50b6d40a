"""The host's end of the connection to a runner."""

from __future__ import annotations

import contextlib
import select
import socket
import time

from sandbox.wire import Frame, FrameReader, WireError

_CHUNK = 1 << 18
_STDERR_KEPT = 2000


class WorkerLost(Exception):
    """The runner is gone, does not answer in time, or does not speak the protocol."""


class Channel:
    """Sends and receives at the same time, so that two full buffers cannot wait for each other.

    ``multiplexed``: bytes arrive in the container engine's framing of standard output and standard error.
    """

    def __init__(self, connection: socket.socket, multiplexed: bool = False) -> None:
        connection.setblocking(False)
        self._connection = connection
        self._multiplexed = multiplexed
        self._reader = FrameReader()
        self._outgoing = bytearray()
        self._raw = bytearray()
        self.stderr = b""
        """The end of what the interpreter itself complained about."""

    def put(self, data: bytes) -> None:
        """Queue bytes; what does not go out at once goes out while :meth:`get` waits."""
        self._outgoing += data
        self._send()

    def get(self, deadline: float) -> Frame:
        """The next frame.

        Args:
            deadline: on the clock of ``time.monotonic``.

        Raises:
            WorkerLost: when none comes by then, or none can come any more.
        """
        poll = select.poll()
        while True:
            try:
                frame = self._reader.next()
            except WireError as error:
                raise WorkerLost(f"the runner sent nonsense: {error}") from error
            if frame is not None:
                return frame
            left = deadline - time.monotonic()
            if left <= 0:
                raise WorkerLost("the runner did not answer in time")
            poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
            for _, event in poll.poll(left * 1000):
                if event & select.POLLOUT:
                    self._send()
                if event & ~select.POLLOUT:
                    self._receive()

    def _send(self) -> None:
        while self._outgoing:
            try:
                with memoryview(self._outgoing) as view:
                    sent = self._connection.send(view[:_CHUNK])
            except BlockingIOError:
                return
            except OSError as error:
                raise WorkerLost(f"the connection to the runner broke ({error.strerror})") from error
            del self._outgoing[:sent]

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            raise WorkerLost(f"the connection to the runner broke ({error.strerror})") from error
        if not data:
            complaint = self.stderr.decode("utf-8", "replace").strip()
            raise WorkerLost("the runner ended" + (f": {complaint}" if complaint else ""))
        if self._multiplexed:
            self._raw += data
            self._split()
        else:
            self._reader.feed(data)

    def _split(self) -> None:
        """Take whole pieces off the engine's framing: one byte of stream, three of padding, four of length."""
        start = 0
        while len(self._raw) >= start + 8:
            size = int.from_bytes(self._raw[start + 4 : start + 8], "big")
            if len(self._raw) < start + 8 + size:
                break
            piece = bytes(self._raw[start + 8 : start + 8 + size])
            if self._raw[start] == 2:
                self.stderr = (self.stderr + piece)[-_STDERR_KEPT:]
            else:
                self._reader.feed(piece)
            start += 8 + size
        del self._raw[:start]

    def interrupt(self) -> None:
        """Break the connection: whoever waits for it finds it ended."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.interrupt()
        self._connection.close()
