"""What a GRPO phase writes down: metrics and times of every step, points of the validation curves, the best model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from corecode.models import write_model
from corecode.training.ranks import gathered, sum_over_ranks
from corecode.training.records import Journal
from corecode.training.validation import Validator, curves

if TYPE_CHECKING:
    from corecode.training.grpo import RoleTrainer

LOGGED = {
    "loss": "policy/loss",
    "grad_norm": "policy/grad_norm",
    "learning_rate": "policy/learning_rate",
    "entropy": "policy/entropy",
    "kl": "policy/kl",
    "clip_ratio/low_mean": "policy/clip_low",
    "clip_ratio/high_mean": "policy/clip_high",
    "cispo_clip_ratio": "policy/clip_high",
    "sampling/sampling_logp_difference/mean": "sampling/logp_difference",
    "sampling/importance_sampling_ratio/mean": "sampling/ratio",
    "reward_std": "reward/std",
}
"""TRL's name of each logged metric, and ours. Metrics of the scene keep their names."""

SCENE_METRICS = {"infrastructure", "group", "completion", "program", "reward", "thought"}
"""First parts of the names that the scene logs."""

SELECTED = "validation/pass@1/team"
"""The metric that chooses the best model. While a Planner is trained it orders models as Collaboration Gain does."""

MODEL_WORK = ("sampling", "partner", "update")
"""Activities in which a model computes."""


class Recorder(TrainerCallback):
    """Writes metrics at every step, and validation points and samples at every ``validate_every``-th."""

    def __init__(self, trainer: RoleTrainer, journal: Journal, validator: Validator | None) -> None:
        self.trainer = trainer
        self.journal = journal
        self.validator = validator
        self.every = trainer.scene.config.validate_every
        self.steps = trainer.scene.config.steps
        self._since = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_kwargs: Any) -> None:
        if state.global_step == 0:
            self._validate(0)
        self._since = time.perf_counter()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_kwargs: Any) -> None:
        self.trainer.count_update()

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs: Mapping[str, Any] = kwargs["logs"]
        if "loss" not in logs:
            return  # the summary at the end of training
        step = state.global_step
        known = {name for name in logs if "/" in name and name.split("/")[0] in SCENE_METRICS}
        values = {
            LOGGED.get(name, name): float(logs[name])
            for name in known | (set(LOGGED) & set(logs))
            if logs[name] is not None
        }
        self.journal.metrics(step, self.steps, values, self._seconds())
        if step in (1, self.steps) or (self.every and step % self.every == 0):
            self.journal.samples(self.trainer.shown)
        if step == self.steps or (self.every and step % self.every == 0):
            self._validate(step)
        self._since = time.perf_counter()

    def _seconds(self) -> dict[str, float]:
        """Wall seconds of the step by activity, all of it (``step``) and what is left (``other``), without validation;
        beside them the share in which a model computed, and this rank's sampled tokens a second."""
        scene = self.trainer.scene
        whole = time.perf_counter() - self._since
        seconds = dict(scene.seconds)
        seconds |= {"other": whole - sum(seconds.values()), "step": whole}
        seconds["model_share"] = sum(seconds.get(name, 0.0) for name in MODEL_WORK) / whole
        seconds["tokens_per_second"] = scene.tokens / whole
        scene.seconds.clear()
        scene.tokens = 0
        return seconds

    def _validate(self, step: int) -> None:
        if self.validator is None:
            return
        start = time.perf_counter()
        points = curves(sum_over_ranks(self.validator.measure()))
        value = points.get(SELECTED)
        if value is not None and value > self.journal.highest.get(SELECTED, -1.0):
            self._keep_best(step, value)
        seconds = {"validation": time.perf_counter() - start, "validation_sandbox": self.validator.sandbox_seconds}
        self.journal.metrics(step, self.steps, points, seconds)

    def _keep_best(self, step: int, value: float) -> None:
        """Keep the policy as it is now. A collective: all ranks see the same value."""
        trainer = self.trainer
        with gathered(trainer) as model:
            if trainer.accelerator.is_main_process:
                trainer.checkpoints.keep_best(
                    step, SELECTED, value, lambda folder: write_model(model, trainer.processing_class, folder)
                )
