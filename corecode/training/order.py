"""The order of a pass over the data, so that what comes next is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Order:
    """A sampler whose current pass is known as a whole."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self._rows: list[int] = []

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        self._rows = list(self._sampler)
        return iter(self._rows)

    def batch(self, number: int, size: int) -> list[int]:
        """The rows of a batch, counted over all passes; none for a pass' first, whose order may not be drawn yet."""
        place = number % (len(self._rows) // size)
        return self._rows[place * size : (place + 1) * size] if place else []
