"""GRPO of a role on TRL's trainer: it follows the reward, touches only its role, repeats, and survives lost samples."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import SCRATCH, LocalSandbox, Marks, Verbatim, problem, tiny_model, tiny_tokenizer

from corecode.config import ExecutionConfig, GRPOConfig, LoraConfig, ModelConfig, RewardConfig, SamplingConfig
from corecode.errors import UserError
from corecode.execution import Executor
from corecode.generation.transformers import TransformersGenerator
from corecode.models import add_adapters, load_model, save_model
from corecode.problems import Problem
from corecode.roles.roles import role
from corecode.teams import Team
from corecode.training.arguments import trainer_arguments
from corecode.training.checkpoints import Checkpoints
from corecode.training.grpo import RoleTrainer, train
from corecode.training.records import Journal
from corecode.training.scene import Scene
from sandbox import Judgement, Program, TestResult, Verdict

PROBLEMS = [problem(i, str(i % 3)) for i in range(6)]
PLANNER = role("planner", "compact")


CODER = Verbatim("coder", "compact")
SAMPLING = SamplingConfig(temperature=1.0, max_tokens=6)
SHORT = GRPOConfig(
    steps=2,
    prompts_per_step=2,
    group_size=4,
    learning_rate=1e-2,
    weight_decay=0.0,
    beta=0.0,
    sampling=SAMPLING,
    partner_sampling=SAMPLING,
    validate_every=1,
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    texts = [CODER.messages(p, p.references[0].thought)[0]["content"] + p.references[0].program for p in PROBLEMS]
    return tiny_tokenizer(texts)


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def run(
    tokenizer: Any,
    folder: Path,
    config: GRPOConfig = SHORT,
    trained: str = "coder",
    team: Team | None = None,
    sandbox: LocalSandbox | None = None,
    reward: RewardConfig | None = None,
    problems: Sequence[Problem] = PROBLEMS,
) -> tuple[Any, dict[str, Any], RoleTrainer]:
    team = team or Team((PLANNER, CODER))
    policy = tiny_model(tokenizer, 1)
    frozen = {r.name: tiny_model(tokenizer, 2) for r in team.roles if r.name != trained}
    partners = {name: TransformersGenerator(model, tokenizer, 64) for name, model in frozen.items()}
    reward = reward or RewardConfig(preset="accuracy", format_weight=0.2)
    scene = Scene(team, trained, partners, config, reward, Executor(sandbox or LocalSandbox()), "steps", seed=5)
    journal, checkpoints = Journal(folder), Checkpoints(folder, "", 2)
    trainer = train(
        scene, policy, tokenizer, problems, problems[:2], partners, ExecutionConfig(), journal, checkpoints, seed=5
    )
    return policy, frozen, trainer


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_seconds(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines(folder)]


def test_the_policy_moves_towards_the_reward(tokenizer: Any, tmp_path: Path) -> None:
    config = SHORT.model_copy(
        update={"steps": 25, "group_size": 8, "validate_every": 0, "learning_rate": 2e-2, "sampling": SAMPLING}
    )
    before = weights(tiny_model(tokenizer, 1))
    reward = RewardConfig(preset="accuracy")
    policy, _, _ = run(tokenizer, tmp_path, config, team=Team((CODER,)), sandbox=Marks(), reward=reward)
    rewards = [line["metrics"]["reward/mean"] for line in lines(tmp_path)]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2
    assert not equal(before, weights(policy))


@pytest.mark.parametrize("trained", ["planner", "coder"])
def test_only_the_trained_role_changes(tokenizer: Any, tmp_path: Path, trained: str) -> None:
    before = weights(tiny_model(tokenizer, 1))
    frozen_before = weights(tiny_model(tokenizer, 2))
    config = SHORT.model_copy(update={"weight_decay": 0.1})
    policy, frozen, _ = run(tokenizer, tmp_path, config, trained, sandbox=Marks())
    assert all(equal(weights(model), frozen_before) for model in frozen.values())
    assert not equal(before, weights(policy))
    steps = [line["step"] for line in lines(tmp_path)]
    assert steps == [0, 1, 1, 2, 2], "validation at 0, 1, 2 and metrics at 1, 2"
    first, last = lines(tmp_path)[0]["metrics"], lines(tmp_path)[-1]["metrics"]
    for point in (first, last):
        assert {"validation/pass@1/team", "validation/pass@1/alone", "validation/thought_valid"} <= set(point)
    step = lines(tmp_path)[1]
    assert {"policy/loss", "policy/entropy", "policy/clip_low", "policy/grad_norm", "policy/learning_rate"} <= set(
        step["metrics"]
    )
    seconds = step["seconds"]
    spent = {"sampling", "partner", "sandbox", "update", "other"}
    assert set(seconds) == {*spent, "step", "model_share", "tokens_per_second"}
    assert sum(seconds[name] for name in spent) == pytest.approx(seconds["step"], abs=1e-3)
    assert all(seconds[name] >= 0 for name in seconds)
    sample = json.loads((tmp_path / "samples.jsonl").read_text().splitlines()[0])
    assert {"thought", "program", "reward", "terms", "verdict"} <= set(sample)


def test_a_seed_gives_the_same_bytes(tokenizer: Any, tmp_path: Path) -> None:
    once, _, _ = run(tokenizer, tmp_path / "a", trained="planner", sandbox=Marks())
    again, _, _ = run(tokenizer, tmp_path / "b", trained="planner", sandbox=Marks())
    assert without_seconds(tmp_path / "a") == without_seconds(tmp_path / "b")
    assert (tmp_path / "a" / "samples.jsonl").read_bytes() == (tmp_path / "b" / "samples.jsonl").read_bytes()
    assert equal(weights(once), weights(again))


def test_looking_ahead_changes_nothing_and_wastes_nothing(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three steps a pass: the Planner speaks once for each step, early but for the first one of a pass."""
    config = SHORT.model_copy(update={"steps": 5, "validate_every": 0})
    spoken: list[tuple[int, int]] = []
    speak, report = Scene._speak, Scene.report
    reported: list[int] = []

    def recorded(scene: Scene, problems: Sequence[Problem], step: int) -> Any:
        spoken.append((step, len(reported)))
        return speak(scene, problems, step)

    monkeypatch.setattr(Scene, "_speak", recorded)
    monkeypatch.setattr(Scene, "report", lambda scene, rated, step: reported.append(step) or report(scene, rated, step))
    policy, _, _ = run(tokenizer, tmp_path / "ahead", config, sandbox=Marks())
    assert spoken == [(0, 0), (1, 0), (2, 1), (3, 3), (4, 3)]
    monkeypatch.setattr(Scene, "expect", lambda scene, problems, step: None)
    spoken.clear()
    reported.clear()
    plain, _, _ = run(tokenizer, tmp_path / "plain", config, sandbox=Marks())
    assert spoken == [(step, step) for step in range(5)]
    assert without_seconds(tmp_path / "ahead") == without_seconds(tmp_path / "plain")
    assert equal(weights(policy), weights(plain))


class Flaky(Marks):
    """Fails on every program of some problems; ``share`` of 1 fails on all."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.count = 0

    def judge(self, programs: Any) -> Any:
        judged = super().judge(programs)
        lost = round(len(judged) * self.share)
        error = Judgement(Verdict.SANDBOX_ERROR, judged[0].tests, 0, 2, 0.0, 0.0, 0.0, None, "gone")
        return [error] * lost + judged[lost:]


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("loss", ["dapo", "grpo", "bnpo", "dr_grpo"])
def test_lost_samples_leave_no_nan(tokenizer: Any, tmp_path: Path, share: float, loss: str) -> None:
    config = SHORT.model_copy(update={"max_infrastructure_loss": 1.0, "validate_every": 0, "loss": loss})
    policy, _, _ = run(tokenizer, tmp_path, config, team=Team((CODER,)), sandbox=Flaky(share))
    assert all(bool(torch.isfinite(value).all()) for value in weights(policy).values())
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text
    for line in lines(tmp_path):
        assert line["metrics"]["infrastructure/lost"] > 0
        assert line["metrics"]["group/uninformative"] == 1.0 or share < 1
        assert all(math.isfinite(value) for value in line["metrics"].values())
        assert ("reward/mean" in line["metrics"]) == (share < 1)
    if share == 1.0:
        assert equal(weights(policy), weights(tiny_model(tokenizer, 1))), "no verdict moves no weight"


def test_advantages_come_from_the_scored_members_alone(tokenizer: Any, tmp_path: Path) -> None:
    """Rewards [1, None, 0, None]: the two scored ones stand against each other; the others' tokens count nowhere."""
    _, _, trainer = run(tokenizer, tmp_path, SHORT.model_copy(update={"steps": 1}), team=Team((CODER,)))
    batch = {
        "completion_mask": torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]]),
        "advantages": torch.zeros(4),
        "num_items_in_batch": torch.tensor(9),
    }
    trainer.unscored = [False, True, False, True]
    masked = trainer._mask_unscored(batch)  # pyright: ignore[reportPrivateUsage]
    assert masked["completion_mask"].tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]]
    assert int(masked["num_items_in_batch"]) == 4


class Wordy(Marks):
    """Passes a program with a digit, which an untrained model writes now and then: many groups are flat."""

    def _judge(self, program: Program) -> Judgement:
        passed = 2 * any(letter.isdigit() for letter in program.source or "")
        name = Verdict.ACCEPTED if passed else Verdict.WRONG_ANSWER
        return Judgement(name, (TestResult(name),) * 2, passed, 2, 0.0, 0.0, 0.0, 1)


@pytest.mark.parametrize("trained", ["planner", "coder"])
def test_flat_groups_are_sampled_again_a_few_times(tokenizer: Any, tmp_path: Path, trained: str) -> None:
    reward = RewardConfig(preset="accuracy")
    short = SHORT.model_copy(update={"steps": 4, "prompts_per_step": 4, "group_size": 2, "validate_every": 0})
    uninformative: list[float] = []
    for again in (0, 3):
        config = short.model_copy(update={"dynamic_sampling": again})
        folder = tmp_path / str(again)
        run(tokenizer, folder, config, trained, sandbox=Wordy(), reward=reward)
        metrics = [line["metrics"] for line in lines(folder)]
        uninformative.append(sum(line["group/uninformative"] for line in metrics))
        assert all(("group/resampled" in line) == bool(again) for line in metrics)
        if again:
            assert any(line["group/resampled"] > line["group/uninformative"] for line in metrics)
            assert all(line["group/resampled"] >= line["group/uninformative"] for line in metrics)
    assert uninformative[1] < uninformative[0]
    run(tokenizer, tmp_path / "repeat", config, trained, sandbox=Wordy(), reward=reward)
    assert without_seconds(tmp_path / "repeat") == without_seconds(tmp_path / "3")


def test_dynamic_sampling_leaves_a_batch_without_flat_groups_alone(tokenizer: Any, tmp_path: Path) -> None:
    class Counting(LocalSandbox):
        """Judges no two programs alike."""

        def _judge(self, program: Program) -> Judgement:
            self.sources.append(program.source)
            tests = (TestResult(Verdict.ACCEPTED),) * len(self.sources) + (TestResult(Verdict.WRONG_ANSWER),)
            return Judgement(Verdict.WRONG_ANSWER, tests, len(self.sources), 10_000, 0.0, 0.0, 0.0, 1)

    results: list[Any] = []
    for again in (0, 2):
        config = SHORT.model_copy(update={"dynamic_sampling": again, "validate_every": 0})
        reward = RewardConfig(preset="accuracy")
        policy, _, _ = run(
            tokenizer, tmp_path / str(again), config, team=Team((CODER,)), sandbox=Counting(), reward=reward
        )
        results.append(weights(policy))
    kept = [{k: v for k, v in line["metrics"].items() if k != "group/resampled"} for line in lines(tmp_path / "2")]
    assert kept == [line["metrics"] for line in lines(tmp_path / "0")]
    assert equal(*results)


def test_packed_scores_equal_a_plain_forward(tokenizer: Any, tmp_path: Path) -> None:
    """Left-padded prompts and right-padded answers, scored row by row without padding: the same log-probabilities. A
    row of length zero, as a masked one has, scores zero."""
    _, _, trainer = run(tokenizer, tmp_path, SHORT.model_copy(update={"steps": 1}), team=Team((CODER,)))
    model, pad = trainer.model, tokenizer.pad_token_id
    rows = [([7, 8, 9], [10, 11]), ([12], [13, 14, 15]), ([16, 17], [])]
    width, length = 3, 3
    ids = torch.tensor([[pad] * (width - len(p)) + p + a + [pad] * (length - len(a)) for p, a in rows])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * (len(p) + len(a)) + [0] * (length - len(a)) for p, a in rows])
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(  # pyright: ignore[reportPrivateUsage]
        model, ids, mask, length, compute_entropy=True
    )
    assert entropies is not None
    for row, (prompt, answer) in enumerate(rows):
        whole = torch.log_softmax(model(torch.tensor([prompt + answer])).logits[0], -1)
        for place in range(length):
            expected = 0.0
            if place < len(answer):
                before = whole[len(prompt) + place - 1]
                expected = float(before[answer[place]].detach())
                assert float(entropies[row, place]) == pytest.approx(float(-(before.exp() * before).sum()), rel=1e-4)
            assert float(logps[row, place]) == pytest.approx(expected, abs=1e-4)


def test_a_scoring_pass_is_no_larger_than_asked(tokenizer: Any, tmp_path: Path) -> None:
    """A GPU scores a whole step for the reference and for vLLM's ratio: in passes of the micro-batch, or it is full."""
    _, _, trainer = run(tokenizer, tmp_path, SHORT.model_copy(update={"steps": 1}), team=Team((CODER,)))
    trainer.rows_per_pass = None  # as on a GPU
    ids, mask = torch.arange(7, 7 + 5 * 4).view(5, 4), torch.ones(5, 4, dtype=torch.long)
    sizes: list[int] = []

    def score(size: int | None) -> torch.Tensor:
        sizes.clear()
        return trainer._get_per_token_logps_and_entropies(  # pyright: ignore[reportPrivateUsage]
            trainer.model, ids, mask, 2, batch_size=size
        )[0]

    watch = trainer.model.register_forward_pre_hook(
        lambda _model, _args, given: sizes.append(len(given["input_ids"])), with_kwargs=True
    )
    whole = score(None)
    assert sizes == [5]
    assert torch.allclose(score(2), whole, atol=1e-5)
    assert sizes == [2, 2, 1]
    watch.remove()


@pytest.mark.parametrize(("kept", "normaliser"), [([True, True, False, False], 13), ([False] * 4, 0)])
def test_cut_samples_leave_numerator_and_normaliser(
    tokenizer: Any, tmp_path: Path, kept: list[bool], normaliser: int
) -> None:
    """A group with lengths [5, 8, 8, 8] of which some are masked: the loss is over the kept tokens only."""
    _, _, trainer = run(tokenizer, tmp_path, SHORT.model_copy(update={"steps": 1}), team=Team((CODER,)))
    lengths = torch.tensor([5, 8, 8, 8])
    trainer.unscored = [not keep for keep in kept]
    batch = trainer._mask_unscored(  # pyright: ignore[reportPrivateUsage]
        {
            "prompt_ids": torch.full((4, 2), 9),
            "prompt_mask": torch.ones(4, 2, dtype=torch.long),
            "completion_ids": torch.full((4, 8), 11),
            "completion_mask": (torch.arange(8) < lengths[:, None]).long(),
            "advantages": torch.full((4,), -1.0),
            "num_items_in_batch": torch.tensor(29),
        }
    )
    assert int(batch["num_items_in_batch"]) == normaliser
    model: Any = trainer.model
    model.train()
    loss = trainer.compute_loss(model, batch)
    loss.backward()
    # The ratio is 1 at the first pass, so each kept token contributes the negated advantage.
    assert float(loss.detach()) == pytest.approx(1.0 if normaliser else 0.0)
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters() if p.grad is not None)


def test_too_few_problems_for_a_step(tokenizer: Any, tmp_path: Path) -> None:
    flagged = [p.model_copy(update={"flags": ["several_answers"]}) for p in PROBLEMS[:5]] + PROBLEMS[5:]
    with pytest.raises(UserError, match="prompts_per_step 2"):
        run(tokenizer, tmp_path, problems=flagged)


def test_groups_stay_on_one_rank(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not divide among 3 ranks"):
        trainer_arguments(SHORT, ExecutionConfig(engine="deepspeed", ranks=3), tmp_path, 0)


def test_a_small_micro_batch_accumulates_to_the_same_step(tokenizer: Any, tmp_path: Path) -> None:
    execution = ExecutionConfig(micro_batch=3)
    arguments = trainer_arguments(SHORT, execution, tmp_path, 0)
    assert (arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps) == (2, 4)


def test_the_sampler_gets_its_gpus_and_its_share(tmp_path: Path) -> None:
    execution = ExecutionConfig(
        engine="deepspeed", ranks=2, device="cuda", sampler="vllm", sampler_gpus=2, sampler_memory=0.2
    )
    arguments = trainer_arguments(SHORT, execution, tmp_path, 0)
    assert (arguments.vllm_tensor_parallel_size, arguments.vllm_gpu_memory_utilization) == (2, 0.2)
    with pytest.raises(ValueError, match="sampler_gpus 2 has to divide ranks 3"):
        ExecutionConfig(engine="deepspeed", ranks=3, device="cuda", sampler="vllm", sampler_gpus=2)


@pytest.mark.parametrize("lora", [False, True])
def test_the_policy_is_held_to_the_reference(tokenizer: Any, tmp_path: Path, lora: bool) -> None:
    """With beta above 0 the KL divergence from the start is logged; adapters train alone."""
    save_model(tiny_model(tokenizer, 1), tokenizer, tmp_path / "start")
    start = load_model(ModelConfig(scratch=SCRATCH), tmp_path / "start")
    before = weights(start)
    policy = add_adapters(start, LoraConfig(rank=2), seed=0) if lora else start
    config = SHORT.model_copy(update={"beta": 0.05, "steps": 3, "validate_every": 0})
    reward = RewardConfig(preset="accuracy")
    scene = Scene(Team((CODER,)), "coder", {}, config, reward, Executor(Marks()), "steps", seed=5)
    journal, checkpoints = Journal(tmp_path), Checkpoints(tmp_path, "", 2)
    train(scene, policy, tokenizer, PROBLEMS, [], {}, ExecutionConfig(), journal, checkpoints, seed=5)
    divergence = [line["metrics"]["policy/kl"] for line in lines(tmp_path)]
    assert divergence[0] == pytest.approx(0, abs=1e-6)
    assert divergence[-1] > 0
    if lora:
        save_model(policy, tokenizer, tmp_path / "end")
        merged = load_model(ModelConfig(scratch=SCRATCH), tmp_path / "end").state_dict()
        changed = {name.split(".")[-2] for name in before if not torch.equal(before[name], merged[name])}
        assert "embed_tokens" not in changed
        assert "q_proj" in changed
