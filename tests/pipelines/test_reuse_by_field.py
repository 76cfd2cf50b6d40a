"""Every field of a profile by itself: which jobs it trains again. A new field fails here until it is in the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import fake_chain
import pytest
from pydantic import BaseModel

from corecode import fingerprint
from corecode.config import Profile
from corecode.fingerprint import content_key
from corecode.rewards import Outcome, Reward, helper_rewards, program_rewards
from corecode.stages import baseline_jobs, evaluation_jobs, grpo_job, sft_jobs
from pipelines.profiles import load_profile

SFT, PLANNER, CODER, TEAM, PROMPTED = "sft", "planner", "coder", "team", "prompted"
"""Jobs: the Planner's warm-up, both phases, and the evaluation of a trained team and of a prompt-only one."""
NAMES = {
    SFT: "sft_warmup/planner",
    PLANNER: "planner_grpo",
    CODER: "coder_grpo",
    TEAM: "evaluate final/team",
    PROMPTED: "evaluate final/reflexion",
}
NOTHING: frozenset[str] = frozenset()
ONLY = {job: frozenset({job}) for job in NAMES}
TRAINING, PHASES, ARMS = frozenset({SFT, PLANNER, CODER}), frozenset({PLANNER, CODER}), frozenset({TEAM, PROMPTED})
ALL, JUDGED = TRAINING | ARMS, PHASES | ARMS

SAMPLING = ("temperature", "top_p", "max_tokens")
PHASE = (
    *("steps", "prompts_per_step", "group_size", "learning_rate", "warmup_steps", "beta", "clip_low", "clip_high"),
    *("loss", "adam_beta2", "weight_decay", "max_grad_norm", "dynamic_sampling", "validate_every"),
    *(f"{whose}.{name}" for whose in ("sampling", "partner_sampling") for name in SAMPLING),
)
READ_BY: dict[str, frozenset[str]] = {
    **dict.fromkeys(("name", "description", "hardware", "expected_minutes"), NOTHING),
    **dict.fromkeys(("seed", "prompts", "model.dtype"), ALL),
    # The second round has seeds of its own, whatever it starts from.
    "rounds": PHASES,
    # What matters of problems and base models is their content, of which these say the place.
    **dict.fromkeys((f"dataset.{name}" for name in ("name", "path", "seed")), NOTHING),
    **dict.fromkeys((f"dataset.{split}" for split in ("sft", "rl", "validation", "test")), NOTHING),
    **dict.fromkeys(("model.path", "model.package"), NOTHING),
    **dict.fromkeys((f"model.scratch.{name}" for name in ("width", "layers", "heads", "vocabulary", "init_std")), ALL),
    **dict.fromkeys(("model.lora.rank", "model.lora.alpha"), TRAINING),
    # Without a warm-up the phases start from other weights.
    "sft.enabled": PHASES,
    **dict.fromkeys(
        (f"sft.{name}" for name in ("epochs", "batch_size", "learning_rate", "optimizer", "warmup_steps")), ONLY[SFT]
    ),
    **dict.fromkeys((f"sft.coder_without_{what}" for what in ("thought", "problem")), ONLY[SFT]),
    **dict.fromkeys((f"planner_grpo.{name}" for name in (*PHASE, "programs_per_sample")), ONLY[PLANNER]),
    **dict.fromkeys((f"coder_grpo.{name}" for name in PHASE), ONLY[CODER]),
    # Nobody speaks after the Coder.
    "coder_grpo.programs_per_sample": NOTHING,
    **dict.fromkeys((f"{section}.checkpoint_every" for section in ("sft", "planner_grpo", "coder_grpo")), NOTHING),
    # A job from which a sample was lost is never reused.
    **dict.fromkeys((f"{section}.max_infrastructure_loss" for section in ("planner_grpo", "coder_grpo")), NOTHING),
    **dict.fromkeys(("rewards.preset", "rewards.format_weight"), PHASES),
    **dict.fromkeys((f"rewards.{name}" for name in ("kappa", "kappa_time", "time_weight")), ONLY[PLANNER]),
    **dict.fromkeys((f"rewards.{name}" for name in ("space_weight", "memory_floor_mb")), ONLY[CODER]),
    **dict.fromkeys(("sandbox.backend", "sandbox.cost"), JUDGED),
    "sandbox.workers": NOTHING,
    **dict.fromkeys((f"evaluation.{name}" for name in ("protocol", "samples", "temperatures", "chunk")), ARMS),
    **dict.fromkeys((f"evaluation.max_{what}_tokens" for what in ("thought", "program")), ARMS),
    **dict.fromkeys((f"evaluation.prompted.{name}" for name in ("rounds", "plans")), ONLY[PROMPTED]),
    **dict.fromkeys(("evaluation.arms", "evaluation.bootstrap", "promotion.margin", "promotion.guards"), NOTHING),
    **dict.fromkeys(("execution.device", "execution.threads"), ALL),
    **dict.fromkeys(("execution.ranks", "execution.micro_batch"), TRAINING),
    **dict.fromkeys(("execution.sampler", "execution.sampler_gpus"), PHASES),
    **dict.fromkeys(("execution.generation_batch", "execution.partner"), JUDGED),
    # With the engine comes DeepSpeed's file, whose content counts (below).
    "execution.engine": TRAINING,
    **dict.fromkeys((f"execution.{name}" for name in ("zero_stage", "zero_offload")), NOTHING),
    **dict.fromkeys((f"execution.{name}" for name in ("parallel", "keep_checkpoints", "sampler_memory")), NOTHING),
    **dict.fromkeys((f"execution.server.{name}" for name in ("python", "gpus", "gpu_memory")), NOTHING),
}


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every field below a model that is no section itself, as a dotted name."""
    for name, field in model.model_fields.items():
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        sections = [kind for kind in kinds if issubclass(kind, BaseModel)]
        if sections:
            yield from fields(sections[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def changed(section: Any, name: str) -> Any:
    """A section with another value in one field. What it means is not asked: a job's key is made before it runs."""
    first, _, rest = name.partition(".")
    value = getattr(section, first)
    other: Any = f"other than {value}"
    if rest:
        other = changed(value, rest)
    elif isinstance(value, bool):
        other = not value
    elif isinstance(value, int | float):
        other = value + 1
    elif isinstance(value, list):
        other = [*value, *value]
    elif isinstance(value, dict):
        other = {}
    elif first == "engine":
        other = "deepspeed"
    return section.model_copy(update={first: other})


def keys(profile: Profile, run: Path) -> dict[str, str]:
    """The key of each job in :data:`NAMES` that the profile has."""
    rounds = range(1, profile.rounds + 1)
    phases = [grpo_job(profile, run, role, number) for number in rounds for role in (PLANNER, CODER)]
    jobs = [*sft_jobs(profile, run), *filter(None, phases), *evaluation_jobs(profile, run)]
    found = {job.name: content_key(job.spec) for job in jobs}
    assert None not in found.values()
    return {short: str(found[name]) for short, name in NAMES.items() if name in found}


ARMS_OF_BOTH = "evaluation.arms=[final/team, final/reflexion]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with problems and all weights, which no change of a field touches."""
    folder = tmp_path_factory.mktemp("run")
    fake_chain.make_problems(load_profile("smoke"), folder)
    for stage in ("sft_warmup", ".", "rounds/1"):
        for role in (PLANNER, CODER):
            model = folder / stage / (role if stage == "sft_warmup" else f"{role}_grpo") / "model"
            model.mkdir(parents=True)
            (model / "model.safetensors").write_text(f"{stage} {role}", encoding="utf-8")
    return folder


def again(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    return {job for job, key in after.items() if key != before[job]}


def test_the_table_names_every_field() -> None:
    assert set(READ_BY) == set(fields(Profile))


@pytest.mark.filterwarnings("ignore:Pydantic serializer")
@pytest.mark.parametrize("field", list(fields(Profile)))
def test_a_field_trains_again_what_reads_it_and_nothing_else(run: Path, field: str) -> None:
    profile = load_profile("smoke", [ARMS_OF_BOTH, "model.lora={rank: 8}"])
    assert again(keys(profile, run), keys(changed(profile, field), run)) == READ_BY[field]


def test_the_warm_ups_settings_reach_the_phases_as_weights_alone(run: Path) -> None:
    """Of the baselines' single models too: their phase starts from a warm-up of their own."""
    arms = "evaluation.arms=[single-direct/final]"
    folder = run / "baselines" / "single_direct_sft" / "model"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("warm", encoding="utf-8")
    specs = [
        baseline_jobs(load_profile("smoke", [arms, change]), run)[1][0].spec
        for change in ("sft.epochs=1", "sft.epochs=7", "rewards.time_weight=0.5", "rewards.space_weight=0.5")
    ]
    first, epochs, time, space = map(content_key, specs)
    assert first == epochs == time != space


@pytest.mark.parametrize("field", [name for name in READ_BY if name.startswith("rewards.")])
def test_the_table_is_true_of_the_rewards(field: str) -> None:
    """What the rewards themselves read, of outcomes in which every term counts."""
    outcomes = [Outcome(p, p == 1, 1.0 + number, 1.5 * number, p > 0) for number, p in enumerate((0.3, 1.0, 1.0))]
    formats = [True, False, True]
    profile = load_profile("smoke", ["rewards.format_weight=0.1"])
    paid: list[tuple[list[Reward], list[Reward]]] = []
    for rewards in (profile.rewards, changed(profile.rewards, field.removeprefix("rewards."))):
        helped = helper_rewards([outcomes, outcomes[:1], outcomes[1:2]], formats, rewards)
        paid.append((helped, program_rewards(outcomes, formats, rewards)))
    read_by = {job for job, before, after in zip((PLANNER, CODER), *paid, strict=True) if before != after}
    assert read_by == READ_BY[field]


def test_deepspeeds_file_counts_by_its_content(run: Path) -> None:
    whole, sharded, offloaded = (
        keys(load_profile("smoke", [ARMS_OF_BOTH, "execution.engine=deepspeed", *more]), run)
        for more in (["execution.zero_stage=2"], [], ["execution.zero_offload=true"])
    )
    assert again(whole, sharded) == again(sharded, offloaded) == TRAINING


def test_a_base_model_counts_by_its_content_and_not_by_its_place(run: Path, tmp_path: Path) -> None:
    for name, text in (("here", "a"), ("there", "a"), ("other", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(text, encoding="utf-8")
    here, there, other = (
        keys(load_profile("smoke", [ARMS_OF_BOTH, f"model={{path: {tmp_path / name}}}"]), run)
        for name in ("here", "there", "other")
    )
    assert again(here, there) == set()
    assert again(here, other) == {SFT}


def test_every_file_that_jobs_read_counts() -> None:
    """Prompts and the filter of system calls beside the code."""
    counted = set(fingerprint.job_sources())
    for room in ("corecode", "sandbox"):
        for path in (fingerprint.ROOT / room).rglob("*"):
            name = path.relative_to(fingerprint.ROOT).as_posix()
            if path.is_file() and "__pycache__" not in path.parts and not name.startswith(fingerprint.NOT_IN_JOBS):
                assert path in counted, f"{name} is in no key"
