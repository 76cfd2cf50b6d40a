"""What a backend provides to the pool."""

from __future__ import annotations

from typing import Protocol

from sandbox.wire import Frame

START_S = 30.0
"""How long a new runner may take to say hello."""
HEADROOM_MB = 320
"""Memory of a whole sandbox above its program's limit: runner, buffers, writable folders, a second process."""
TMP_MB = 64
SHM_MB = 16
CORES = 1.5
"""CPU cores that one sandbox may use: a program's own, and the runner beside it."""


class Worker(Protocol):
    """One running sandbox."""

    base_kb: int
    """Peak resident KiB of an empty program in it."""

    def put(self, data: bytes) -> None:
        """Send bytes to its runner."""
        ...

    def get(self, deadline: float) -> Frame:
        """Its next frame. Raises WorkerLost."""
        ...

    def fit(self, memory_mb: int, processes: int) -> None:
        """Set its outer bounds to hold a program with these limits, and not much more."""
        ...

    def oom_kills(self) -> int:
        """How many processes the kernel has killed in it for want of memory; 0 where that cannot be known."""
        ...

    def interrupt(self) -> None:
        """Make a :meth:`get` in another thread end."""
        ...

    def close(self) -> None:
        """End it and everything in it. May be called twice."""
        ...


class Backend(Protocol):
    """Starts sandboxes of one kind."""

    name: str
    capabilities: dict[str, object]

    def start(self) -> Worker:
        """A new sandbox, ready for requests.

        Raises:
            SandboxUnavailable: with the remedy.
            WorkerLost: when it died at once.
        """
        ...

    def close(self) -> None: ...
