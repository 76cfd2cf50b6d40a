"""Choosing and opening a backend."""

from __future__ import annotations

import logging
from typing import Literal, get_args

from sandbox.backend import Backend
from sandbox.errors import SandboxUnavailable
from sandbox.pool import Cost, Pool
from sandbox.types import Sandbox

BackendName = Literal["auto", "docker", "bubblewrap", "unsafe"]
_STRONGEST_FIRST = ("docker", "bubblewrap")
_log = logging.getLogger(__name__)


def open_sandbox(backend: str = "auto", workers: int = 2, cost: Cost = "cpu_time", image: str | None = None) -> Sandbox:
    """Open a sandbox.

    Args:
        backend: ``docker``, ``bubblewrap``, ``unsafe`` (no isolation; warns), or ``auto``: the strongest of the first
            two that works here, which ``sandbox.backend`` then names. Never weaker than asked for.
        workers: how many sandboxes run at a time; one for each core that programs may use.
        cost: ``steps`` also counts executed bytecode events, the same on every run, at some cost of speed.
        image: an image of the Docker engine with ``python3`` (3.11 or later) in it; None makes one from the Python
            that runs now.

    Raises:
        SandboxUnavailable: naming the remedy, when what was asked for cannot be had.
        ValueError: for an unknown backend or cost, fewer than one worker, or an image without the docker backend.
    """
    if backend not in get_args(BackendName):
        raise ValueError(f"unknown sandbox backend {backend!r}: choose one of {', '.join(get_args(BackendName))}")
    if cost not in get_args(Cost):
        raise ValueError(f"unknown cost {cost!r}: choose one of {', '.join(get_args(Cost))}")
    if image is not None and backend not in ("auto", "docker"):
        raise ValueError("an image is for the docker backend only")
    if backend != "auto":
        return Pool(_backend(backend, image), workers, cost)
    reasons: list[str] = []
    for name in _STRONGEST_FIRST if image is None else ("docker",):
        try:
            pool = Pool(_backend(name, image), workers, cost)
        except SandboxUnavailable as error:
            reasons.append(f"{name}: {error}")
            continue
        _log.info("sandbox backend: %s", name)
        return pool
    raise SandboxUnavailable("no sandbox works here. " + "; ".join(reasons))


def _backend(name: str, image: str | None) -> Backend:
    # Imported here: the docker package alone takes a quarter of a second.
    if name == "docker":
        from sandbox.docker_engine import DockerBackend

        return DockerBackend(image)
    if name == "bubblewrap":
        from sandbox.bubblewrap import BubblewrapBackend

        return BubblewrapBackend()
    from sandbox.unsafe import UnsafeBackend

    return UnsafeBackend()
