"""Choosing and opening a backend."""

from __future__ import annotations

from typing import Literal

from sandbox.errors import SandboxUnavailable
from sandbox.pool import Cost, Pool
from sandbox.types import Sandbox

BackendName = Literal["auto", "docker", "bubblewrap", "unsafe"]


def open_sandbox(
    backend: BackendName = "auto", workers: int = 2, cost: Cost = "cpu_time", image: str | None = None
) -> Sandbox:
    """Open a sandbox."""
    from sandbox.bubblewrap import BubblewrapBackend

    return Pool(BubblewrapBackend(), workers, cost)


__all__ = ["BackendName", "SandboxUnavailable", "open_sandbox"]
