"""How much memory a run needs at least, from its profile: what is certain, without activations.

For a model of P parameters of b bytes each (2 in bfloat16, 4 in float32) of which T are trained:

- weights b P, gradients b T, Adam's two moments 2 b T in plain torch;
- over DeepSpeed the moments are float32 (8 T), and in bfloat16 there is a float32 copy of the weights (4 T): 16 bytes a
  parameter in all (Rajbhandari and others, "ZeRO", 2020, section 3.1). ZeRO over N ranks divides optimizer states by N
  (stage 1), gradients too (stage 2), weights too (stage 3); ``zero_offload`` moves weights and optimizer states away;
- every rank loads the whole model, b P, before ZeRO divides it;
- a reference model b P where a phase has a KL term and all weights are trained; divided by N in stage 3;
- a frozen partner b P on every rank, unless a server answers for it;
- what vLLM takes for itself is a share of the device: ``sampler_memory`` for the sampler and ``server.gpu_memory`` for
  the partner's. The weights, b P over the GPUs that it spreads them over, have to fit into that share;
- stage 3 gathers b P on every rank to save, while the sampler sleeps, and to sample where the trainer does it; with
  adapters also to hand merged weights to the sampler, which then holds its own.

With adapters T is next to nothing. Activations, logits and the cache of the sampler come on top.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from corecode.config import ModelConfig, Profile, ScratchConfig


@dataclass(frozen=True)
class Need:
    """Bytes on one device (a GPU, or the whole machine for a CPU)."""

    states: int
    """Weights, gradients and optimizer states of what is trained."""
    others: int
    """Reference and frozen models."""
    reserved: float
    """Share of the device that vLLM takes."""
    gathered: int = 0
    """Weights that stage 3 brings together."""
    asleep: float = 0.0
    """Share of the device that vLLM gives back meanwhile."""
    served: tuple[tuple[int, float], ...] = ()
    """For each vLLM on the device its weights there and its share."""

    @property
    def total(self) -> int:
        """Bytes beside what vLLM takes."""
        return self.states + self.others

    def fits(self, device_bytes: int) -> bool:
        """Whether it can be held at all."""
        awake = self.reserved - self.asleep
        return (
            self.total <= (1 - self.reserved) * device_bytes
            and self.total + self.gathered <= (1 - awake) * device_bytes
            and all(weights <= share * device_bytes for weights, share in self.served)
        )


def parameters(model: ModelConfig, folder: Path | None) -> int | None:
    """Parameters of the base model: from the profile, or from the headers of the weights in ``folder``; None where
    neither says."""
    if model.scratch is not None:
        return _scratch_parameters(model.scratch)
    files = sorted(folder.glob("*.safetensors")) if folder is not None else []
    return sum(_file_parameters(file) for file in files) or None


def need(profile: Profile, count: int) -> Need:
    """What the largest job of a run needs; ``count``: parameters of its model."""
    execution = profile.execution
    on_gpu, kept = execution.device == "cuda", not execution.zero_offload
    over, stage = (execution.ranks, execution.zero_stage) if execution.engine == "deepspeed" else (1, 0)
    width = _width(profile)
    trained = 0 if profile.model.lora else count
    whole = width * count
    weights = whole // (over if stage == 3 else 1)
    gradients = width * trained // (over if stage >= 2 else 1)
    optimizer = _optimizer_bytes(profile) * trained // (over if stage >= 1 else 1)
    # On a CPU what is offloaded stays in the same memory.
    states = gradients + (weights + optimizer if kept or not on_gpu else 0)
    # Each rank loads the whole model before ZeRO divides it.
    states = max(states, whole)
    others = weights if max(profile.planner_grpo.beta, profile.coder_grpo.beta) and not profile.model.lora else 0
    served: list[tuple[int, float]] = []
    if execution.sampler == "vllm":
        served.append((whole // execution.sampler_gpus, execution.sampler_memory))
    if execution.partner == "transformers":
        others += whole
    elif on_gpu:
        served.append((whole // execution.server.gpus, execution.server.gpu_memory))
    # The ranks of a CPU share its memory; each GPU has a rank of its own. The warm-ups run beside each other.
    sharing = 1 if on_gpu else over
    warmups = states * min(execution.parallel, 2) if profile.sft.enabled else 0
    if warmups > states + others:
        return Need(warmups * sharing, 0, 0.0)
    gathered = whole if stage == 3 and on_gpu else 0
    if gathered and profile.model.lora and execution.sampler == "vllm":
        gathered += whole // execution.sampler_gpus
    asleep = execution.sampler_memory if execution.sampler == "vllm" else 0.0
    reserved = sum(share for _, share in served)
    return Need(states * sharing, others * sharing, reserved, gathered, asleep, tuple(served))


def checkpoint_bytes(profile: Profile, count: int) -> int:
    """Bytes of one checkpoint: weights and optimizer states of all ranks together."""
    optimizer = 0 if profile.model.lora else _optimizer_bytes(profile)
    return (_width(profile) + optimizer) * count


def _width(profile: Profile) -> int:
    """Bytes of a weight."""
    return 2 if profile.model.dtype == "bfloat16" else 4


def _optimizer_bytes(profile: Profile) -> int:
    """Bytes of optimizer states for each trained parameter."""
    if profile.execution.engine == "deepspeed":
        return 12 if profile.model.dtype == "bfloat16" else 8
    return 2 * _width(profile)


def _scratch_parameters(scratch: ScratchConfig) -> int:
    """Of a Llama with tied embeddings and a feed-forward layer of three times the width."""
    layer = 4 * scratch.width**2 + 3 * scratch.width * 3 * scratch.width + 2 * scratch.width
    return scratch.vocabulary * scratch.width + scratch.layers * layer + scratch.width


def _file_parameters(path: Path) -> int:
    """From the header of a safetensors file: 8 bytes of length, then JSON with the shape of each tensor."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    total = 0
    for name, tensor in header.items():
        if name != "__metadata__":
            product = 1
            for extent in tensor["shape"]:
                product *= extent
            total += product
    return total
