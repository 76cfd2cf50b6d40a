"""What each stage of a run has to do, as data: problems to write, jobs to run. No orchestration in here.

problems -> sft_warmup -> planner_grpo -> coder_grpo -> evaluation
                 \\------------> baselines ------------/
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corecode.arms import arm
from corecode.config import GRPOConfig, Profile
from corecode.datasets import choose as choose_problems
from corecode.datasets.validate import Issue, Judge, check_references
from corecode.errors import InfrastructureError, UserError
from corecode.execution import Executor, open_configured
from corecode.generation.generator import derive_seed
from corecode.problems import Problem, Reference, Split, write_problems
from corecode.training.records import RESULT, write_json
from corecode.training.spec import JOB, JobSpec, spec_digest
from sandbox import Verdict

TEAM = ("planner", "coder")
"""The team that is trained, in order."""


@dataclass(frozen=True)
class Job:
    """One job program to run: ``python -m corecode.training.job JOB.json``."""

    name: str
    folder: Path
    spec: dict[str, Any]

    def write(self) -> Path:
        """Write the job file and return its path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / JOB
        write_json(path, self.spec)
        return path

    @property
    def done(self) -> bool:
        """Whether a result of this very job is there (it is written last)."""
        try:
            result = json.loads((self.folder / RESULT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return result.get("spec") == spec_digest(self.spec)


def make_problems(profile: Profile, run: Path) -> dict[str, Any]:
    """Write the four problem files, and the tokenizer that all roles of a model from scratch share.

    Returns ``{"counts": {split: n}, "digests": {split: sha256}, "digest": sha256 over all, "decontamination": ...,
    "validation": ...}``, which is also written to ``problems/problems.json``, last.
    """
    from hashlib import sha256

    chosen = choose_problems(profile.dataset)
    splits, broken = chosen.splits, dict[str, list[Issue]]()
    if profile.dataset.name != "dials":  # whose references are right by construction
        splits, broken = check_references_of(profile, splits)
    folder = run / "problems"
    digests = {split: write_problems(folder / f"{split}.jsonl", problems) for split, problems in splits.items()}
    if profile.model.scratch is not None:
        from corecode.training.weights import learn_tokenizer

        learn_tokenizer(profile, splits["sft"], run)
    summary = {
        "counts": {split: len(problems) for split, problems in splits.items()},
        "digests": digests,
        "digest": sha256("".join(digests[split] for split in sorted(digests)).encode()).hexdigest(),
        "decontamination": chosen.decontamination.as_json(),
        "validation": {
            "sources": {name: summary.as_json() for name, summary in chosen.imports.items()},
            "broken_tests": {split: [asdict(issue) for issue in issues] for split, issues in broken.items()},
            "without_right_reference": [problem.id for problem in splits["sft"] if not problem.references],
        },
    }
    write_json(folder / "problems.json", summary)
    return summary


def check_references_of(
    profile: Profile, splits: Mapping[Split, Sequence[Problem]]
) -> tuple[dict[Split, list[Problem]], dict[str, list[Issue]]]:
    """Judge the reference solutions of every split. The warm-up keeps the right ones alone; elsewhere a problem that
    has references and no right one gets the flag ``broken_tests``, which keeps it out of rewards.

    Returns the splits, and what is broken in those that are not the warm-up.

    Raises:
        InfrastructureError: when a reference could not be judged.
        UserError: when no reference of the warm-up is right.
    """
    with open_configured(profile.sandbox) as sandbox:
        executor = Executor(sandbox, remember=True)  # splits may share problems
        checked: dict[Split, list[Problem]] = {}
        broken: dict[str, list[Issue]] = {}
        for split, problems in splits.items():
            if split == "sft":
                checked[split] = only_right_references(problems, executor.judge) if problems else []
            else:
                checked[split], broken[split] = check_references(problems, executor.judge)
    return checked, broken


def only_right_references(problems: Sequence[Problem], judge: Judge) -> list[Problem]:
    """The problems with those reference solutions alone that pass all their tests in the sandbox: nothing else is
    taught. A problem may be left without any.

    Raises:
        InfrastructureError: when a reference could not be judged.
        UserError: when no reference is right.
    """
    jobs = [(problem, reference.program) for problem in problems for reference in problem.references]
    judgements = iter(judge(jobs))
    checked: list[Problem] = []
    for problem in problems:
        kept: list[Reference] = []
        for reference in problem.references:
            judgement = next(judgements)
            if judgement.verdict is Verdict.SANDBOX_ERROR:
                raise InfrastructureError(f"the reference of problem {problem.id!r} has no verdict: {judgement.detail}")
            if judgement.verdict is Verdict.ACCEPTED:
                kept.append(reference)
        checked.append(problem.model_copy(update={"references": kept}))
    if not any(problem.references for problem in checked):
        raise UserError("no reference program of the warm-up data passes its own tests; check programs and tests")
    return checked


def sft_jobs(profile: Profile, run: Path) -> list[Job]:
    """The warm-up of each role of the team; none when it is disabled."""
    if not profile.sft.enabled:
        return []
    return [_sft_job(profile, run, f"sft_warmup/{role}", TEAM, role) for role in TEAM]


def grpo_job(profile: Profile, run: Path, role: str, round: int = 1) -> Job | None:
    """GRPO of one role, with the others frozen; None when the phase has no steps.

    The role and those after it start from the round before (or the warm-up); those before it are of this round.
    """
    config = profile.grpo(role)
    if config.steps == 0:
        return None
    trained = TEAM[: TEAM.index(role)]
    weights = {member: _phase(profile, member, round if member in trained else round - 1) for member in TEAM}
    output = round_folder(profile, role, round)
    return _grpo_job(profile, run, output, TEAM, role, weights, config, "grpo", role, round)


def baseline_jobs(profile: Profile, run: Path) -> list[list[Job]]:
    """Jobs of the single models and of the ablation, in waves: a wave needs the ones before it. Only what an arm of
    the profile asks for."""
    wanted = {stage for name in profile.evaluation.arms for stage in arm(name).stages}
    first: list[Job] = []
    second: list[Job] = []
    if "baselines/coder_grpo_only" in wanted and profile.coder_grpo.steps:
        weights = {role: _phase(profile, role, 0) for role in TEAM}
        config = profile.coder_grpo
        first.append(
            _grpo_job(profile, run, "baselines/coder_grpo_only", TEAM, "coder", weights, config, "coder_grpo_only")
        )
    for name, role in (("single_direct", "coder"), ("single_thought", "solver")):
        start, final = f"baselines/{name}_sft", f"baselines/{name}"
        if profile.sft.enabled and wanted & {start, final}:
            first.append(_sft_job(profile, run, start, (role,), role, whole_budget=True))
        config = _single_grpo(profile, role)
        if final in wanted and config.steps:
            weights = {role: start if profile.sft.enabled else f"base/{role}"}
            second.append(_grpo_job(profile, run, final, (role,), role, weights, config, name))
    return [wave for wave in (first, second) if wave]


def evaluation_jobs(profile: Profile, run: Path) -> list[Job]:
    """One job for each arm of the profile, over all temperatures."""
    jobs: list[Job] = []
    for name in profile.evaluation.arms:
        system = arm(name)
        weights = {
            role: _resolve(profile, "coder" if system.prompted else role, stage)
            for role, stage in zip(system.roles, system.stages, strict=True)
        }
        spec = JobSpec(
            kind="evaluate",
            profile=profile,
            run=run,
            output=f"evaluation/{name.replace('/', '__')}",
            team=system.roles,
            arm=name,
            weights=weights,
            seed=derive_seed(profile.seed, "evaluate", name),
        )
        jobs.append(_job(f"evaluate {name}", spec))
    return jobs


def _sft_job(
    profile: Profile, run: Path, output: str, team: tuple[str, ...], role: str, whole_budget: bool = False
) -> Job:
    """``whole_budget``: as many pairs as the Planner and the Coder of the team see together."""
    config = profile.sft.model_copy(update={"epochs": profile.sft.epochs * len(TEAM)}) if whole_budget else profile.sft
    spec = JobSpec(
        kind="sft",
        profile=profile,
        run=run,
        output=output,
        team=team,
        role=role,
        weights={role: f"base/{role}"},
        seed=derive_seed(profile.seed, output),
        sft=config,
        deepspeed=_deepspeed(profile),
    )
    return _job(output, spec)


def _grpo_job(
    profile: Profile,
    run: Path,
    output: str,
    team: tuple[str, ...],
    role: str,
    weights: dict[str, str],
    config: GRPOConfig,
    *seed: object,
) -> Job:
    spec = JobSpec(
        kind="grpo",
        profile=profile,
        run=run,
        output=output,
        team=team,
        role=role,
        weights=weights,
        seed=derive_seed(profile.seed, *seed),
        grpo=config,
        deepspeed=_deepspeed(profile),
    )
    return _job(output, spec)


def _job(name: str, spec: JobSpec) -> Job:
    return Job(name, spec.folder, spec.model_dump(mode="json"))


def _single_grpo(profile: Profile, role: str) -> GRPOConfig:
    """The settings of a single model's GRPO: the steps of both phases, and room for what it writes."""
    planner, coder = profile.planner_grpo, profile.coder_grpo
    tokens = coder.sampling.max_tokens + (planner.sampling.max_tokens if role == "solver" else 0)
    return coder.model_copy(
        update={
            "steps": planner.steps + coder.steps,
            "sampling": coder.sampling.model_copy(update={"max_tokens": tokens}),
        }
    )


def round_folder(profile: Profile, role: str, round: int) -> str:
    """The folder of a role's phase. The last round's folder has the phase's name; earlier rounds stand beside it."""
    return f"{role}_grpo" if round == profile.rounds else f"rounds/{round}/{role}_grpo"


def _phase(profile: Profile, role: str, round: int) -> str:
    """The folder of a team member's weights after ``round`` rounds (0: after the warm-up)."""
    if round and profile.grpo(role).steps:
        return round_folder(profile, role, round)
    return f"sft_warmup/{role}" if profile.sft.enabled else f"base/{role}"


def _resolve(profile: Profile, role: str, stage: str) -> str:
    """The folder that holds a stage's weights: a stage that the profile skips leaves them where they were before."""
    if stage in {f"{member}_grpo" for member in TEAM}:
        return _phase(profile, stage.removesuffix("_grpo"), profile.rounds)
    skipped: dict[str, Callable[[], str]] = {
        "baselines/coder_grpo_only": lambda: stage if profile.coder_grpo.steps else _phase(profile, "coder", 0),
        "baselines/single_direct": lambda: _single(profile, role, stage),
        "baselines/single_thought": lambda: _single(profile, role, stage),
    }
    if stage in skipped:
        return skipped[stage]()
    return stage if profile.sft.enabled or stage.startswith("base/") else f"base/{role}"


def _single(profile: Profile, role: str, stage: str) -> str:
    if profile.planner_grpo.steps + profile.coder_grpo.steps:
        return stage
    return f"{stage}_sft" if profile.sft.enabled else f"base/{role}"


def _deepspeed(profile: Profile) -> str | None:
    """The DeepSpeed configuration of the profile's ZeRO stage, shipped under ``infra/deepspeed``."""
    execution = profile.execution
    if execution.engine != "deepspeed":
        return None
    name = f"zero{execution.zero_stage}{'_offload' if execution.zero_offload else ''}.json"
    return str(Path(__file__).resolve().parent.parent / "infra" / "deepspeed" / name)
