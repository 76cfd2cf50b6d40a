"""The policy sampled by TRL's vLLM, with everything of TRL's but the engine: a stand-in that, like vLLM, loses its
weights when it sleeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tiny import Marks, Verbatim, problem, tiny_model, tiny_tokenizer
from trl.generation import vllm_generation

from corecode.config import ExecutionConfig, GRPOConfig, LoraConfig, RewardConfig, SamplingConfig
from corecode.execution import Executor
from corecode.generation.transformers import TransformersGenerator
from corecode.models import add_adapters
from corecode.teams import Team
from corecode.training import colocated
from corecode.training.checkpoints import Checkpoints
from corecode.training.grpo import RoleTrainer, train
from corecode.training.records import Journal
from corecode.training.scene import Scene
from pipelines.launchers.local import PORT_OPTION, Engine, LocalLauncher, free_port, job_environment

PROBLEMS = [problem(i, str(i % 3)) for i in range(6)]
CODER = Verbatim("coder", "compact")
CONFIG = GRPOConfig(
    steps=2,
    prompts_per_step=2,
    group_size=4,
    learning_rate=1e-2,
    beta=0.0,
    sampling=SamplingConfig(temperature=1.0, max_tokens=6),
    partner_sampling=SamplingConfig(temperature=1.0, max_tokens=6),
    validate_every=1,
)


class StandIn:
    """Answers as vLLM's ``LLM`` does to TRL."""

    def __init__(self, tokenizer: Any) -> None:
        self.model = tiny_model(tokenizer, 9)
        self.tokenizer = tokenizer
        self.llm_engine = SimpleNamespace(
            model_executor=SimpleNamespace(driver_worker=SimpleNamespace(model_runner=SimpleNamespace(model=self)))
        )
        self.calls: list[tuple[float, float, int, bool]] = []
        """Of each call: temperature, top-p, tokens at most, and whether the weights were the policy's."""
        self.policy: Any = None
        self.sleep(2)

    def sleep(self, level: int) -> None:
        assert level == 2
        self.awake: set[str] = set()
        for weight in self.model.parameters():
            weight.data.zero_()

    def wake_up(self, tags: Sequence[str]) -> None:
        self.awake |= set(tags)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        assert "weights" in self.awake
        for name, value in weights:
            self.model.get_parameter(name).data.copy_(value)

    def reset_prefix_cache(self) -> None: ...

    def generate(self, prompts: Sequence[Any], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        assert {"weights", "kv_cache"} <= self.awake
        given = sampling_params
        theirs, ours = self.policy.state_dict(), self.model.state_dict()
        current = all(torch.equal(theirs[name], ours[name]) for name in ours if name in theirs)
        self.calls.append((given.temperature, given.top_p, given.max_tokens, current))
        ids = [prompt["prompt_token_ids"] for prompt in prompts]
        sampling = SamplingConfig(temperature=given.temperature, top_p=given.top_p, max_tokens=given.max_tokens)
        answers = TransformersGenerator(self.model, self.tokenizer, 64).sample(ids, 1, sampling, len(self.calls))
        return [
            SimpleNamespace(prompt_token_ids=prompt, outputs=[self._output(prompt, answer)])
            for prompt, (answer,) in zip(ids, answers, strict=True)
        ]

    def _output(self, prompt: list[int], answer: list[int]) -> Any:
        with torch.no_grad():
            logits = self.model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        logps = logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0].tolist()
        scores = [{token: SimpleNamespace(rank=1, logprob=p)} for token, p in zip(answer, logps, strict=True)]
        return SimpleNamespace(token_ids=answer, logprobs=scores)


def texts() -> list[str]:
    return [CODER.messages(p)[0]["content"] + p.references[0].program for p in PROBLEMS]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer(texts())


@pytest.fixture
def engine(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = StandIn(tokenizer)

    def start(generation: Any) -> None:
        made.policy = generation.model
        generation.llm, generation._llm_weights_sleeping = made, True

    monkeypatch.setattr(vllm_generation.VLLMGeneration, "_init_vllm", start)
    monkeypatch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    return made


ON_CPU = ExecutionConfig().model_copy(update={"sampler": "vllm"})
"""Which a profile refuses."""


def trained(
    tokenizer: Any,
    folder: Path,
    config: GRPOConfig = CONFIG,
    execution: ExecutionConfig = ON_CPU,
    validation: int = 2,
    deepspeed: str | None = None,
    lora: LoraConfig | None = None,
) -> RoleTrainer:
    scene = Scene(
        Team((CODER,)),
        "coder",
        {},
        config,
        RewardConfig(preset="accuracy"),
        Executor(Marks()),
        "steps",
        seed=5,
    )
    policy = tiny_model(tokenizer, 1)
    return train(
        scene,
        add_adapters(policy, lora, 0) if lora else policy,
        tokenizer,
        PROBLEMS,
        PROBLEMS[:validation],
        {},
        execution,
        Journal(folder),
        Checkpoints(folder, "", 2),
        seed=5,
        deepspeed=deepspeed,
    )


def test_training_and_validation_sample_the_current_weights(tokenizer: Any, engine: StandIn, tmp_path: Path) -> None:
    trainer = trained(tokenizer, tmp_path)
    greedy, sampled = (0.0, 1.0, 6, True), (1.0, 1.0, 6, True)
    assert engine.calls == [greedy, sampled, greedy, sampled, greedy], "validation at 0, 1 and 2"
    chats = [CODER.messages(p) for p in PROBLEMS]
    sampling = SamplingConfig(temperature=0.0, max_tokens=9)
    ours = TransformersGenerator(trainer.model, tokenizer, 64).generate(chats, 2, sampling, 0)
    assert trainer.policy().generate(chats, 2, sampling, 0) == ours
    assert trainer.policy().generate([], 2, sampling, 0) == []
    assert trainer.vllm_generation.max_completion_length == 6


@pytest.mark.parametrize("lora", [None, LoraConfig(rank=4)])
def test_what_the_sampler_and_the_trainer_compute_agrees(
    tokenizer: Any, engine: StandIn, tmp_path: Path, lora: LoraConfig | None
) -> None:
    """Also of a policy with adapters, which reach the sampler merged into the weights."""
    config = CONFIG.model_copy(update={"steps": 6, "group_size": 2, "dynamic_sampling": 1, "validate_every": 0})
    weights = trained(tokenizer, tmp_path, config, lora=lora).model.state_dict()
    if lora:
        assert any(bool(value.any()) for name, value in weights.items() if "lora_B.default" in name)
    lines = [json.loads(line)["metrics"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    for metrics in lines:
        assert metrics["sampling/ratio"] == pytest.approx(1.0, abs=1e-4)
        assert metrics["sampling/logp_difference"] == pytest.approx(0.0, abs=1e-4)
    assert len(engine.calls) > 6, "groups of equal rewards are sampled again"
    assert all(current for *_, current in engine.calls)


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [1, 2])
def test_ranks_over_zero3_sample_and_validate_together(gpus: int, tmp_path: Path) -> None:
    """Two ranks with a sampler each, or with one for both; a rank has more problems to validate than the other."""
    program = [str(Path(__file__).with_name("sampler_on_ranks.py")), str(tmp_path), str(gpus)]

    def command(_job: Any, _file: Path) -> list[str]:
        where = ["--num_accelerators", "2", PORT_OPTION, str(free_port()), "--no_local_rank"]
        return [sys.executable, "-m", "deepspeed.launcher.runner", *where, *program]

    job: Any = SimpleNamespace(name="ranks", folder=tmp_path, spec={"kind": "grpo"}, write=lambda: tmp_path)
    launcher = LocalLauncher(job_environment(1, "cpu", offline=True), Engine("deepspeed", 2), command=command)
    launcher.run([job], 1, lambda job, line: None)
    said: set[str] = set()
    for rank in ("0", "1"):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["equal"]
        said |= set(found["said"])
        assert found["temperatures"].count(0.0) == 4, "validation at 0, 1 and 2, and what the program asks"
    assert len(said) == 5, "else answers could be exchanged unseen"
    lines = [json.loads(line)["metrics"] for line in (tmp_path / "0" / "metrics.jsonl").read_text().splitlines()]
    assert [metrics["sampling/ratio"] for metrics in lines if "sampling/ratio" in metrics] == pytest.approx([1, 1])


def test_ranks_bring_as_many_prompts_as_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL tells the answers of ranks that share a sampler apart by their own number of prompts."""
    ranks = [[[1, 2], [3]], [[4], [5], [6]], []]
    heads = [(len(prompts), prompts[:1]) for prompts in ranks]
    monkeypatch.setattr(colocated, "gather_object", lambda own: heads)
    whole = [colocated.filled(prompts) for prompts in ranks]
    assert whole == [[[1, 2], [3], [1, 2]], [[4], [5], [6]], [[1, 2]] * 3]
    monkeypatch.setattr(colocated, "gather_object", lambda own: [(0, []), (0, [])])
    assert colocated.filled([]) == []


def test_the_draws_of_a_sampler_depend_on_the_seed_and_are_those_of_its_ranks() -> None:
    def draw(seed: int, rank: int) -> float:
        accelerator = SimpleNamespace(process_index=rank)
        colocated.seed_sampler(SimpleNamespace(accelerator=accelerator, vllm_tensor_parallel_size=2), seed)
        return float(torch.rand(()))

    state = torch.get_rng_state()
    try:
        assert draw(1, 0) == draw(1, 1)
        assert len({draw(1, 0), draw(1, 2), draw(2, 0), draw(2, 2)}) == 4
    finally:
        torch.set_rng_state(state)
