"""An evaluation by itself: weights from a run, a team's folder or a profile; problems from anywhere.

It gets a folder of its own under ``runs/``, laid out like a run's, so that reports and ``corecode compare`` read it
like one. The folder's name follows from everything that decides the results: the same request finds it again and goes
on. Stages of the weights' run are links in it.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corecode.config import Profile, stored_profile
from corecode.errors import InfrastructureError, UserError
from corecode.evaluation.report.words import count
from corecode.problems import Problem, read_split, write_problems
from corecode.stored import read_team
from pipelines.home import home_folder, one_at_a_time, prepare_home, write_text
from pipelines.preflight import check_inputs, needed_bytes
from pipelines.profiles import changed_profile, load_profile

if TYPE_CHECKING:
    from corecode.stages import Job

STAGE = "evaluation"
SEEN_IN_TRAINING = ("sft", "rl", "validation")
LINKED = ("sft_warmup", "planner_grpo", "coder_grpo", "baselines", "rounds", "tokenizer")
"""What a run holds that an arm may need."""


@dataclass(frozen=True)
class Request:
    """What to evaluate; the fields are the options of ``corecode evaluate``."""

    arms: tuple[str, ...]
    benchmark: str | None = None
    run: str | None = None
    model: str | None = None
    profile: str | None = None
    limit: int | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where the weights come from."""

    profile: Profile
    name: str
    links: Mapping[str, Path]
    """What the evaluation's folder links to: path in it -> what is there."""
    run: Path | None
    """The folder of the run that trained the weights, where it is known."""
    trained: Profile
    """The profile that the weights were made with."""

    def model(self, folder: str) -> Path | None:
        """Where a stage's model is; None when it is not among the links."""
        wanted = f"{folder}/model"
        places = (
            target / wanted[len(name) :].lstrip("/")
            for name, target in self.links.items()
            if f"{wanted}/".startswith(f"{name}/")
        )
        return next((place for place in places if place.is_dir()), None)

    def problems(self, split: str) -> list[Problem]:
        """A split of the run's problems; made again from the profile where there is no run."""
        path = self.run / "problems" / f"{split}.jsonl" if self.run else None
        if path is not None and path.is_file():
            return read_split(path)
        from corecode.datasets import load

        splits = load(self.trained.dataset)
        return next(problems for name, problems in splits.items() if name == split)


def run_evaluation(request: Request) -> Path:
    """Evaluate, or go on with it; returns the path of ``summary.json``.

    Raises:
        UserError: for a request that cannot be met; nothing is written then.
        InfrastructureError: a job failed.
    """
    from corecode.evaluation import build_report
    from corecode.stages import evaluation_jobs
    from pipelines import provenance

    source = open_source(request)
    profile = source.profile
    check_inputs(profile, problems=False)
    jobs = evaluation_jobs(profile, Path())
    trained = _check_weights(jobs, source)
    problems, left_out = _problems(request, source, trained)
    digest = _digest(jobs, source, problems)
    folder = prepare_home(needed_bytes(profile)) / "runs" / f"{profile.name}-eval-{digest[:8]}"
    _say(f"{count(len(profile.evaluation.arms), 'arm')} on {count(len(problems), 'problem')} in {folder}")
    if left_out:
        _say(f"left out of the benchmark: {count(left_out, 'problem')} that {source.name} was trained on")
    started = time.monotonic()
    with one_at_a_time(folder):
        write_text(folder / "profile.json", profile.model_dump_json(indent=2) + "\n")
        write_problems(folder / "problems" / "test.jsonl", problems)
        for name, target in source.links.items():
            _link(folder / name, target)
        _launch(profile, evaluation_jobs(profile, folder))
        facts = {
            "git": provenance.git_state(),
            "versions": provenance.package_versions(),
            "machine": provenance.machine(),
            "weights": source.name,
            "benchmark": request.benchmark or f"test problems of {source.name}",
            "limit": request.limit,
            "left_out": left_out,
        }
        return build_report(profile, folder, {STAGE: time.monotonic() - started}, facts)


def open_source(request: Request) -> Source:
    """The weights that a request names, with the profile that holds for the evaluation.

    Raises:
        UserError: unless exactly one source is named, and is there.
    """
    named = [name for name in (request.run, request.model, request.profile) if name is not None]
    if len(named) != 1:
        raise UserError("give exactly one of --run, --model and --profile: whose weights are evaluated")
    changes = [f"evaluation.arms={json.dumps(request.arms)}", *request.overrides]
    if request.profile is not None:
        profile = load_profile(request.profile, changes)
        return Source(profile, request.profile, {}, None, profile)
    if request.run is not None:
        folder = _run_folder(request.run)
        stored = stored_profile(folder / "profile.json")
        links = {name: folder / name for name in LINKED if (folder / name).exists()}
        profile = changed_profile(folder.name, stored.model_dump(), changes)
        return Source(profile, folder.name, links, folder, stored)
    from corecode.arms import arm
    from pipelines.cli_solve import team_folder
    from pipelines.registry.team import TEAM_ARM

    folder = team_folder(str(request.model)).resolve()  # "champion" is a link that may move on
    team = read_team(folder)
    trained_in = home_folder() / "runs" / team.run
    system = arm(TEAM_ARM)
    links = {f"{stage}/model": folder / role for role, stage in zip(system.roles, system.stages, strict=True)}
    links = {name: target for name, target in links.items() if target.is_dir()}
    profile = changed_profile(f"{folder.name} (team.json)", team.profile, changes)
    trained = changed_profile(f"{folder.name} (team.json)", team.profile, ())
    run = trained_in if trained_in.is_dir() else None
    return Source(profile, team.run, links, run, trained)


def _run_folder(name: str) -> Path:
    folder = home_folder() / "runs" / name
    folder = folder if folder.is_dir() else Path(name).expanduser().absolute()
    if not (folder / "profile.json").is_file():
        raise UserError(f"--run {name}: there is no run of this name under {home_folder() / 'runs'}, nor such a folder")
    return folder


def _check_weights(jobs: Sequence[Job], source: Source) -> bool:
    """Whether any arm has trained weights.

    Raises:
        UserError: for an arm whose weights the source does not have.
    """
    weights = {(str(job.spec["arm"]), str(folder)) for job in jobs for folder in job.spec["weights"].values()}
    for arm, folder in sorted(weights):
        if not folder.startswith("base/"):
            if source.model(folder) is None:
                raise UserError(
                    f"arm {arm} needs the weights {folder}, which {source.name} does not have; give a run or team that"
                    " has them with --run or --model"
                )
        elif source.profile.model.scratch is not None:
            if "tokenizer" not in source.links:
                raise UserError(f"arm {arm}: a model made from nothing belongs to a run; name the run with --run")
            if source.profile.seed != source.trained.seed:
                raise UserError(
                    f"arm {arm}: its weights follow from the run's seed {source.trained.seed}; leave the seed out"
                )
    return any(not folder.startswith("base/") for _, folder in weights)


def _problems(request: Request, source: Source, trained: bool) -> tuple[list[Problem], int]:
    """The problems, and how many of the benchmark were left out because the weights have seen them in training."""
    left_out = 0
    if request.benchmark is None:
        problems = source.problems("test")
    else:
        from corecode.datasets import read
        from corecode.datasets.decontaminate import decontaminate

        problems, summary = read(request.benchmark)
        for reason, count in summary.reasons().items():
            _say(f"{request.benchmark}: {count} records refused or flagged: {reason}")
        if trained:
            seen = [problem for split in SEEN_IN_TRAINING for problem in source.problems(split)]
            kept, found = decontaminate({"benchmark": problems, "test": seen})  # the rules are symmetric
            problems, left_out = kept["benchmark"], len(found.removed)
    if not problems:
        raise UserError(f"benchmark {request.benchmark}: {source.name} was trained on each of its problems")
    return problems[: request.limit], left_out


def _digest(jobs: Sequence[Job], source: Source, problems: Sequence[Problem]) -> str:
    from corecode.fingerprint import base_identity, code_digest, folder_digest, library_versions

    tokenizer, weights = source.links.get("tokenizer", Path()), dict[str, str | None]()
    for folder in sorted({str(folder) for job in jobs for folder in job.spec["weights"].values()}):
        model = source.model(folder)
        weights[folder] = (
            base_identity(source.profile.model.model_dump(), folder, tokenizer)
            if model is None
            else folder_digest(model)
        )
    facts = {
        "profile": source.profile.model_dump(mode="json"),
        "weights": weights,
        "problems": [problem.model_dump(mode="json") for problem in problems],
        "code": code_digest(),
        "versions": library_versions(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _launch(profile: Profile, jobs: Sequence[Job]) -> None:
    """Run the jobs that no earlier run of this home has done."""
    from pipelines.progress import PlainReporter
    from pipelines.reuse import Cache, keyed, reused_from
    from pipelines.stage import local_launcher

    cache, reporter = Cache(home_folder()), PlainReporter(_say)
    waiting = [one for one in map(keyed, (job for job in jobs if not job.done)) if cache.take(one) is None]
    running = [one.job for one in waiting]
    for job in jobs:
        if job not in running:
            _say(f"      {job.name}: complete{f' (from {origin})' if (origin := reused_from(job)) else ''}")

    def on_metrics(job: Job, line: Mapping[str, Any]) -> None:
        step, of = int(line.get("step", 0)), int(line.get("of", 0))
        reporter.job_progress(STAGE, job.name, step, of, dict(line.get("metrics", {})))

    try:
        local_launcher(profile).run(running, profile.execution.parallel, on_metrics)
    finally:  # what is complete serves others, also when another job failed
        for one in waiting:
            if one.job.done:
                cache.keep(one)
    for job in jobs:
        if not job.done:
            raise InfrastructureError(f"job {job.name} ended without an error and without a result in {job.folder}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
