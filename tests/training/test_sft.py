"""The warm-up: what is taught, in which order, and that it is learnt."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import problem, tiny_model, tiny_tokenizer

from corecode.config import ExecutionConfig, SamplingConfig, SFTConfig
from corecode.errors import UserError
from corecode.generation.transformers import TransformersGenerator
from corecode.problems import Reference
from corecode.roles.roles import role
from corecode.training.checkpoints import Checkpoints
from corecode.training.examples import IGNORED, Example, batches, encode, examples
from corecode.training.optimizers import MuonAdamW, cosine, linear, split_parameters
from corecode.training.records import Journal
from corecode.training.sft import train

PROBLEMS = [problem(i, str(i % 10)) for i in range(400)]
PLANNER, CODER, SOLVER = (role(name, "compact") for name in ("planner", "coder", "solver"))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer([SOLVER.messages(p)[0]["content"] + SOLVER.target(p.references[0]) for p in PROBLEMS])


def test_the_coders_mix() -> None:
    config = SFTConfig(coder_without_thought=0.2, coder_without_problem=0.3)
    prompts = [row.messages[0]["content"] for row in examples(CODER, True, PROBLEMS, config, seed=1)]
    shown = Counter(("### Problem" in prompt, "### Thought" in prompt) for prompt in prompts)
    assert shown[(True, False)] == pytest.approx(80, abs=25)
    assert shown[(False, True)] == pytest.approx(120, abs=30)
    assert shown[(True, True)] == pytest.approx(200, abs=30)
    assert prompts == [row.messages[0]["content"] for row in examples(CODER, True, PROBLEMS, config, seed=1)]


def test_a_coder_without_a_team_sees_problems_alone() -> None:
    rows = examples(CODER, False, PROBLEMS, SFTConfig(), seed=1)
    assert len(rows) == len(PROBLEMS)
    assert not any("### Thought" in row.messages[0]["content"] for row in rows)


def test_references_without_a_thought_teach_no_planner() -> None:
    bare = [p.model_copy(update={"references": [Reference(program="print(1)")]}) for p in PROBLEMS[:3]]
    assert len(examples(PLANNER, True, [*bare, PROBLEMS[0]], SFTConfig(), 0)) == 1
    assert len(examples(CODER, True, bare, SFTConfig(), 0)) == 3
    with pytest.raises(UserError, match="that have a thought"):
        examples(PLANNER, True, bare, SFTConfig(), 0)


def test_tokens_are_those_of_generation_and_end_with_the_end(tokenizer: Any) -> None:
    rows = examples(PLANNER, True, PROBLEMS[:4], SFTConfig(), 0)
    prompts = TransformersGenerator(tiny_model(tokenizer), tokenizer, 4).render([row.messages for row in rows])
    for row, prompt, encoded in zip(rows, prompts, encode(tokenizer, rows), strict=True):
        ids, labels = encoded["input_ids"], encoded["labels"]
        assert ids[: len(prompt)] == prompt
        assert labels[: len(prompt)] == [IGNORED] * len(prompt)
        assert labels[len(prompt) :] == ids[len(prompt) :]
        assert tokenizer.decode(ids[len(prompt) :]) == row.answer + tokenizer.eos_token
        assert ids.count(tokenizer.eos_token_id) == 1


def test_a_template_that_rewrites_prompts_is_refused(tokenizer: Any) -> None:
    template = "{% for m in messages %}{{ messages|length }}{{ m['content'] }}{% endfor %}"
    other = tiny_tokenizer(["abc"])
    other.chat_template = template
    with pytest.raises(UserError, match="chat template"):
        encode(other, [Example([{"role": "user", "content": "a"}], "b")])


def test_batches_hold_each_example_once_a_pass() -> None:
    lengths = [(7 * i) % 50 for i in range(103)]
    one = list(batches(lengths, 4, 1, seed=3))
    assert len(one) == 25
    assert len({i for batch in one for i in batch}) == 100
    spread = [max(lengths[i] for i in batch) - min(lengths[i] for i in batch) for batch in one]
    assert sum(spread) / len(spread) < 10, "similar lengths stand together"
    assert len(list(batches(lengths, 4, 2.5, seed=3))) == 62
    assert one == list(batches(lengths, 4, 1, seed=3))
    assert one != list(batches(lengths, 4, 1, seed=4))
    assert [len(batch) for batch in batches([5, 6], 4, 1, seed=0)] == [2], "fewer examples than a batch"


def test_schedules() -> None:
    assert [round(cosine(step, 100, 4), 3) for step in (0, 3, 50, 100)] == [0.25, 0.998, 0.525, 0.05]
    assert [round(linear(step, 10, 2), 3) for step in (0, 1, 5, 10)] == [0.5, 0.91, 0.55, 0.1]
    assert linear(0, 10, 0) == 1.0


def test_muon_takes_hidden_matrices_alone(tokenizer: Any) -> None:
    model = tiny_model(tokenizer)
    matrices, others = split_parameters(model)
    assert all(p.ndim == 2 for p in matrices)
    assert len(matrices) == 2 * 7
    assert {id(model.get_input_embeddings().weight)} <= {id(p) for p in others}
    assert len(matrices) + len(others) == len(list(model.parameters()))
    optimizer = MuonAdamW(model, 0.01, (0.9, 0.98), 0.01)
    before = [p.clone() for p in model.parameters()]
    model(torch.tensor([[3, 4, 5]]), labels=torch.tensor([[3, 4, 5]])).loss.backward()
    optimizer.step()
    assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    saved = optimizer.state_dict()
    other = MuonAdamW(model, 0.5, (0.9, 0.98), 0.01)
    other.load_state_dict(saved)
    assert [group["lr"] for group in other.param_groups] == [0.01, 0.01]
    other.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_it_learns_and_a_seed_gives_the_same_weights(tokenizer: Any, tmp_path: Path) -> None:
    config = SFTConfig(epochs=3, learning_rate=1e-2, warmup_steps=5)
    rows = encode(tokenizer, examples(CODER, False, PROBLEMS, config, 0))
    models: list[Any] = []
    for name in ("a", "b"):
        model = tiny_model(tokenizer)
        journal, checkpoints = Journal(tmp_path / name), Checkpoints(tmp_path / name, "", 2)
        train(model, tokenizer, rows, config, ExecutionConfig(), journal, checkpoints, seed=2)
        models.append(model)
    first, second = (model.state_dict() for model in models)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == (tmp_path / "b" / "metrics.jsonl").read_bytes()
    last = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["metrics"]["sft/loss"] < 0.3
    generator = TransformersGenerator(models[0], tokenizer, 16)
    chats = [CODER.messages(p) for p in PROBLEMS[:10]]
    answers = generator.generate(chats, 1, SamplingConfig(temperature=0, max_tokens=8), 0)
    right = sum(a.text == p.references[0].program for (a,), p in zip(answers, PROBLEMS[:10], strict=True))
    assert right >= 8
