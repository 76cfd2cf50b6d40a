"""The warm-up: supervised training of one role on TRL's trainer, with the loss on the answer only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Sampler
from transformers import PrinterCallback, TrainerCallback
from trl.trainer.sft_config import SFTConfig as TRLConfig
from trl.trainer.sft_trainer import SFTTrainer

from corecode.config import ExecutionConfig, SFTConfig
from corecode.training.checkpoints import Checkpoints
from corecode.training.divergence import Watch
from corecode.training.examples import IGNORED, batches
from corecode.training.optimizers import MuonAdamW, cosine
from corecode.training.records import Journal
from corecode.training.resuming import Resuming

BETAS = (0.9, 0.98)
WEIGHT_DECAY = 0.01
LOGGING_STEPS = 10
LOGGED = {
    "loss": "sft/loss",
    "grad_norm": "sft/grad_norm",
    "learning_rate": "sft/learning_rate",
    "mean_token_accuracy": "sft/token_accuracy",
    "entropy": "sft/entropy",
}
"""TRL's name of each logged metric, and ours."""


class _Order(Sampler[int]):
    """Example numbers in the order of the batches."""

    def __init__(self, order: Sequence[int]) -> None:
        self.order = order

    def __iter__(self) -> Any:
        return iter(self.order)

    def __len__(self) -> int:
        return len(self.order)


class WarmupTrainer(Resuming, SFTTrainer):
    """TRL's trainer with length-grouped batches and a cosine that ends above zero."""

    def __init__(self, order: Sequence[int], warmup: int, **kwargs: Any) -> None:
        self.order = order
        self.warmup = warmup
        super().__init__(**kwargs)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return _Order(self.order)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        chosen: Any = optimizer or self.optimizer
        scheduler = LambdaLR(chosen, lambda step: cosine(step, num_training_steps, self.warmup))
        self.lr_scheduler = scheduler
        return scheduler


def collate(rows: Sequence[Mapping[str, list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """Pad on the right. A causal model never looks at what follows, so positions stand in for an attention mask, and
    attention runs without one."""
    length = max(len(row["input_ids"]) for row in rows)
    return {
        "input_ids": torch.tensor([row["input_ids"] + [pad] * (length - len(row["input_ids"])) for row in rows]),
        "labels": torch.tensor([row["labels"] + [IGNORED] * (length - len(row["labels"])) for row in rows]),
        "position_ids": torch.arange(length)[None],
    }


class Recorder(TrainerCallback):
    """Writes the logged metrics."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs: Mapping[str, Any] = kwargs["logs"]
        if "loss" in logs:
            values = {LOGGED[name]: float(logs[name]) for name in LOGGED if name in logs}
            self.journal.metrics(state.global_step, state.max_steps, values)


def train(
    policy: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, list[int]]],
    config: SFTConfig,
    execution: ExecutionConfig,
    journal: Journal,
    checkpoints: Checkpoints,
    seed: int,
    deepspeed: str | None = None,
) -> WarmupTrainer:
    """Train ``policy`` in place on encoded examples (``input_ids`` and ``labels``) and return the trainer.

    Raises:
        InfrastructureError: when the disk is full.
        UserError: when the training diverges.
    """
    size = config.batch_size * execution.ranks
    order = [i for batch in batches([len(row["input_ids"]) for row in rows], size, config.epochs, seed) for i in batch]
    steps = max(len(order) // size, 1)
    micro = config.batch_size
    if execution.micro_batch is not None:
        micro = max(n for n in range(1, min(execution.micro_batch, micro) + 1) if micro % n == 0)
    on_cpu = execution.device == "cpu"
    optimizer = None
    if config.optimizer == "muon" and deepspeed is None and not isinstance(policy, PeftModel):
        optimizer = MuonAdamW(policy, config.learning_rate, BETAS, WEIGHT_DECAY)
    trainer = WarmupTrainer(
        order,
        config.warmup_steps,
        model=policy,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(list(rows)),
        data_collator=partial(collate, pad=tokenizer.pad_token_id),
        optimizers=(optimizer, None),
        args=TRLConfig(
            output_dir=str(checkpoints.folder),
            per_device_train_batch_size=micro,
            gradient_accumulation_steps=config.batch_size // micro,
            max_steps=steps,
            learning_rate=config.learning_rate,
            adam_beta1=BETAS[0],
            adam_beta2=BETAS[1],
            weight_decay=WEIGHT_DECAY,
            max_grad_norm=1.0,
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
            seed=seed % 2**32,
            bf16=not on_cpu and policy.dtype == torch.bfloat16,
            use_cpu=on_cpu,
            gradient_checkpointing=not on_cpu,
            dataloader_pin_memory=not on_cpu,
            deepspeed=deepspeed,
            logging_steps=LOGGING_STEPS,
            logging_first_step=True,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Watch())
    trainer.add_callback(Recorder(journal))
    trainer.attach(checkpoints, journal, config.checkpoint_every)
    trainer.fit()
    return trainer
