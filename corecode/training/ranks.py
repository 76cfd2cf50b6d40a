"""What is shared by several ranks of a job: whole weights, and sums."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from accelerate.utils import gather_object
from trl.models.utils import unwrap_model_for_generation

from corecode.training.validation import Tally


@contextmanager
def gathered(trainer: Any) -> Generator[Any]:
    """The trainer's model with whole weights on every rank. A collective: all ranks enter it."""
    with unwrap_model_for_generation(
        trainer.model_wrapped,
        trainer.accelerator,
        gather_deepspeed3_params=True,
        gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
    ) as model:
        yield model


def sum_over_ranks(tally: Tally) -> Tally:
    """Add the tallies of all ranks up. A collective."""
    total: Tally = {}
    for part in gather_object([tally]):
        for name, (value, count) in part.items():
            before = total.get(name, (0.0, 0))
            total[name] = (before[0] + value, before[1] + count)
    return total
