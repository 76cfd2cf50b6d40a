"""Muon for hidden matrices beside AdamW for the rest, and the learning-rate schedules of both trainers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

SFT_FLOOR = 0.05
"""Share of the peak learning rate at the end of the warm-up's cosine."""
GRPO_FLOOR = 0.1
"""Share of the peak learning rate at the end of GRPO's linear decay."""


class MuonAdamW(torch.optim.Optimizer):
    """Steps :class:`torch.optim.Muon` and :class:`torch.optim.AdamW` as one optimizer.

    Muon orthogonalises the update of a matrix, with the root mean square of an AdamW update (``match_rms_adamw``), so
    one learning rate fits both. Embeddings and vectors go to AdamW. The two share their parameter groups with this
    object, so a scheduler or a checkpoint sees one optimizer.
    """

    def __init__(self, model: torch.nn.Module, lr: float, betas: tuple[float, float], weight_decay: float) -> None:
        matrices, others = split_parameters(model)
        self.muon = torch.optim.Muon(
            matrices, lr=lr, weight_decay=weight_decay, momentum=0.9, adjust_lr_fn="match_rms_adamw"
        )
        self.adamw = torch.optim.AdamW(others, lr=lr, betas=betas, weight_decay=weight_decay)
        super().__init__([{"params": matrices}, {"params": others}], {"lr": lr, "weight_decay": weight_decay})
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.muon.step()
        self.adamw.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"muon": self.muon.state_dict(), "adamw": self.adamw.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.muon.load_state_dict(state_dict["muon"])
        self.adamw.load_state_dict(state_dict["adamw"])
        # Loading replaces the groups of each optimizer; show the new ones.
        self.param_groups = [*self.muon.param_groups, *self.adamw.param_groups]


def split_parameters(model: torch.nn.Module) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """The trainable hidden matrices, and all other trainable parameters (embeddings, head, norms, biases)."""
    outer = {id(parameter) for module in _outer_layers(model) for parameter in module.parameters()}
    matrices: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            (matrices if parameter.ndim == 2 and id(parameter) not in outer else others).append(parameter)
    return matrices, others


def _outer_layers(model: Any) -> list[torch.nn.Module]:
    return [model.get_input_embeddings(), model.get_output_embeddings()]


def cosine(step: int, total: int, warmup: int) -> float:
    """Share of the peak at ``step`` (0-based): linear warm-up times a cosine from 1 to :data:`SFT_FLOOR`."""
    wave = 0.5 * (1.0 + math.cos(math.pi * min(step / max(total, 1), 1.0)))
    return _warm(step, warmup) * (SFT_FLOOR + (1.0 - SFT_FLOOR) * wave)


def linear(step: int, total: int, warmup: int) -> float:
    """Share of the peak at ``step`` (0-based): linear warm-up times a line from 1 to :data:`GRPO_FLOOR`."""
    return _warm(step, warmup) * (GRPO_FLOOR + (1.0 - GRPO_FLOOR) * (1.0 - min(step / max(total, 1), 1.0)))


def _warm(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / warmup) if warmup else 1.0
