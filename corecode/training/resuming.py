"""How a trainer of transformers or TRL writes checkpoints and continues from one, bit for bit on a CPU.

What it stores is what the trainers store themselves: weights (safetensors), optimizer, scheduler, generators of random
numbers and the trainer's state; with DeepSpeed its own sharded files. A checkpoint is taken right after a step was
logged, so no sum is pending. Data is not stored: its order follows from the seed, and the trainer skips what was seen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME

from corecode.training.checkpoints import Checkpoints
from corecode.training.records import Journal


class Resuming:
    """Mixed into a trainer class, in front of it."""

    checkpoints: Checkpoints
    journal: Journal

    def attach(self: Any, checkpoints: Checkpoints, journal: Journal, every: int) -> None:
        """Write a checkpoint after each ``every`` steps (0: never), but not after the last one."""
        self.checkpoints = checkpoints
        self.journal = journal
        self.add_callback(_Schedule(self, every))

    def fit(self: Any) -> None:
        """Train from the checkpoint to start from, or from the beginning.

        Raises:
            InfrastructureError: when a checkpoint cannot be written.
        """
        start = self.checkpoints.start
        self.train(resume_from_checkpoint=str(start.folder) if start else None)

    def own_state(self) -> dict[str, Any]:
        """What the trainer class adds to a rank's checkpoint, as JSON."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take :meth:`own_state` back."""

    def _save_checkpoint(self: Any, model: Any, trial: Any = None) -> None:
        step, main = self.state.global_step, self.accelerator.is_main_process
        partial = self.checkpoints.partial(step)
        with self.checkpoints.errors(step):
            if main:
                self.checkpoints.begin(step)
            self.accelerator.wait_for_everyone()
            if main:
                if not self.is_deepspeed_enabled:  # whose own files hold the weights
                    self.model.save_pretrained(partial)
                self.state.save_to_json(str(partial / TRAINER_STATE_NAME))
            self._save_optimizer_and_scheduler(str(partial))
            self._save_scaler(str(partial))
            self._save_rng_state(str(partial))
            self._own_file(partial).write_text(json.dumps(self.own_state()), encoding="utf-8")
            self.accelerator.wait_for_everyone()
            if main:
                self.checkpoints.complete(step, self.journal)
            self.accelerator.wait_for_everyone()

    def _own_file(self: Any, folder: Path) -> Path:
        return folder / f"own-{self.accelerator.process_index}.json"

    def _restore(self: Any) -> None:
        self.restore(json.loads(self._own_file(self.checkpoints.start.folder).read_text(encoding="utf-8")))


class _Schedule(TrainerCallback):
    def __init__(self, trainer: Any, every: int) -> None:
        self._trainer = trainer
        self._every = every

    def on_train_begin(self, args: Any, state: Any, control: Any, **_kwargs: Any) -> None:
        if state.global_step:
            self._trainer._restore()

    def on_step_end(self, args: Any, state: Any, control: Any, **_kwargs: Any) -> None:
        if self._every and state.global_step % self._every == 0 and state.global_step < state.max_steps:
            control.should_log = control.should_save = True
