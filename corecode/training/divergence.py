"""A training that has diverged ends at once: what is not a number never becomes one again, nor a model."""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import TrainerCallback

from corecode.errors import UserError

WATCHED = ("loss", "grad_norm")


def diverged(what: str) -> UserError:
    return UserError(f"the training has diverged: {what}; lower the learning_rate of its phase")


class Watch(TrainerCallback):
    """Ends a training whose logged loss or gradient is not finite. Comes before what writes or keeps anything: a log
    comes before the checkpoint of its step.

    Raises:
        UserError: since a repetition would diverge again.
    """

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for name in WATCHED:
            value = kwargs["logs"].get(name)
            if value is not None and not math.isfinite(float(value)):
                raise diverged(f"{name} is {float(value)} at step {state.global_step} of {state.max_steps}")


def check_weights(model: Any) -> None:
    """The last step's update is seen by no later loss.

    Raises:
        UserError: for a model with weights that are not finite.
    """
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise diverged(f"{name} holds values that are not finite after the last step")
