"""Removing what owners that were killed have left behind; opening a backend does the same for its own kind."""

from __future__ import annotations

from sandbox import cgroup
from sandbox.errors import SandboxUnavailable


def sweep() -> None:
    """Remove the control groups, and where a Docker engine answers the containers, of owners that are dead.

    Raises:
        SandboxUnavailable: an engine answers but does not list its containers.
    """
    cgroup.sweep()
    # Imported here: the docker package alone takes a quarter of a second.
    from sandbox import docker_engine, image

    try:
        client = image.connect(timeout_s=5)
    except SandboxUnavailable:
        return  # no engine, so no containers of ours
    try:
        docker_engine.sweep(client)
    finally:
        client.close()
