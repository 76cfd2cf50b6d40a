"""One GRPO for every role of a team, on TRL's trainer.

``train`` is called once for *Planner GRPO* and once for *Coder GRPO*; only the role's name differs. The trainer's own
parts (advantages, clipped ratio, KL, optimizer, ranks) are TRL's. Three hooks are ours: prompts are completed by the
frozen roles when a batch is about to be sampled, sampling goes through the project's generator, and a sample without a
verdict is masked out of the loss as TRL masks it out of the advantages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as Yields
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.optim.lr_scheduler import LambdaLR
from transformers import PrinterCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from corecode.config import ExecutionConfig, SamplingConfig
from corecode.errors import UserError
from corecode.generation.generator import Chat, Completion, Generator, Listener, derive_seed
from corecode.generation.transformers import TransformersGenerator, render
from corecode.problems import Problem
from corecode.teams import Rollout
from corecode.training import colocated
from corecode.training.arguments import trainer_arguments
from corecode.training.checkpoints import Checkpoints
from corecode.training.divergence import Watch
from corecode.training.optimizers import linear
from corecode.training.order import Order
from corecode.training.ranks import gathered
from corecode.training.recording import Recorder
from corecode.training.records import Journal
from corecode.training.resuming import Resuming
from corecode.training.scene import Rated, Scene
from corecode.training.validation import Validator

SampleRows = Callable[[list[int], int], tuple[list[list[int]], list[list[float]] | None]]
"""Samples some rows of the batch for the n-th time; returns their tokens and, from vLLM, the log-probabilities."""

CPU_ROWS = 16
"""Rows of one forward pass on a CPU."""


class RoleTrainer(Resuming, GRPOTrainer):
    """TRL's trainer around a :class:`Scene`."""

    def __init__(self, scene: Scene, problems: Sequence[Problem], generation_batch: int, **kwargs: Any) -> None:
        self.scene = scene
        self.problems = list(problems)
        self.generation_batch = generation_batch
        self.starts: list[Rollout] = []
        """The rollout that each sample of the current batch continues."""
        self.unscored: list[bool] = []
        """Whether each sample of the current batch got no reward."""
        self.informative: list[bool] = []
        """Whether each sample of the current batch belongs to a group with different rewards."""
        self.shown: list[dict[str, Any]] = []
        """Samples of the latest batch."""
        self._rated: list[Rated] = []
        """With dynamic sampling, the samples of the current batch."""
        self._resampled = 0.0
        """Share of the current batch's samples whose group was sampled again."""
        self.warmup = int(kwargs["args"].warmup_steps)
        self._preparing = 0.0
        """Seconds so far in which batches were made: sampled, finished, judged and rated."""
        self._computed = 0.0
        """When the latest backward pass ended."""
        prompts = [Rollout(problem).prompt(scene.role) for problem in self.problems]
        dataset = Dataset.from_dict({"prompt": prompts, "index": list(range(len(prompts)))})
        super().__init__(train_dataset=dataset, reward_funcs=[self.reward], **kwargs)
        # Losses that divide by the tokens of the whole batch do not see a row without advantage.
        # On several ranks every batch needs as many rows as the others: TRL gathers figures of each row.
        whole_step = self.args.gradient_accumulation_steps == self.accelerator.num_processes == 1
        apart = scene.config.loss in ("dapo", "cispo") and not self.use_vllm  # vLLM's log-probabilities come by row too
        self.skips_flat_groups = whole_step and self.beta == 0 and apart
        self.looks_ahead = whole_step
        # Small models on a CPU run fastest in passes that fit the cache; ranks must all do the same passes.
        self.rows_per_pass = CPU_ROWS if self.args.use_cpu and not self.is_deepspeed_enabled else None

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        """Linear warm-up, then a line down to a tenth of the peak."""
        chosen: Any = optimizer or self.optimizer
        scheduler = LambdaLR(chosen, lambda step: linear(step, num_training_steps, self.warmup))
        self.lr_scheduler = scheduler
        return scheduler

    def own_state(self) -> dict[str, Any]:
        return {"scene": self.scene.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self.scene.restore(state["scene"])
        self._step = self.state.global_step * self.args.gradient_accumulation_steps
        for _finished_pass in range(int(self.state.epoch or 0)):
            iter(self._order)  # draws the pass' order

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._order = Order(super()._get_train_sampler(dataset))
        return self._order

    def policy(self) -> PolicyGenerator:
        """Samples the policy as it is at the time of the call."""
        return PolicyGenerator(self)

    @contextmanager
    def sampler(self) -> Yields[TransformersGenerator]:
        """The policy's weights on this rank, gathered where they are sharded."""
        with gathered(self) as model:
            yield TransformersGenerator(model, self.processing_class, self.generation_batch)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        start, before = time.perf_counter(), self._preparing
        loss = super().training_step(model, inputs, num_items_in_batch)
        self._computed = time.perf_counter()
        self.scene.add_seconds("update", self._computed - start - (self._preparing - before))
        return loss

    def count_update(self) -> None:
        """Count the time since the backward pass, in which gradients were clipped and the optimizer stepped."""
        self.scene.add_seconds("update", time.perf_counter() - self._computed)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        start = time.perf_counter()
        prepared = super()._prepare_inputs(generation_batch)
        self._preparing += time.perf_counter() - start
        return prepared

    def _save_checkpoint(self, model: Any, trial: Any = None) -> None:
        with self.scene.timed("checkpoint"):
            super()._save_checkpoint(model, trial)

    def _step_seed(self, *parts: object) -> int:
        return derive_seed(self.args.seed, self.accelerator.process_index, *parts)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        size = self.scene.config.group_size
        groups = [self.problems[example["index"]] for example in inputs[::size]]
        opened = self.scene.open(groups, self._step)
        if self.looks_ahead and self._step + 1 < self.scene.config.steps:
            coming = self._order.batch(self._step + 1, len(inputs))
            self.scene.expect([self.problems[index] for index in coming[::size]], self._step + 1)
        self.starts = [start for start in opened for _ in range(size)]
        prompted = [
            {**example, "prompt": start.prompt(self.scene.role)}
            for example, start in zip(inputs, self.starts, strict=True)
        ]
        batch = self._mask_unscored(super()._generate_and_score_completions(prompted))
        return self._informative(batch) if self.skips_flat_groups else batch

    def _mask_unscored(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Take samples without a reward out of the loss and of its normaliser (TRL only zeroes their advantage)."""
        mask: torch.Tensor = batch["completion_mask"]
        mask = mask * ~torch.tensor(self.unscored, device=mask.device)[:, None]
        kept: Any = self.accelerator.gather(mask.sum())
        return {**batch, "completion_mask": mask, "num_items_in_batch": kept.sum()}

    def _informative(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The rows of groups with different rewards; the others have no advantage and would add nothing to the
        gradient. The normaliser still counts their tokens. One row stays at least, so that a step has a loss."""
        kept = [row for row, informative in enumerate(self.informative) if informative]
        rows = torch.tensor(kept or [0], device=batch["advantages"].device)
        by_row = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
        return {**batch, **{name: batch[name][rows] for name in by_row}}

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **_images: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """Log-probabilities and entropies [rows, logits_to_keep] of the completions' tokens.

        TRL pads prompts on the left and completions on the right. Here rows of similar length are moved to the left
        edge and run together, which needs no attention mask and fewer positions, and gives each token the position it
        was sampled at. ``batch_size`` limits a pass: for the reference and for vLLM's ratio TRL scores the rows of a
        whole step in one call, and on a GPU they would not fit.
        """
        logps = input_ids.new_zeros((len(input_ids), logits_to_keep), dtype=torch.float32)
        entropies = torch.zeros_like(logps)
        lengths = attention_mask.sum(1)
        order = lengths.argsort(stable=True)
        for rows in order.split(self.rows_per_pass or batch_size or len(order)):
            part, entropy = self._packed(model, input_ids[rows], attention_mask[rows], logits_to_keep)
            logps = logps.index_copy(0, rows, part)
            if entropy is not None:  # the reference model's head gives none
                entropies = entropies.index_copy(0, rows, entropy)
        return logps, entropies if compute_entropy else None, None

    def _packed(
        self, model: Any, ids_BT: torch.Tensor, mask_BT: torch.Tensor, completion: int
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        kept = mask_BT.sort(dim=1, descending=True, stable=True).indices[:, : int(mask_BT.sum(1).max())]
        packed_BL = ids_BT.gather(1, kept)
        prompt_B, answer_B = mask_BT[:, :-completion].sum(1), mask_BT[:, -completion:].sum(1)
        place_L = torch.arange(packed_BL.shape[1], device=packed_BL.device)
        answered_BL = (place_L >= prompt_B[:, None]) & (place_L < (prompt_B + answer_B)[:, None])
        with self.accelerator.autocast():
            output = model(input_ids=packed_BL, labels=packed_BL.masked_fill(~answered_BL, -100), fused_lm_head=True)
        # The score of the token at place l stands at l - 1.
        place_C = torch.arange(completion, device=packed_BL.device)
        source_BC = (prompt_B[:, None] + place_C - 1).clamp(max=packed_BL.shape[1] - 2)
        inside_BC = place_C < answer_B[:, None]
        entropy = output.entropy.gather(1, source_BC) * inside_BC if output.entropy is not None else None
        return output.log_probs.gather(1, source_BC) * inside_BC, entropy

    def _generate_single_turn(
        self,
        prompt_ids: list[list[int]],
        images: Any,
        multimodal_fields: Any,
        num_generations: int,
        has_tool_images: bool = False,
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        def sample(rows: list[int], attempt: int) -> tuple[list[list[int]], list[list[float]] | None]:
            prompts = [prompt_ids[row] for row in rows]
            with self.scene.timed("sampling"):
                if self.use_vllm:
                    vllm, whole = super(RoleTrainer, self)._generate_single_turn, colocated.filled(prompts)
                    ids, logps = vllm(whole, images, multimodal_fields, num_generations, has_tool_images)
                    return ids[: len(rows)], logps and logps[: len(rows)]
                return self._sample(prompts, [self.starts[row] for row in rows], attempt), None

        ids, logps = sample(list(range(len(prompt_ids))), 0)
        if self.scene.config.dynamic_sampling:
            self._rated = self._sample_flat_groups_again(ids, logps, sample)
        return ids, logps

    def _sample(self, prompts: list[list[int]], starts: Sequence[Rollout], attempt: int) -> list[list[int]]:
        """One answer to each prompt from the policy in this process; programs begin to run meanwhile."""
        seed = self._step_seed("sample", self._step, *([attempt] if attempt else []))
        with self.sampler() as generator:
            listener = generator.listening(lambda index, answer: self.scene.hear(starts[index], answer))
            groups = generator.sample(prompts, 1, self.scene.config.sampling, seed, listener)
        return [group[0] for group in groups]

    def _sample_flat_groups_again(
        self, ids: list[list[int]], logps: list[list[float]] | None, sample: SampleRows
    ) -> list[Rated]:
        """Replace, in ``ids`` and ``logps``, the samples of groups whose rewards are all alike, a few times at most."""
        scene, size = self.scene, self.scene.config.group_size
        rated = scene.rate(self.starts, self.read(ids), self._step)
        again: set[int] = set()
        for attempt in range(1, scene.config.dynamic_sampling + 1):
            flat = scene.flat_groups(rated)
            if not any(gather_object([bool(flat)])):
                break
            again |= set(flat)
            # All ranks sample together; one without a flat group does so for nothing.
            rows = [group * size + member for group in flat or [0] for member in range(size)]
            fresh, fresh_logps = sample(rows, attempt)
            if not flat:
                continue
            starts = [self.starts[row] for row in rows]
            for place, one in enumerate(scene.rate(starts, self.read(fresh), self._step, attempt)):
                rated[rows[place]], ids[rows[place]] = one, fresh[place]
                if logps is not None and fresh_logps is not None:
                    logps[rows[place]] = fresh_logps[place]
        self._resampled = len(again) * size / len(ids)
        return rated

    def read(self, ids: list[list[int]]) -> list[Completion]:
        """Sampled tokens as answers."""
        tokenizer: Any = self.processing_class
        texts: list[str] = tokenizer.batch_decode(ids, skip_special_tokens=True) if ids else []
        return [
            Completion(text, tuple(tokens), len(tokens), tokens[-1] not in self.eos_token_ids)
            for text, tokens in zip(texts, ids, strict=True)
        ]

    def reward(
        self,
        completion_ids: list[list[int]],
        log_metric: Any,
        **_columns: Any,
    ) -> list[float | None]:
        """TRL's reward function: one reward for each sample, None without a verdict."""
        if self.scene.config.dynamic_sampling:  # then they were rated to see which groups to sample again
            scores = self.scene.report(self._rated, self._step)
            scores.metrics["group/resampled"] = self._resampled
        else:
            # Not TRL's completions: of a model that says how its answers are built, those lack its reasoning.
            scores = self.scene.score(self.starts, self.read(completion_ids), self._step)
        for name, value in scores.metrics.items():
            log_metric(name, value)
        self.unscored = [reward is None for reward in scores.rewards]
        self.informative = scores.informative
        self.shown = scores.samples
        return scores.rewards


class PolicyGenerator:
    """A generator over the policy under training. vLLM draws without regard to the seed of a call."""

    def __init__(self, trainer: RoleTrainer) -> None:
        self._trainer = trainer

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        trainer = self._trainer
        if trainer.use_vllm:
            prompts = [prompt for prompt in render(trainer.processing_class, chats) for _ in range(n)]
            answers = trainer.read(colocated.answers(trainer, prompts, sampling))
            return [answers[i : i + n] for i in range(0, len(answers), n)]
        with trainer.sampler() as generator:
            return generator.generate(chats, n, sampling, seed, listener)


def train(
    scene: Scene,
    policy: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    validation: Sequence[Problem],
    partners: Mapping[str, Generator],
    execution: ExecutionConfig,
    journal: Journal,
    checkpoints: Checkpoints,
    seed: int,
    deepspeed: str | None = None,
) -> RoleTrainer:
    """Train the scene's role and return the trainer, whose model is the trained policy.

    Args:
        policy: the model to train, in place.
        partners: generators of the frozen roles, by name.
        validation: problems of the validation curves; none are drawn when empty or ``validate_every`` is 0.
        checkpoints: where it continues from, and writes to.

    Raises:
        InfrastructureError: when too many samples have no verdict, or the disk is full.
        UserError: for fewer problems than a step needs; when the training diverges.
    """
    config = scene.config
    usable = [problem for problem in problems if not problem.flags]
    if len(usable) < config.prompts_per_step:
        raise UserError(
            f"{len(usable)} problems are left for rewards, but a step takes prompts_per_step {config.prompts_per_step}"
        )
    trainer = RoleTrainer(
        scene,
        usable,
        execution.generation_batch,
        model=policy,
        processing_class=tokenizer,
        args=trainer_arguments(config, execution, checkpoints.folder, seed, deepspeed, policy.dtype == torch.bfloat16),
    )
    if trainer.use_vllm:
        colocated.seed_sampler(trainer, seed)
    rank, ranks = trainer.accelerator.process_index, trainer.accelerator.num_processes
    validator = None
    if validation and config.validate_every:
        generators = {**partners, scene.role.name: trainer.policy()}
        validator = Validator(
            scene.team, scene.role.name, generators, config, validation[rank::ranks], scene.executor.sandbox
        )
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(Watch())
    trainer.add_callback(Recorder(trainer, journal, validator))
    trainer.attach(checkpoints, journal, config.checkpoint_every)
    trainer.fit()
    return trainer
