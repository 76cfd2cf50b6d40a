"""Errors by the boundary they cross.

- *Data* is never an exception: a bad program, a truncated completion or a thought that does not parse is a value.
- :class:`UserError`: a user's mistake (profile, file, argument). One clear sentence, exit code 2.
- :class:`InfrastructureError`: something outside the method failed (a sandbox, a server, a disk). It is never turned
  into a score; a stage stops with it, exit code 1.
"""

from __future__ import annotations


class UserError(Exception):
    """A user's mistake; the message is one sentence that names the file or field and the remedy."""


class InfrastructureError(Exception):
    """A failure outside the method; the message names what failed and the remedy."""
