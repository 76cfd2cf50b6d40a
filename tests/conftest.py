"""Fixtures that several rooms share: sandboxes of both backends and the third-party data beside the repository."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox import Sandbox, SandboxUnavailable, open_sandbox

BACKENDS = ("bubblewrap", "docker")
IN_CI = os.environ.get("CI") == "true"

# A shell starts background commands with SIGINT ignored, nohup does so with SIGHUP, and every process below would
# inherit that: no test of these signals could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def missing(reason: str) -> None:
    """End the test for want of a requirement: a failure in CI, a skip with its reason on a user's machine."""
    if IN_CI:
        pytest.fail(f"required in CI: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def missing_requirement() -> Callable[[str], None]:
    """:func:`missing`, for tests that need more than a backend."""
    return missing


@pytest.fixture(scope="session", params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend that works here."""
    try:
        open_sandbox(request.param, workers=1).close()
    except SandboxUnavailable as error:
        missing(f"no {request.param} sandbox: {error}")
    return request.param


@pytest.fixture(scope="module")
def sandbox(backend: str) -> Iterator[Sandbox]:
    """A sandbox of each backend with two workers, shared by a module's tests."""
    with open_sandbox(backend, workers=2) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Path of a file in the folder of third-party data beside the repository; skips where the folder is absent."""
    folder = Path(__file__).parents[2] / "shared"

    def path(name: str) -> Path:
        if not folder.is_dir():
            pytest.skip(f"no third-party data at {folder}")
        return folder / name

    return path
