"""One stage while it executes: its jobs run, its numbers reach MLflow, its end is recorded whatever happens."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from assets import STAGES
from corecode.config import Profile
from corecode.errors import InfrastructureError, UserError
from corecode.stages import TEAM, Job, round_folder
from corecode.training.records import METRICS
from pipelines import progress, provenance
from pipelines.home import disk_errors, folder_bytes, home_folder, write_text
from pipelines.launchers import Launcher
from pipelines.launchers.local import Engine, LocalLauncher, job_environment
from pipelines.launchers.tail import JsonTail
from pipelines.preflight import is_hub_id
from pipelines.recording import open_runs, problem_files, read_by, record_arms
from pipelines.redact import redact, shown_cause
from pipelines.reuse import Cache, keyed, reused_from
from pipelines.settings import STAGES_FILE, RunSettings, read_stages
from pipelines.tracking import Status, TrackedRun
from pipelines.versions import chained, output_digest

LARGEST_UPLOAD = 64 * 1024**2
"""Bytes of a model that is copied to MLflow; of a larger one its path is recorded."""
RETRIES = 2
"""How often a stage that failed for want of infrastructure is tried again; it goes on from its complete jobs and their
checkpoints. Not as a RetryPolicy: Dagster would apply one to a bug, and to an interrupt, and so begin a canceled stage
anew."""
RETRY_S = 5.0
"""Before the first retry; twice as long before the second."""


@dataclass
class PipelineStage:
    """See :class:`assets.ports.Stage`."""

    name: str
    profile: Profile
    folder: Path
    context: Any
    parent: TrackedRun
    tracked: TrackedRun
    launcher: Launcher
    started: float = field(default_factory=time.monotonic)
    force: bool = False
    """Whether to train again what an earlier run has trained already."""
    finished_jobs: list[Job] = field(default_factory=list[Job])
    reused: dict[str, str] = field(default_factory=dict[str, str])
    """Jobs that were not run now, and the run that each comes from."""
    output: str = ""
    """Digest of what the stage made, once :meth:`data_version` was asked."""

    def launch(self, jobs: Sequence[Job]) -> None:
        reporter = progress.current()
        cache = Cache(home_folder())
        waiting = [keyed(job) for job in jobs if not job.done]
        if not self.force:
            waiting = [one for one in waiting if cache.take(one) is None]
        running = [one.job for one in waiting]
        for job in jobs:
            if job not in running:
                origin = self.reused[job.name] = reused_from(job) or self.folder.name
                self.context.log.info(f"{job.name} is complete with the same inputs; reused from {origin}")
                if origin != self.folder.name:
                    reporter.note(f"{job.name}: reused from {origin}")
        reporter.jobs_started(self.name, [job.name for job in running])

        def on_metrics(job: Job, line: Mapping[str, Any]) -> None:
            step, of, metrics = int(line.get("step", 0)), int(line.get("of", 0)), dict(line.get("metrics", {}))
            if job in running:
                reporter.job_progress(self.name, job.name, step, of, metrics)
            prefix = f"{label}/" if (label := self._label(job)) else ""
            seconds = {f"seconds/{name}": value for name, value in dict(line.get("seconds", {})).items()}
            self.tracked.metrics({f"{prefix}{name}": value for name, value in {**metrics, **seconds}.items()}, step)
            curve = {name: value for name, value in metrics.items() if name.startswith("validation/")}
            before = self._steps_before(job)
            if curve and before is not None:
                self.parent.metrics(curve, step + before)

        try:
            self.launcher.run(running, self.profile.execution.parallel, on_metrics)
        finally:  # what is complete serves others, also when one of the jobs failed
            for one in waiting:
                if one.job.done:
                    cache.keep(one)
        for job in jobs:
            if not job.done:
                raise InfrastructureError(f"job {job.name} ended without an error and without a result in {job.folder}")
            reporter.job_ended(self.name, job.name)
            if job not in running:
                for line in JsonTail(job.folder / METRICS).lines():
                    on_metrics(job, line)
            self.finished_jobs.append(job)
            self._record(job)
        kinds = {str(job.spec["kind"]) for job in jobs}
        self.tracked.datasets(read_by(kinds, problem_files(self.profile, self.folder)))
        self._tag_reused()

    def _origins(self, reused: Mapping[str, str]) -> list[str]:
        """The other runs among those that jobs come from."""
        return sorted(set(reused.values()) - {self.folder.name})

    def _tag_reused(self) -> None:
        """Say in MLflow which runs' work this stage uses."""
        origins = self._origins(self.reused)
        if origins:
            count = sum(origin in origins for origin in self.reused.values())
            shown = {"reused": f"{count} of {len(self.finished_jobs)} jobs", "reused_from": ", ".join(origins)}
            self.tracked.tags({f"corecode.{name}": text for name, text in shown.items()})
            self.parent.tags({f"corecode.reused/{self.name}": ", ".join(origins)})

    def _label(self, job: Job) -> str:
        """What tells a job from the others of its stage; empty for the job that gives the stage its name."""
        name = job.spec.get("arm") or job.name
        return "" if name == self.name else name.removeprefix(f"{self.name}/")

    def _steps_before(self, job: Job) -> int | None:
        """Steps of the phases before this job, so that the run's validation curves are one line over all phases; None
        for a job beside that line."""
        before = 0
        for number in range(1, self.profile.rounds + 1):
            for role in TEAM:
                if job.name == round_folder(self.profile, role, number):
                    return before
                before += self.profile.grpo(role).steps
        return None

    def _record(self, job: Job) -> None:
        """Samples and model of a complete job."""
        label = self._label(job)
        prefix = f"{label}/" if label else ""
        samples = job.folder / "samples.jsonl"
        if samples.is_file():
            # Not splitlines(): a sample may hold characters such as U+2028, which end a line only there.
            rows = [json.loads(line) for line in samples.read_text(encoding="utf-8").split("\n") if line]
            self.tracked.table(rows, f"{label}/samples.json" if label else "samples.json")
        self.tracked.artifact(job.folder / METRICS, label or None)
        model = job.folder / "model"
        if model.is_dir():
            name = "-".join([self.name, *label.split("/")]).strip("-")
            if folder_bytes(model) <= LARGEST_UPLOAD:
                self.tracked.model(model, name, self._model_tags(job, model), prefix)
            else:
                self.tracked.tags({f"corecode.model/{name}": str(model)})

    def _model_tags(self, job: Job, model: Path) -> dict[str, str]:
        return {
            "corecode.path": str(model),
            "corecode.run": self.folder.name,
            "corecode.profile": self.profile.name,
            "corecode.seed": str(self.profile.seed),
            "corecode.stage": self.name,
            "corecode.role": str(job.spec["role"]),
        }

    def datasets(self) -> None:
        sets = problem_files(self.profile, self.folder)
        self.parent.datasets(sets)
        self.parent.tags({f"corecode.dataset/{name}": digest for name, digest, _, _ in sets})

    def build_report(self) -> Path:
        from corecode.evaluation.report.build import build_report
        from pipelines.figures import headline, run_metrics

        recorded = read_stages(self.folder)
        facts = {
            "git": provenance.git_state(),
            "versions": provenance.package_versions(),
            "machine": provenance.machine(),
            "dagster_run_id": self.context.run_id,
            "mlflow_run_id": self.parent.id,
            "mlflow_url": self.parent.url,
        }
        reused = {name: self._origins(stage.get("reused", {})) for name, stage in recorded.items()}
        if any(reused.values()):
            facts["reused"] = {name: origins for name, origins in reused.items() if origins}
        summary = build_report(self.profile, self.folder, {name: s["seconds"] for name, s in recorded.items()}, facts)
        made = json.loads(summary.read_text(encoding="utf-8"))
        self.parent.tags({"corecode.digest": made["digests"]["metrics"]})
        figures = run_metrics(made)
        self.parent.metrics(headline(figures), 0)
        self.tracked.metrics(figures, 0)
        for run in (self.parent, self.tracked):
            run.artifact(summary.parent, "report")
        record_arms(self.profile, self.folder, self.parent, made)
        return summary

    def promote(self) -> Mapping[str, Any]:
        from pipelines.registry.promotion import promote
        from pipelines.registry.team import TEAM_ARM

        if TEAM_ARM not in self.profile.evaluation.arms:
            reason = f"not offered, for the profile does not evaluate {TEAM_ARM} (evaluation.arms)"
            progress.current().note(f"champion: {reason}")
            return {"reason": reason}
        decision = promote(self.profile, self.folder, home_folder(), self.parent.store)
        progress.current().note(f"champion: {decision.reason}")
        return asdict(decision)

    def data_version(self) -> str:
        folders = [job.folder for job in self.finished_jobs]
        self.output = output_digest(self.name, self.profile, self.folder, home_folder(), folders)
        recorded = read_stages(self.folder)
        before = [recorded[name].get("output", "") for name in STAGES[: STAGES.index(self.name)] if name in recorded]
        return chained([*before, self.output])

    def metadata(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "run": self.folder.name,
            "folder": dg.MetadataValue.path(str(self.folder)),
            "MLflow": dg.MetadataValue.url(self.tracked.url),
            "seconds": round(time.monotonic() - self.started, 1),
        }
        if self.finished_jobs:
            result |= {"jobs": len(self.finished_jobs), "jobs reused": len(self.reused)}
            if self.reused:
                result["reused from"] = dg.MetadataValue.json(self.reused)
            named = {self._label(job) or self.name: job for job in self.finished_jobs}
            result["final metrics"] = dg.MetadataValue.md(_final_metrics(named))
        return result


def _final_metrics(jobs: Mapping[str, Job]) -> str:
    """A markdown table of each job's last reported metrics."""
    last: dict[str, dict[str, Any]] = {}
    for name, job in jobs.items():
        values = last[name] = {}
        for line in JsonTail(job.folder / METRICS).lines():
            values |= {name: value for name, value in line.get("metrics", {}).items() if isinstance(value, int | float)}
    names = sorted({name for values in last.values() for name in values})
    rows = [
        f"| {name} | " + " | ".join(f"{v[name]:.4g}" if name in v else "" for v in last.values()) + " |"
        for name in names
    ]
    return "\n".join([f"| metric | {' | '.join(last)} |", "|---|" + "---|" * len(last), *rows])


def local_launcher(profile: Profile) -> LocalLauncher:
    """The launcher of this machine, set up as the profile's ``execution`` section says."""
    execution = profile.execution
    offline = profile.model.path is None or not is_hub_id(profile.model.path)
    return LocalLauncher(
        environment=job_environment(execution.threads, execution.device, offline),
        engine=Engine(execution.engine, execution.ranks),
    )


def _say_canceled(context: Any) -> None:
    """Ctrl-C is somebody's wish: without this Dagster would call the run failed."""
    run = context.instance.get_run_by_id(context.run_id)
    if run is not None and run.status is dg.DagsterRunStatus.STARTED:
        context.instance.report_run_canceling(run)


@contextmanager
def open_stage(settings: RunSettings, context: Any) -> Generator[PipelineStage]:
    """Open a stage. MLflow's and Dagster's records end with what happened: finished, failed or killed.

    Raises:
        dagster.RetryRequested: for an infrastructure failure, the first times.
        dagster.Failure: for a user's mistake or an infrastructure failure, with the sentence as its description.
    """
    name = context.asset_key.to_user_string()
    reporter = progress.current()
    reporter.stage_started(name)
    opened: list[TrackedRun] = []
    status: Status = "FAILED"
    started = time.monotonic()
    try:
        profile, folder = settings.open_folder(context)
        with disk_errors(folder):
            parent, child = open_runs(context, profile, folder)
            opened += [child, parent]
            launcher = local_launcher(profile)
            stage = PipelineStage(name, profile, folder, context, parent, child, launcher, started, settings.force)
            yield stage
            seconds = time.monotonic() - started
            entry: dict[str, Any] = {
                "seconds": round(seconds, 3),
                "mlflow_run_id": child.id,
                "output": stage.output,
            }
            if stage.reused:
                entry["reused"] = stage.reused
            record = read_stages(folder) | {name: entry}
            write_text(folder / STAGES_FILE, json.dumps(record, indent=1) + "\n")
        child.metrics({"seconds": seconds}, 0)
        status = "FINISHED"
        reporter.stage_ended(name, seconds)
    except (UserError, InfrastructureError) as error:
        reporter.stage_failed(name, error)
        # A user's mistake fails again however often it is tried.
        if isinstance(error, InfrastructureError) and context.retry_number < RETRIES:
            reporter.note(redact(f"tried again from where it stopped: {error}"))
            raise dg.RetryRequested(RETRIES, RETRY_S * 2**context.retry_number) from shown_cause(error)
        raise dg.Failure(redact(str(error))) from shown_cause(error)
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as interrupt:
        status = "KILLED"
        reporter.stage_failed(name, interrupt)
        _say_canceled(context)
        raise
    except Exception as error:
        reporter.stage_failed(name, error)
        raise
    finally:
        for run in opened:
            run.end(status)
        for problem in {problem for run in opened for problem in run.problems}:
            context.log.warning(problem)
            reporter.note(problem)
