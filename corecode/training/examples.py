"""The warm-up's examples: which prompt and which answer each role learns from, and their tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from corecode.config import SFTConfig
from corecode.errors import UserError
from corecode.generation.generator import derive_seed
from corecode.problems import Problem
from corecode.roles.roles import Message, Role

IGNORED = -100
"""Label of a token that the loss does not see."""


@dataclass(frozen=True)
class Example:
    """A chat and the answer to learn."""

    messages: list[Message]
    answer: str


def examples(role: Role, in_team: bool, problems: Sequence[Problem], config: SFTConfig, seed: int) -> list[Example]:
    """One example for each reference solution that the role can learn from.

    A Coder in a team sees a mix: problem and thought, the thought alone (so that it learns to read it), the problem
    alone (so that it can work without a Planner). The draw depends on the seed and the problem's place only.

    Raises:
        UserError: when there is none, as when a Planner's data has no thoughts.
    """
    rng = random.Random(derive_seed(seed, "mix"))
    found: list[Example] = []
    for problem in problems:
        for reference in problem.references:
            share = rng.random()
            if role.name != "coder":
                if reference.thought is not None:
                    read = reference.thought if role.reads_thought else None
                    found.append(Example(role.messages(problem, read), role.target(reference)))
                continue
            thought = reference.thought if in_team else None
            if share < config.coder_without_thought or thought is None:
                messages = role.messages(problem)
            else:
                alone = share < config.coder_without_thought + config.coder_without_problem
                messages = role.messages(problem, thought, show_problem=not alone)
            found.append(Example(messages, role.target(reference)))
    if not found:
        raise UserError(
            f"the warm-up data has nothing for the {role.name}: give problems with references"
            f"{'' if role.name == 'coder' else ' that have a thought'}, or set sft.enabled to false"
        )
    return found


def encode(tokenizer: Any, rows: Sequence[Example]) -> list[dict[str, list[int]]]:
    """Tokens and labels of each example: exactly the prompt tokens of generation, then the answer and its end token.

    Raises:
        UserError: when the chat template renders a prompt differently once it is answered.
    """
    prompts = [_text(tokenizer, row.messages, prompt=True) for row in rows]
    answers: list[str] = []
    for row, prompt in zip(rows, prompts, strict=True):
        whole = _text(tokenizer, [*row.messages, {"role": "assistant", "content": row.answer}], prompt=False)
        if not whole.startswith(prompt):
            raise UserError("the model's chat template does not keep a prompt as it is once it is answered")
        answers.append(whole[len(prompt) :])
    return [
        {"input_ids": prompt + answer, "labels": [IGNORED] * len(prompt) + answer}
        for prompt, answer in zip(
            _tokens(tokenizer, prompts),
            (_ended(ids, tokenizer.eos_token_id) for ids in _tokens(tokenizer, answers)),
            strict=True,
        )
    ]


def batches(lengths: Sequence[int], size: int, epochs: float, seed: int) -> Iterator[list[int]]:
    """Batches of example numbers for ``epochs`` passes: similar lengths together, batches in random order.

    Each pass shuffles the examples, sorts within windows of twenty batches, and shuffles the batches of a window. The
    last incomplete batch of a pass is dropped, unless it is the only one.
    """
    rng = random.Random(derive_seed(seed, "batches"))
    count = max(len(lengths) // size, 1)
    wanted = max(round(count * epochs), 1)
    while wanted > 0:
        order = rng.sample(range(len(lengths)), len(lengths))
        for first in range(0, count, 20):
            window = sorted(order[first * size : min(first + 20, count) * size], key=lambda i: lengths[i])
            cut = [window[i : i + size] for i in range(0, len(window), size)]
            rng.shuffle(cut)
            yield from cut[:wanted]
            wanted -= len(cut)
            if wanted <= 0:
                return


def _text(tokenizer: Any, messages: Sequence[Message], *, prompt: bool) -> str:
    return tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=prompt)


def _tokens(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    # A template writes its own special tokens.
    return tokenizer(list(texts), add_special_tokens=False)["input_ids"]


def _ended(ids: list[int], end: int) -> list[int]:
    """The answer up to its first end token; one is added where the template writes none."""
    return ids[: ids.index(end) + 1] if end in ids else [*ids, end]
