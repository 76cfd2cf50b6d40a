"""A key-value cache whose rows are slots of one preallocated buffer.

Transformers' dynamic cache concatenates every layer anew for every token. Here a token is written in place, the model
sees a view, and a row is duplicated or moved without touching the others, which lets the sampler branch (one row
becomes two when two samples of the same prefix part) and drop finished rows at the cost of the rows concerned.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer


class SlotLayer(DynamicLayer):
    """Keys and values of one decoder layer: buffers of shape [slots, heads, length, head size]."""

    def __init__(self, slots: int, length: int) -> None:
        super().__init__()
        self.slots = slots
        self.length = length
        self.filled = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.device = key_states.device
        self.key_buffer = key_states.new_empty((self.slots, key_states.shape[1], self.length, key_states.shape[3]))
        self.value_buffer = value_states.new_empty(
            (self.slots, value_states.shape[1], self.length, value_states.shape[3])
        )
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new positions of rows 0..n-1 and return views [n, heads, filled, head size] of all positions."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        rows, start, end = key_states.shape[0], self.filled, self.filled + key_states.shape[2]
        self.key_buffer[:rows, :, start:end] = key_states
        self.value_buffer[:rows, :, start:end] = value_states
        self.filled = end
        self.keys, self.values = self.key_buffer[:rows, :, :end], self.value_buffer[:rows, :, :end]
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.filled

    def copy_rows(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy the filled part of rows ``source`` [k] over rows ``target`` [k]; the two sets are disjoint."""
        for buffer in (self.key_buffer, self.value_buffer):
            filled = buffer[:, :, : self.filled]
            filled[target] = filled[source]


class SlotCache(Cache):
    """One :class:`SlotLayer` per decoder layer of a model with full attention."""

    def __init__(self, layers: int, slots: int, length: int) -> None:
        self.slot_layers = [SlotLayer(slots, length) for _ in range(layers)]
        super().__init__(layers=[*self.slot_layers])

    def copy_rows(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Copy rows ``source`` [k] over rows ``target`` [k] in every layer."""
        for layer in self.slot_layers:
            layer.copy_rows(source, target)
