"""The one exception of this package that its users meet."""

from __future__ import annotations


class SandboxUnavailable(RuntimeError):
    """The sandbox that was asked for cannot be had here; the message names the remedy."""
