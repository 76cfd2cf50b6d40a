"""A phase's settings as arguments of TRL's trainer."""

from __future__ import annotations

from pathlib import Path

from trl.trainer.grpo_config import GRPOConfig as TRLConfig

from corecode.config import ExecutionConfig, GRPOConfig
from corecode.errors import UserError


def trainer_arguments(
    config: GRPOConfig,
    execution: ExecutionConfig,
    folder: Path,
    seed: int,
    deepspeed: str | None = None,
    bf16: bool = False,
) -> TRLConfig:
    """TRL's arguments: one optimizer step is ``prompts_per_step`` groups, over all ranks.

    Args:
        bf16: compute in bfloat16 (GPUs only; a CPU computes in the type of the weights).

    Raises:
        UserError: when the groups do not divide among the ranks.
    """
    if config.prompts_per_step % execution.ranks:
        raise UserError(
            f"prompts_per_step {config.prompts_per_step} does not divide among {execution.ranks} ranks;"
            " choose a multiple, so that every group stays on one rank"
        )
    samples = config.prompts_per_step * config.group_size // execution.ranks
    micro = samples
    if execution.micro_batch is not None:
        micro = max(size for size in range(1, min(execution.micro_batch, samples) + 1) if samples % size == 0)
    on_cpu = execution.device == "cpu"
    return TRLConfig(
        output_dir=str(folder),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=samples // micro,
        num_generations=config.group_size,
        max_completion_length=config.sampling.max_tokens,
        temperature=config.sampling.temperature,
        top_p=config.sampling.top_p,
        max_steps=config.steps,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps,
        beta=config.beta,
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        loss_type=config.loss,
        adam_beta2=config.adam_beta2,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        seed=seed % 2**32,
        bf16=bf16 and not on_cpu,
        use_cpu=on_cpu,
        gradient_checkpointing=not on_cpu,
        dataloader_pin_memory=not on_cpu,
        use_vllm=execution.sampler == "vllm",
        vllm_mode="colocate",
        vllm_tensor_parallel_size=execution.sampler_gpus,
        vllm_gpu_memory_utilization=execution.sampler_memory,
        # By token: over thousands of tokens the ratio of a whole sequence leaves any bound, and its sample is lost.
        vllm_importance_sampling_mode="token_truncate",
        vllm_enable_sleep_mode=True,  # its memory is the update's and the gathering's while it does not sample
        deepspeed=deepspeed,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
