"""Sampling in this process with any causal language model of transformers that attends to its whole context.

Samples that share a prompt share their work: a row of the batch is a distinct *prefix*, and it carries every sample
that has produced this prefix so far. Rows part when their samples draw different tokens and vanish when the last of
their samples has ended. The distribution is that of sampling each alone; equal prompts, greedy decoding and low
temperatures cost a fraction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from corecode.config import SamplingConfig
from corecode.errors import UserError
from corecode.generation.cache import SlotCache
from corecode.generation.generator import Chat, Completion, Listener

Ended = Callable[[int, list[int]], None]
"""Told of a prompt (or walker) by its number, with the tokens sampled after it."""


def render(tokenizer: Any, chats: Sequence[Chat]) -> list[list[int]]:
    """Token ids of each chat with the tokenizer's chat template, ready for the answer."""
    if not chats:
        return []
    return tokenizer.apply_chat_template(
        [list(chat) for chat in chats], add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]


class TransformersGenerator:
    """A :class:`~corecode.generation.generator.Generator` over a loaded model.

    The model's weights are read at every call, so a policy under training can be sampled between its updates.
    """

    def __init__(self, model: Any, tokenizer: Any, batch: int) -> None:
        """``batch``: samples that are decoded together.

        Raises:
            UserError: for a model with attention windows or recurrent layers, whose cache this sampler does not know.
        """
        config = model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise UserError(
                f"in-process sampling knows full attention only, but the model has {', '.join(sorted(kinds))};"
                " sample it with vLLM (execution.sampler: vllm and execution.partner: vllm)"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.batch = batch
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        """Tokens of the longest sequence that the model was made for; None where it does not say."""
        self._layers: int = config.num_hidden_layers
        whole: Any = model.get_base_model() if hasattr(model, "get_base_model") else model  # of one with adapters
        # Newer versions of transformers call the argument "cache", and older ones ignore one of that name.
        self._cache = "cache" if "cache" in inspect.signature(whole.forward).parameters else "past_key_values"
        declared = model.generation_config.eos_token_id
        ends = {tokenizer.eos_token_id, *(declared if isinstance(declared, list) else [declared])}
        self._ends: frozenset[int] = frozenset(end for end in ends if end is not None)

    def render(self, chats: Sequence[Chat]) -> list[list[int]]:
        """See the function."""
        return render(self.tokenizer, chats)

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        """See :class:`~corecode.generation.generator.Generator`."""
        ended = None if listener is None else self.listening(listener)
        sampled = self.sample(self.render(chats), n, sampling, seed, ended)
        answers = [ids for group in sampled for ids in group]
        texts = self.tokenizer.batch_decode(answers, skip_special_tokens=True) if answers else []
        completions = [
            Completion(text, tuple(ids), len(ids), ids[-1] not in self._ends)
            for text, ids in zip(texts, answers, strict=True)
        ]
        return [completions[i : i + n] for i in range(0, len(completions), n)]

    def listening(self, listener: Listener) -> Ended:
        """What :meth:`sample` has to call for somebody who wants to hear completions."""

        def ended(prompt: int, tokens: list[int]) -> None:
            text = self.tokenizer.decode(tokens, skip_special_tokens=True)
            listener(prompt, Completion(text, tuple(tokens), len(tokens), tokens[-1] not in self._ends))

        return ended

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        ended: Ended | None = None,
    ) -> list[list[list[int]]]:
        """Sample ``n`` token lists after each prompt (token ids); at least one token each, the end token included.
        ``ended`` is called with each list that is complete, while others go on."""
        slots: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for index, prompt in enumerate(prompts):
            slots.setdefault(tuple(prompt), []).extend((index, i) for i in range(n))
        results: list[list[list[int]]] = [[[] for _ in range(n)] for _ in prompts]
        draw = torch.Generator(device=self.model.device).manual_seed(seed)
        was_training = self.model.training
        self.model.eval()
        try:
            for chunk in self._chunks(slots, greedy=sampling.temperature == 0):
                walkers = [place for prompt in chunk for place in slots[prompt]]
                roots = [row for row, prompt in enumerate(chunk) for _ in slots[prompt]]
                report = None if ended is None else partial(_report, walkers, ended)
                decoded = self._decode(chunk, roots, sampling, draw, report)
                for (index, i), tokens in zip(walkers, decoded, strict=True):
                    results[index][i] = tokens
        finally:
            self.model.train(was_training)
        return results

    def _chunks(self, slots: dict[tuple[int, ...], list[tuple[int, int]]], greedy: bool) -> list[list[tuple[int, ...]]]:
        """Prompts of similar length together, at most ``batch`` samples a chunk (a greedy prompt is one row)."""
        chunks: list[list[tuple[int, ...]]] = []
        room = 0
        for prompt in sorted(slots, key=len):
            weight = 1 if greedy else len(slots[prompt])
            if not chunks or room < weight:
                chunks.append([])
                room = self.batch
            chunks[-1].append(prompt)
            room -= weight
        return chunks

    @torch.no_grad()
    def _decode(
        self,
        prompts: list[tuple[int, ...]],
        roots: list[int],
        sampling: SamplingConfig,
        draw: torch.Generator,
        ended: Ended | None,
    ) -> list[list[int]]:
        """Sample one token list for every walker; ``roots[w]`` is the prompt that walker w starts from. ``ended`` is
        called with a walker and its tokens once these are complete."""
        device = self.model.device
        width = max(len(prompt) for prompt in prompts)
        greedy = sampling.temperature == 0
        capacity = len(prompts) if greedy else max(len(prompts), len(roots))
        cache = SlotCache(self._layers, capacity, width + sampling.max_tokens)
        ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=device)
        # Rows are padded on the left; a pad column stays hidden for good.
        pads = torch.tensor([width - len(p) for p in prompts], device=device)
        mask = (torch.arange(width + sampling.max_tokens, device=device) >= pads[:, None]).long()
        positions = (torch.arange(width, device=device) - pads[:, None]).clamp(min=0)

        tokens: list[list[int]] = [[] for _ in roots]
        walkers, rows = list(range(len(roots))), list(roots)
        for step in range(sampling.max_tokens):
            logits = self._forward(ids, positions, mask[:, : width + step], cache)
            drawn = _draw(logits, rows, sampling, draw)
            branches: dict[tuple[int, int], list[int]] = {}
            for walker, row, token in zip(walkers, rows, drawn, strict=True):
                tokens[walker].append(token)
                if token not in self._ends:
                    branches.setdefault((row, token), []).append(walker)
                elif ended is not None:
                    ended(walker, tokens[walker])
            if not branches or step + 1 == sampling.max_tokens:
                break
            slot_of, source, target = _place(list(branches))
            if source:
                moved, to = torch.tensor(source, device=device), torch.tensor(target, device=device)
                cache.copy_rows(moved, to)
                if mask.shape[0] < len(branches):
                    grown = len(branches) - mask.shape[0]
                    mask = torch.cat([mask, mask.new_zeros((grown, mask.shape[1]))])
                    pads = torch.cat([pads, pads.new_zeros(grown)])
                mask[to], pads[to] = mask[moved], pads[moved]
            mask, pads = mask[: len(branches)], pads[: len(branches)]
            column = [0] * len(branches)
            placed: list[tuple[int, int]] = []
            for branch, members in branches.items():
                slot = slot_of[branch]
                column[slot] = branch[1]
                placed += [(walker, slot) for walker in members]
            placed.sort()
            walkers, rows = [walker for walker, _ in placed], [slot for _, slot in placed]
            ids = torch.tensor(column, device=device)[:, None]
            positions = (width + step - pads)[:, None]
        return tokens

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: SlotCache
    ) -> torch.Tensor:
        """Logits [rows, vocabulary] of the last position, in float32."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache: cache},
        )
        return output.logits[:, -1].float()


def _report(walkers: list[tuple[int, int]], ended: Ended, walker: int, tokens: list[int]) -> None:
    ended(walkers[walker][0], tokens)


def _draw(logits: torch.Tensor, rows: list[int], sampling: SamplingConfig, draw: torch.Generator) -> list[int]:
    """One token for each walker from its row of ``logits`` [rows, vocabulary]; ``rows[w]`` is walker w's row."""
    row = torch.tensor(rows, device=logits.device)
    if sampling.temperature == 0:
        return logits.argmax(-1)[row].tolist()
    probabilities = torch.softmax(logits / sampling.temperature, dim=-1)
    if sampling.top_p < 1:
        ordered, index = probabilities.sort(dim=-1, descending=True)
        # A token stays when the mass before it is below top_p, so the most likely one always does.
        outside = ordered.cumsum(-1) - ordered >= sampling.top_p
        probabilities = torch.zeros_like(ordered).scatter_(-1, index, ordered.masked_fill(outside, 0))
    mass = probabilities.cumsum(-1)
    # Inverse transform: the first token whose cumulated mass exceeds a uniform share of the row's total.
    share = torch.rand(len(rows), generator=draw, device=logits.device) * mass[row, -1]
    index = torch.searchsorted(mass[row], share[:, None], right=True)[:, 0]
    # Rounding may lift the share to the total itself; the most likely token stands in then.
    return torch.where(index < logits.shape[-1], index, probabilities.argmax(-1)[row]).tolist()


def _place(branches: list[tuple[int, int]]) -> tuple[dict[tuple[int, int], int], list[int], list[int]]:
    """Give every branch (parent row, token) one of the slots 0..n-1, moving as few rows as possible.

    Returns the slot of each branch and the rows to copy, as ``source`` and ``target``. The first branch of a row stays
    in its slot; the others, and rows beyond n-1, fill the free slots. Sources are occupied and targets free, so the
    copies cannot disturb each other.
    """
    count = len(branches)
    slot_of: dict[tuple[int, int], int] = {}
    occupied: set[int] = set()
    waiting: list[tuple[int, int]] = []
    for branch in branches:
        if branch[0] < count and branch[0] not in occupied:
            occupied.add(branch[0])
            slot_of[branch] = branch[0]
        else:
            waiting.append(branch)
    free = [slot for slot in range(count) if slot not in occupied]
    for branch, slot in zip(waiting, free, strict=True):
        slot_of[branch] = slot
    return slot_of, [branch[0] for branch in waiting], free
