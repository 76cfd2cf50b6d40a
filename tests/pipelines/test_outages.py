"""What surrounds a training dies while it runs: MLflow, and the sandbox. Nothing is lost, and nothing is invented."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coin
import pytest
from processes import marked

from corecode.config import SandboxConfig
from corecode.errors import InfrastructureError
from corecode.stages import grpo_job, make_problems, sft_jobs
from pipelines.launchers import supervise
from pipelines.launchers.local import Engine, LocalLauncher, free_port, job_environment
from pipelines.launchers.process import Supervised, start
from pipelines.tracking import VARIABLE, Tracking, run_key


def start_mlflow(store: Path, port: int) -> Supervised:
    """An MLflow server on loopback that answers."""
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{store / 'mlflow.db'}", "--default-artifact-root", str(store)),
    ]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    program = start(command, quiet, store / f"server-{time.monotonic_ns()}.log", grace_s=2.0)
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return program
        except (urllib.error.URLError, OSError):
            assert program.process.poll() is None, program.log.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, program.log.read_text(encoding="utf-8")
            time.sleep(0.2)


@pytest.mark.slow
def test_metrics_of_an_outage_arrive_when_mlflow_is_back(
    memory: Path, empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Path(shutil.copytree(empty_home / "mlflow", memory / "mlflow-outage"))
    port = free_port()
    monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    server = start_mlflow(store, port)
    try:
        tracking = Tracking(store.parent)
        run = tracking.open(run_key("outage", str(port)), "outage", {})
        run.metrics({"reward/mean": 0.1}, 1)
        assert run.flush()
        server.end()
        for step in range(2, 12):
            run.metrics({"reward/mean": step / 10}, step)
        assert not run.flush(), "nobody answers"
        assert any("metrics was not written" in problem for problem in run.problems)
        server = start_mlflow(store, port)
        run.metrics({"reward/mean": 1.2}, 12)
        run.end("FINISHED")
        history = tracking.client.get_metric_history(run.id, "reward/mean")
        assert [(point.step, point.value) for point in history] == [(step, step / 10) for step in range(1, 13)]
        assert tracking.client.get_run(run.id).info.status == "FINISHED"
    finally:
        server.end()


@pytest.mark.slow
def test_a_sandbox_that_keeps_dying_scores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing_requirement: Callable[[str], None]
) -> None:
    """Everything under the job but the job itself is killed at every logged step, in the middle of judging and between.
    The phase goes on or ends with one sentence; each sample has a verdict or no reward."""
    from corecode.training.job import run_job

    coin.need_sandbox(missing_requirement, "bubblewrap")
    mark = f"CORECODE_TEST_MARK={tmp_path.name}-{os.getpid()}"
    monkeypatch.setenv(*mark.split("=", 1))
    phase = {**coin.PHASE, "steps": 12, "validate_every": 1, "max_infrastructure_loss": 0.5}
    settings = coin.profile(coin.write_problems(tmp_path / "data"), phase=phase)
    # The processes of this backend are the job's own; those of an engine are not below it.
    settings = settings.model_copy(update={"sandbox": SandboxConfig(backend="bubblewrap", cost="steps")})
    make_problems(settings, tmp_path)
    for warmup in sft_jobs(settings, tmp_path):
        run_job(warmup.write())
    job = grpo_job(settings, tmp_path, "planner")
    assert job is not None
    killed: list[int] = []

    def kill_sandbox(_job: Any, _line: Any) -> None:
        for pid, line in marked(mark).items():
            if "corecode.training.job" in line and "supervise" not in line:
                killed.extend(below := supervise.descendants(pid))
                supervise.signal_all(below, signal.SIGKILL)

    launcher = LocalLauncher(environment=job_environment(1, "cpu", offline=True), engine=Engine(), grace_s=2)
    try:
        launcher.run([job], 1, kill_sandbox)
    except InfrastructureError as error:
        assert "no verdict" in str(error)  # noqa: PT017
    assert killed
    lines = (job.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    logged = [json.loads(line)["metrics"] for line in lines if "infrastructure/lost" in line]
    samples = phase["prompts_per_step"] * phase["group_size"]
    assert logged
    assert all(line["infrastructure/lost"] <= samples for line in logged)
    assert all(("reward/mean" in line) == (line["infrastructure/lost"] < samples) for line in logged)
    rows = [json.loads(line) for line in (job.folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows
    assert all((row["reward"] is None) == (row["verdict"] == "sandbox_error") for row in rows)
    assert marked(mark) == {}
