"""``corecode run`` through Dagster and MLflow with training replaced (fake_chain.py): what a user and both stores see
after success, failure, Ctrl-C and a hard kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from processes import marked

from assets import STAGES
from pipelines.tracking import Tracking

ROOT = Path(__file__).parents[2]
PROFILE = ["smoke", "--seed", "3", "--set", "dataset.test=60"]


@dataclass
class Ended:
    """A finished ``corecode run``."""

    code: int
    out: str
    err: str
    home: Path

    @cached_property
    def run(self) -> Path:
        """The run folder, as the command has named it."""
        return self.home / "runs" / re.findall(r"^run (\S+) in ", self.err, re.MULTILINE)[0]


def start(home: Path, arguments: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fake_chain.py")), "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home), "PYTHONPATH": str(ROOT), **environment},
    )


def finish(process: subprocess.Popen[str], home: Path) -> Ended:
    out, err = process.communicate(timeout=400)
    return Ended(process.returncode, out, err, home)


def wait_for_file(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)):
        assert time.monotonic() < deadline, f"{pattern} never appeared"
        time.sleep(0.05)


def tracked(home: Path) -> dict[str, Any]:
    """MLflow runs of a home: whole runs by name, those of a stage by its name."""
    store = Tracking(home)
    found = store.client.search_runs([store.experiment], "tags.`corecode.kind` != 'arm'")
    return {run.data.tags.get("corecode.stage", run.info.run_name): run for run in found}


def dagster_run(home: Path, run: Path) -> Any:
    from pipelines.instance import open_instance

    with open_instance(home) as instance:
        return next(one for one in instance.get_runs() if one.tags.get("corecode/run") == run.name)


def data_versions(home: Path, run: Path) -> dict[str, str]:
    """What Dagster holds as the version of each asset that a run made."""
    import dagster as dg

    from pipelines.instance import open_instance

    with open_instance(home) as instance:
        logs = instance.all_logs(dagster_run(home, run).run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
    made = [record.asset_materialization for record in logs]
    return {one.asset_key.to_user_string(): one.tags["dagster/data_version"] for one in made}


@pytest.fixture(scope="module")
def done(new_home: Callable[[str], Path]) -> Ended:
    """One successful run that the tests below look at."""
    home = new_home("done")
    return finish(start(home, PROFILE), home)


def test_success_prints_table_and_ends_with_the_summary(done: Ended) -> None:
    assert done.code == 0, done.err
    summary = done.run / "collaboration_gain" / "summary.json"
    assert done.out.splitlines()[-1] == str(summary)
    assert json.loads(summary.read_text(encoding="utf-8"))["seed"] == 3
    assert str(done.run / "collaboration_gain" / "report.html") in done.out
    assert "corecode up" in done.out
    line = next(line for line in done.out.splitlines() if line.split()[:1] == ["final/team"])
    assert line.split()[2:5] == ["100.0", "[100.0,", "100.0]"]
    assert "+50.0 [" in line


def test_progress_names_stage_step_and_reward(done: Ended) -> None:
    for number, stage in enumerate(STAGES, 1):
        assert f"[{number}/{len(STAGES)}] {stage}" in done.err
    assert "planner_grpo 2/2  reward 0.200" in done.err
    assert "champion: the first champion" in done.err


def test_dagsters_own_log_goes_to_a_file(done: Ended) -> None:
    assert "STEP_START" not in done.err
    assert "STEP_START" in (done.run / "dagster.log").read_text(encoding="utf-8")


def test_run_folder(done: Ended) -> None:
    assert done.run.name.startswith("smoke-seed3-")
    profile = json.loads((done.run / "profile.json").read_text(encoding="utf-8"))
    assert (profile["seed"], profile["dataset"]["test"]) == (3, 60)
    stages = json.loads((done.run / "stages.json").read_text(encoding="utf-8"))
    assert list(stages) == list(STAGES)
    summary = json.loads((done.run / "collaboration_gain" / "summary.json").read_text(encoding="utf-8"))
    assert list(summary["stage_seconds"]) == list(STAGES[:6])
    assert summary["provenance"]["mlflow_run_id"]
    assert not list(done.run.rglob("*.partial"))
    assert (done.home / "champion" / "planner" / "model.safetensors").read_text(encoding="utf-8")[:8] == "planner "


def test_mlflow_has_one_parent_and_a_child_for_each_stage(done: Ended) -> None:
    runs = tracked(done.home)
    parent = runs.pop(done.run.name)
    assert set(runs) == set(STAGES)
    assert {run.info.status for run in (parent, *runs.values())} == {"FINISHED"}
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    assert parent.data.params["planner_grpo.learning_rate"] == "0.0002"
    assert parent.data.params["model.scratch.width"] == "32"
    assert parent.data.tags["version.dagster"]
    assert {one.dataset.name for one in parent.inputs.dataset_inputs} == {
        f"dials-{split}" for split in ("sft", "rl", "validation", "test")
    }
    metrics = parent.data.metrics
    assert metrics["pass_at_1/final/team/T1.0"] == 1.0
    assert metrics["cg_abs/pass_at_1/final/T1.0/low"] > 0
    assert "gain/pass_at_1/total/T1.0" in metrics
    assert "planner/reward/mean" in runs["sft_warmup"].data.metrics
    assert runs["planner_grpo"].data.metrics["reward/mean"] == pytest.approx(0.2)


def test_curve_of_cg_runs_over_both_phases(done: Ended) -> None:
    store = Tracking(done.home)
    parent = tracked(done.home)[done.run.name]
    points = store.client.get_metric_history(parent.info.run_id, "validation/cg")
    assert sorted((point.step, point.value) for point in points) == [(0, 0.0), (1, 0.05), (2, 0.1), (3, 0.05), (4, 0.1)]


def test_samples_report_and_models_are_in_mlflow(done: Ended) -> None:
    store = Tracking(done.home)
    runs = tracked(done.home)
    names = [one.path for one in store.client.list_artifacts(runs["planner_grpo"].info.run_id)]
    assert {"samples.json", "metrics.jsonl"} <= set(names)
    report = store.client.list_artifacts(runs[done.run.name].info.run_id, "report")
    assert {"report/report.html", "report/summary.json"} <= {one.path for one in report}
    models = store.client.search_logged_models([store.experiment])
    assert {"planner_grpo", "coder_grpo", "sft_warmup-planner", "sft_warmup-coder", "team"} == {m.name for m in models}
    version = store.client.get_model_version_by_alias("corecode", "champion")
    assert version.tags["corecode.run"] == done.run.name


def test_dagster_and_mlflow_point_at_each_other(done: Ended) -> None:
    run = dagster_run(done.home, done.run)
    parent = tracked(done.home)[done.run.name]
    assert run.tags["mlflow/run_id"] == parent.info.run_id
    assert parent.data.tags["dagster.run_id"] == run.run_id
    assert run.status.value == "SUCCESS"
    assert run.run_config["resources"]["run"]["config"]["seed"] == 3
    assert run.tags["dagster/partition"] == "smoke|3"


def test_dagster_shows_metadata_and_checks(done: Ended) -> None:
    import dagster as dg

    from pipelines.instance import open_instance

    with open_instance(done.home) as instance:
        events = {
            name: instance.get_latest_materialization_event(dg.AssetKey(name)).asset_materialization for name in STAGES
        }
        records = instance.all_logs(dagster_run(done.home, done.run).run_id)
    assert set(events["planner_grpo"].metadata) >= {"MLflow", "folder", "seconds", "final metrics"}
    assert "| reward/mean | 0.2 |" in events["planner_grpo"].metadata["final metrics"].md_str
    assert "final/team" in events["collaboration_gain"].metadata["table"].md_str
    assert events["champion"].metadata["reason"].value == "the first champion"
    checks = [record.dagster_event.event_specific_data for record in records if record.is_dagster_event]
    outcome = {one.check_name: one.passed for one in checks if type(one).__name__ == "AssetCheckEvaluation"}
    assert outcome == {
        "training_data_decontaminated": True,
        "problems_validated": True,
        "warm_up_teaches_the_format": True,
        "warm_up_beats_the_base_model": True,
        "planner_grpo_does_no_harm": True,
        "few_samples_are_lost": True,
        "collaboration_pays": True,
    }


@pytest.fixture(scope="module")
def again(done: Ended) -> Ended:
    """The same run a second time, in which a job that were trained would fail."""
    return finish(start(done.home, PROFILE, FAKE_FAIL="coder_grpo"), done.home)


def test_same_seed_again_gives_the_same_figures_and_keeps_the_champion(done: Ended, again: Ended) -> None:
    first = done.run
    assert again.code == 0, again.err
    assert again.run != first
    metrics = [(run / "collaboration_gain" / "metrics.json").read_bytes() for run in (first, again.run)]
    assert metrics[0] == metrics[1]
    assert data_versions(done.home, first) == data_versions(done.home, again.run)
    assert "champion: held: not better beyond chance than" in again.err
    assert json.loads((done.home / "champion" / "team.json").read_text(encoding="utf-8"))["run"] == first.name


def test_what_is_reused_says_so_everywhere(done: Ended, again: Ended) -> None:
    first = done.run
    for job in ("sft_warmup/coder", "coder_grpo", "evaluate final/team"):
        assert f"{job}: reused from {first.name}" in again.err
    assert f"coder_grpo is complete with the same inputs; reused from {first.name}" in (
        again.run / "dagster.log"
    ).read_text(encoding="utf-8")
    stages = json.loads((again.run / "stages.json").read_text(encoding="utf-8"))
    assert stages["coder_grpo"]["reused"] == {"coder_grpo": first.name}
    summary = json.loads((again.run / "collaboration_gain" / "summary.json").read_text(encoding="utf-8"))
    assert summary["provenance"]["reused"]["evaluation"] == [first.name]
    store = Tracking(again.home)
    stage = store.client.get_run(stages["sft_warmup"]["mlflow_run_id"])
    assert stage.data.tags["corecode.reused"] == "2 of 2 jobs"
    assert stage.data.tags["corecode.reused_from"] == first.name
    assert "planner/reward/mean" in stage.data.metrics
    parent = store.client.get_run(summary["provenance"]["mlflow_run_id"])
    assert parent.data.tags["corecode.reused/coder_grpo"] == first.name
    assert "validation/cg" in parent.data.metrics


def test_force_trains_again(again: Ended) -> None:
    forced = finish(start(again.home, [*PROFILE, "--force"], FAKE_FAIL="sft_warmup/coder"), again.home)
    assert forced.code == 1
    assert "job sft_warmup/coder ended with exit code 1" in forced.err
    assert "reused" not in forced.err


def test_data_versions_tell_the_stages_apart(done: Ended) -> None:
    versions = data_versions(done.home, done.run)
    assert list(versions) == list(STAGES)
    assert len(set(versions.values())) == len(STAGES)


def test_the_jobs_evaluate_and_report_go_on_with_an_earlier_run(done: Ended, again: Ended) -> None:
    program = f"""
import json, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fake_chain
fake_chain.install()
from pipelines.definitions import defs
from pipelines.instance import open_instance
from pipelines.settings import RunSettings
with open_instance(pathlib.Path({str(done.home)!r})) as instance:
    for job, settings in (("evaluate", RunSettings()), ("report", RunSettings(run={done.run.name!r}))):
        ended = defs.resolve_job_def(job).execute_in_process(
            settings.run_config(), instance=instance, partition_key="smoke|3"
        )
        print(json.dumps([event.asset_key.to_user_string() for event in ended.get_asset_materialization_events()]))
        print(instance.get_run_by_id(ended.run_id).tags["corecode/run"])
    wrong = defs.resolve_job_def("report").execute_in_process(
        RunSettings(run="nothing").run_config(), instance=instance, partition_key="smoke|3", raise_on_error=False
    )
    print([event.event_type_value for event in wrong.all_events if event.is_step_failure or event.is_step_up_for_retry])
"""
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "CORECODE_HOME": str(done.home), "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        '["evaluation", "collaboration_gain"]',
        again.run.name,
        '["collaboration_gain"]',
        done.run.name,
        "['STEP_FAILURE']",  # a user's mistake is not tried again
    ]
    assert Tracking(done.home).running() == []


def test_a_stage_that_failed_is_tried_again_and_goes_on(new_home: Callable[[str], Path]) -> None:
    home = new_home("retried")
    failing = {"FAKE_FAIL_ONCE": "sft_warmup/coder", "FAKE_AFTER": "sft_warmup/planner/result.json"}
    ended = finish(start(home, PROFILE, **failing), home)
    assert ended.code == 0, ended.err
    assert "tried again from where it stopped: job sft_warmup/coder ended with exit code 1" in ended.err
    assert "sft_warmup/planner is complete with the same inputs; reused" in (ended.run / "dagster.log").read_text()
    assert {run.info.status for run in tracked(home).values()} == {"FINISHED"}


def test_failure_is_one_sentence_and_a_log(new_home: Callable[[str], Path]) -> None:
    home = new_home("failed")
    ended = finish(start(home, PROFILE, FAKE_FAIL="coder_grpo"), home)
    assert ended.code == 1
    assert "error: job coder_grpo ended with exit code 1" in ended.err
    assert "the accelerator fell off" in ended.err
    assert "Traceback" not in ended.err
    assert f"log: {ended.run / 'dagster.log'}" in ended.err
    assert ended.out == ""
    runs = tracked(home)
    assert runs[ended.run.name].info.status == runs["coder_grpo"].info.status == "FAILED"
    assert runs["planner_grpo"].info.status == "FINISHED"
    assert dagster_run(home, ended.run).status.value == "FAILURE"
    assert not (home / "champion").exists()


def test_a_run_that_does_not_evaluate_its_team_offers_none(new_home: Callable[[str], Path]) -> None:
    home = new_home("no-team")
    ended = finish(start(home, [*PROFILE, "--set", "evaluation.arms=[sft/team, sft/alone]"]), home)
    assert ended.code == 0, ended.err
    assert "champion: not offered, for the profile does not evaluate final/team" in ended.err
    assert "tried again" not in ended.err
    assert tracked(home)["champion"].info.status == "FINISHED"
    assert not (home / "champion").exists()


def test_a_refuted_claim_stops_the_run_and_is_the_sentence(new_home: Callable[[str], Path]) -> None:
    home = new_home("harmed")
    ended = finish(start(home, [*PROFILE, "--set", "dataset.validation=16"], FAKE_HARM="1"), home)
    assert ended.code == 1
    sentence = "validation pass@1 of the team went from 0.500 to 0.000 (standard error 0.125)"
    assert f"error: the check planner_grpo_does_no_harm stopped the run: {sentence}\n" in ended.err
    assert "Traceback" not in ended.err
    assert set(tracked(home)) == {ended.run.name, "problems", "sft_warmup", "planner_grpo"}
    assert tracked(home)[ended.run.name].info.status == "FAILED"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGHUP])
def test_interrupt_ends_everything(new_home: Callable[[str], Path], end: signal.Signals) -> None:
    home = new_home(end.name)
    process = start(home, PROFILE, FAKE_SLOW="planner_grpo")
    wait_for_file(home, "runs/*/planner_grpo/slow")
    assert "sleep 600" in marked(f"CORECODE_HOME={home}").values()
    begin = time.monotonic()
    process.send_signal(end)
    ended = finish(process, home)
    assert time.monotonic() - begin < 60
    assert marked(f"CORECODE_HOME={home}") == {}
    assert ended.code == 130
    assert "interrupted: every process of the run has ended" in ended.err
    runs = tracked(home)
    assert runs[ended.run.name].info.status == runs["planner_grpo"].info.status == "KILLED"
    assert dagster_run(home, ended.run).status.value == "CANCELED"


def test_after_a_hard_kill_the_next_run_says_so(new_home: Callable[[str], Path]) -> None:
    home = new_home("killed")
    process = start(home, PROFILE, FAKE_SLOW="planner_grpo")
    wait_for_file(home, "runs/*/planner_grpo/slow")
    process.kill()
    process.wait()
    killed = next((home / "runs").iterdir())
    deadline = time.monotonic() + 60
    while left := marked(f"CORECODE_HOME={home}"):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert tracked(home)[killed.name].info.status == "RUNNING"
    ended = finish(start(home, PROFILE, FAKE_FAIL="coder_grpo"), home)
    assert f"run {killed.name} of an earlier process was left open; it is now marked as killed" in ended.err
    store = Tracking(home)
    assert {run.info.status for run in store.client.search_runs([store.experiment])} == {"KILLED", "FINISHED", "FAILED"}
    assert dagster_run(home, killed).status.value == "FAILURE"


def test_several_processes_may_open_a_new_home_at_once(new_home: Callable[[str], Path]) -> None:
    program = (
        "import sys, pathlib, dagster; from pipelines.instance import open_instance\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "with open_instance(pathlib.Path(sys.argv[1])) as instance: print(len(instance.get_runs()))"
    )
    command = [sys.executable, "-c", program, str(new_home("several"))]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    started = [subprocess.Popen(command, text=True, cwd=ROOT, **pipes) for _ in range(4)]
    for process in started:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, "0\n"), errors
