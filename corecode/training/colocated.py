"""Sampling the policy with TRL's vLLM, which lives in the ranks' processes and takes the weights from them.

Everything here is a collective: weights that are sharded come to vLLM one by one from all ranks, and the ranks that
share a sampler hand their prompts to it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelerate.utils import gather_object
from transformers import set_seed

from corecode.config import SamplingConfig
from corecode.generation.generator import derive_seed


def seed_sampler(trainer: Any, seed: int) -> None:
    """Let the sampler's draws depend on the seed: vLLM has seeded this process with the sampler's number alone. The
    ranks of one sampler draw the same, since they have to choose the same tokens."""
    sampler = trainer.accelerator.process_index // trainer.vllm_tensor_parallel_size
    set_seed(derive_seed(seed, "vllm", sampler) % 2**32)


def filled(prompts: Sequence[list[int]]) -> list[list[int]]:
    """The prompts (token ids), with as many copies of one as it takes to have as many as the rank with the most: TRL
    tells the answers of a sampler's ranks apart by their own number of prompts. Empty where no rank has any."""
    brought: list[tuple[int, list[list[int]]]] = gather_object([(len(prompts), list(prompts[:1]))])
    most = max(count for count, _ in brought)
    copied: list[list[int]] = next((first for _, first in brought if first), [])
    return [*prompts, *copied * (most - len(prompts))]


def answers(trainer: Any, prompts: Sequence[list[int]], sampling: SamplingConfig) -> list[list[int]]:
    """One answer (token ids) to each prompt from the weights as they are now."""
    whole, engine = filled(prompts), trainer.vllm_generation
    if not whole:
        return []
    training = engine.temperature, engine.top_p, engine.max_completion_length
    engine.temperature, engine.top_p, engine.max_completion_length = (
        sampling.temperature,
        sampling.top_p,
        sampling.max_tokens,
    )
    try:
        engine.sync_weights()
        _, ids, _, _ = engine.generate(whole, None, 1)
    finally:
        engine.temperature, engine.top_p, engine.max_completion_length = training
    return [list(one) for one in ids[: len(prompts)]]
