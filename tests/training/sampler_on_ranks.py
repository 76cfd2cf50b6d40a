"""A rank of a phase over ZeRO-3 whose policy is sampled by a stand-in of vLLM: ``sampler_on_ranks.py FOLDER GPUS``,
where GPUS are those of a sampler. Writes ``FOLDER/RANK.json``; its metrics lie in ``FOLDER/RANK``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import test_colocated as colocated
import torch
from tiny import tiny_tokenizer
from trl.generation import vllm_generation

from corecode.config import ExecutionConfig, SamplingConfig
from corecode.generation.transformers import TransformersGenerator
from corecode.training.ranks import gathered

ZERO3 = Path(__file__).parents[2] / "infra" / "deepspeed" / "zero3.json"


def main() -> None:
    torch.set_num_threads(1)
    folder, gpus, rank = Path(sys.argv[1]), int(sys.argv[2]), int(os.environ["RANK"])
    tokenizer = tiny_tokenizer(colocated.texts())
    engine = colocated.StandIn(tokenizer)

    def start(generation: Any) -> None:
        engine.policy = engine.model  # the policy's weights are in pieces here, and compared by what they answer
        generation.llm, generation._llm_weights_sleeping = engine, True
        if generation.tensor_parallel_size > 1:
            generation.tp_group = torch.distributed.new_group([0, 1])

    vllm_generation.VLLMGeneration._init_vllm = start  # type: ignore[method-assign]
    vllm_generation.SamplingParams = SimpleNamespace
    execution = ExecutionConfig(engine="deepspeed", ranks=2)
    execution = execution.model_copy(update={"sampler": "vllm", "sampler_gpus": gpus})
    config = colocated.CONFIG.model_copy(
        update={"prompts_per_step": 4, "group_size": 2, "dynamic_sampling": 1, "learning_rate": 1e-3}
    )
    trainer = colocated.trained(tokenizer, folder / str(rank), config, execution, 3, str(ZERO3))
    # The ranks do not ask as often as each other, nor the same.
    chats = [[{"role": "user", "content": letter * 7}] for letter in ("abcd", "z")[rank]]
    greedy = SamplingConfig(temperature=0.0, max_tokens=9)
    found = trainer.policy().generate(chats, 1, greedy, 0)
    with gathered(trainer) as model:
        expected = TransformersGenerator(model, tokenizer, 64).generate(chats, 1, greedy, 0)
    said = [one.text for (one,) in found]
    result = {"equal": found == expected, "said": said, "temperatures": [call[0] for call in engine.calls]}
    (folder / f"{rank}.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
