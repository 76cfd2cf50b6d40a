"""The in-process sampler: the same tokens as transformers' own generation, and the same distribution."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from corecode.config import SamplingConfig, ScratchConfig
from corecode.errors import UserError
from corecode.generation import transformers as sampler
from corecode.generation.generator import Completion
from corecode.generation.transformers import TransformersGenerator
from corecode.models import new_model, train_tokenizer

GREEDY = SamplingConfig(temperature=0, max_tokens=12)
TEXTS = ["Print the sum.", "Sort the list and print it, please.", "Say yes.", "Count to ten, then stop counting."]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS, 280)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return new_model(ScratchConfig(width=32, layers=2, heads=2, init_std=0.3), tokenizer, 3)


def chats(texts: list[str]) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": text}] for text in texts]


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_greedy_equals_generate(model: Any, tokenizer: Any, batch: int) -> None:
    generator = TransformersGenerator(model, tokenizer, batch)
    prompts = generator.render(chats(TEXTS))
    ours = generator.sample(prompts, 1, GREEDY, seed=0)
    for prompt, (tokens,) in zip(prompts, ours, strict=True):
        theirs = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        assert tokens == theirs


def test_a_listener_hears_each_answer_that_ends(model: Any, tokenizer: Any) -> None:
    generator = TransformersGenerator(model, tokenizer, 3)
    sampling = SamplingConfig(temperature=2.0, max_tokens=60)
    heard: list[tuple[int, Completion]] = []
    answers = generator.generate(chats(TEXTS), 16, sampling, 1, lambda index, answer: heard.append((index, answer)))
    ended = [(i, answer) for i, group in enumerate(answers) for answer in group if not answer.truncated]
    assert len(ended) > 3
    assert sorted(heard, key=repr) == sorted(ended, key=repr)
    assert generator.generate(chats(TEXTS), 16, sampling, 1) == answers


def test_the_cache_arrives_under_either_of_its_names(model: Any, tokenizer: Any) -> None:
    """A model ignores an argument that it does not know, and would then see the last token alone."""
    here = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    class Newer(type(model)):
        def forward(self, cache: Any = None, **given: Any) -> Any:
            return super().forward(**{here: cache}, **given)

    class Older(type(model)):
        def forward(self, past_key_values: Any = None, **given: Any) -> Any:
            return super().forward(**{here: past_key_values}, **given)

    expected = TransformersGenerator(model, tokenizer, 64).generate(chats(TEXTS), 1, GREEDY, 0)
    for kind in (Newer, Older):
        named = kind(model.config).eval()
        named.load_state_dict(model.state_dict())
        assert TransformersGenerator(named, tokenizer, 64).generate(chats(TEXTS), 1, GREEDY, 0) == expected


def test_grouped_query_attention_equals_generate(tokenizer: Any) -> None:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    qwen = Qwen2ForCausalLM(config).eval()
    generator = TransformersGenerator(qwen, tokenizer, 8)
    prompts = generator.render(chats(TEXTS))
    for prompt, (tokens,) in zip(prompts, generator.sample(prompts, 1, GREEDY, 0), strict=True):
        theirs = qwen.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        assert tokens == theirs


def test_branching_and_moved_rows_see_their_own_past(
    model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples of one prompt part and end at different places; every logit equals that of a fresh forward pass."""
    seen: list[tuple[list[int], torch.Tensor]] = []
    original = sampler._draw  # pyright: ignore[reportPrivateUsage]

    def watched(logits: torch.Tensor, rows: list[int], *rest: Any) -> list[int]:
        seen.append((list(rows), logits))
        return original(logits, rows, *rest)

    monkeypatch.setattr(sampler, "_draw", watched)
    generator = TransformersGenerator(model, tokenizer, 64)
    prompts = generator.render(chats(TEXTS[:3]))
    sampled = generator.sample(prompts, 5, SamplingConfig(temperature=0.7, max_tokens=10), seed=1)
    walkers = [(prompt, tokens) for prompt in sorted(prompts, key=len) for tokens in sampled[prompts.index(prompt)]]
    assert len({tuple(tokens) for _, tokens in walkers}) > 5
    for step, (rows, logits) in enumerate(seen):
        alive = [(prompt, tokens) for prompt, tokens in walkers if len(tokens) > step]
        assert len(alive) == len(rows)
        for (prompt, tokens), row in zip(alive, rows, strict=True):
            with torch.no_grad():
                fresh = model(torch.tensor([prompt + tokens[:step]])).logits[0, -1]
            assert torch.allclose(logits[row], fresh, atol=1e-4)
    assert len(seen[0][1]) == 3
    assert len(seen[3][1]) > 3


def test_the_distribution_is_the_models(model: Any, tokenizer: Any) -> None:
    generator = TransformersGenerator(model, tokenizer, 4000)
    prompts = generator.render(chats(TEXTS[:1]))
    (samples,) = generator.sample(prompts, 4000, SamplingConfig(temperature=1.5, max_tokens=2), seed=5)
    with torch.no_grad():
        first = torch.softmax(model(torch.tensor(prompts)).logits[0, -1] / 1.5, -1)
    counts = torch.bincount(torch.tensor([tokens[0] for tokens in samples]), minlength=len(first)) / len(samples)
    # Four standard errors of a share, over all tokens.
    assert bool(((counts - first).abs() < 4 * (first * (1 - first) / len(samples)).sqrt() + 1e-3).all())


def test_top_p_keeps_the_nucleus(model: Any, tokenizer: Any) -> None:
    generator = TransformersGenerator(model, tokenizer, 500)
    prompts = generator.render(chats(TEXTS[:1]))
    (samples,) = generator.sample(prompts, 500, SamplingConfig(temperature=1, top_p=0.3, max_tokens=1), seed=5)
    with torch.no_grad():
        ordered = torch.softmax(model(torch.tensor(prompts)).logits[0, -1], -1).sort(descending=True)
    inside = int((ordered.values.cumsum(0) - ordered.values < 0.3).sum())
    assert {tokens[0] for tokens in samples} == set(ordered.indices[:inside].tolist())


def test_a_seed_repeats_and_order_is_kept(model: Any, tokenizer: Any) -> None:
    generator = TransformersGenerator(model, tokenizer, 7)
    sampling = SamplingConfig(temperature=1, max_tokens=8)
    once = generator.generate(chats(TEXTS), 3, sampling, seed=1)
    assert once == generator.generate(chats(TEXTS), 3, sampling, seed=1)
    assert once != generator.generate(chats(TEXTS), 3, sampling, seed=2)
    forward = generator.generate(chats(TEXTS), 1, GREEDY, seed=0)
    backward = generator.generate(chats(TEXTS[::-1]), 1, GREEDY, seed=0)
    assert forward == backward[::-1]


def test_equal_prompts_are_sampled_apart_but_decoded_once_when_greedy(model: Any, tokenizer: Any) -> None:
    generator = TransformersGenerator(model, tokenizer, 64)
    same = chats([TEXTS[0]] * 4)
    apart = generator.generate(same, 2, SamplingConfig(temperature=2, max_tokens=8), seed=1)
    assert len({completion.token_ids for group in apart for completion in group}) > 4
    greedy = generator.generate(same, 2, GREEDY, seed=1)
    assert len({completion.token_ids for group in greedy for completion in group}) == 1


def test_the_end_token_ends_and_a_cut_is_told(model: Any, tokenizer: Any) -> None:
    generator = TransformersGenerator(model, tokenizer, 64)
    answers = generator.generate(chats(TEXTS), 40, SamplingConfig(temperature=3, max_tokens=20), seed=4)
    flat = [completion for group in answers for completion in group]
    ended = [completion for completion in flat if not completion.truncated]
    assert ended
    assert len(ended) < len(flat)
    for completion in flat:
        assert completion.tokens == len(completion.token_ids)
        assert (completion.token_ids[-1] == tokenizer.eos_token_id) == (not completion.truncated)
        assert tokenizer.eos_token_id not in completion.token_ids[:-1]
        assert completion.tokens == 20 or not completion.truncated
        assert "<eos>" not in completion.text


def test_a_model_in_training_stays_in_training(model: Any, tokenizer: Any) -> None:
    model.train()
    TransformersGenerator(model, tokenizer, 4).generate(chats(TEXTS), 1, GREEDY, 0)
    assert model.training
    model.eval()


def test_no_chats_give_no_answers(model: Any, tokenizer: Any) -> None:
    assert TransformersGenerator(model, tokenizer, 4).generate([], 2, GREEDY, 0) == []


def test_a_model_with_windows_is_refused(tokenizer: Any) -> None:
    config = Qwen2Config(
        vocab_size=300,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        use_sliding_window=True,
        max_window_layers=1,
    )
    with pytest.raises(UserError, match="sliding_attention"):
        TransformersGenerator(Qwen2ForCausalLM(config), tokenizer, 4)
