"""What a generator is: chats in, completions out, in the order of the inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from corecode.config import SamplingConfig

Chat = Sequence[dict[str, str]]
"""Messages of one conversation, each with ``role`` and ``content``."""


@dataclass(frozen=True)
class Completion:
    """One sampled answer."""

    text: str
    """Decoded tokens without special ones."""
    token_ids: tuple[int, ...]
    """Sampled tokens, the end token included when there is one; empty where a server does not tell."""
    tokens: int
    """How many tokens were sampled."""
    truncated: bool
    """True when ``max_tokens`` was reached before an end token."""


Listener = Callable[[int, Completion], None]
"""Hears an answer as soon as it is known: the chat's number, and one of its completions."""


class Generator(Protocol):
    """Samples completions of chats.

    Raises:
        InfrastructureError: when the backend does not answer; an outage is never turned into text.
    """

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        """Sample ``n`` completions of each chat; results in input order. The same seed gives the same answer.

        Args:
            listener: called with completions before all are there, in any order and from any thread, so that work on
                the first need not wait for the last. Any may be left out.
        """
        ...


def derive_seed(*parts: object) -> int:
    """A 63-bit seed from any printable parts, the same on every machine: ``derive_seed(seed, "planner", step)``."""
    digest = hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
