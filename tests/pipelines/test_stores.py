"""Both stores on a real Postgres, with MLflow as the server that infra/compose.yaml describes: what they hold after a
run, after an outage of either, and after a backup was put back."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dagster as dg
import pytest
import yaml
from deployment import INFRA, Page, Stores, compose, run_script, try_script
from postgres import PASSWORD, Postgres, programs
from processes import marked

from assets import STAGES
from corecode.errors import InfrastructureError
from pipelines.instance import open_instance
from pipelines.launchers.local import free_port
from pipelines.tracking import Tracking, run_key

ROOT = Path(__file__).parents[2]
SECRETS = {PASSWORD, quote(PASSWORD), quote(PASSWORD, safe=""), json.dumps(PASSWORD)[1:-1]}
"""The password of Postgres as a text, a URL and JSON would hold it."""
LONG = ["coder_grpo.steps=60", "coder_grpo.checkpoint_every=5", "coder_grpo.validate_every=60"]
"""A phase that can be killed between two of its checkpoints."""
PROFILE = ["smoke", "--seed", "3", "--set", "dataset.test=60"]

# Generous, since each test starts several servers and chains, and the machine may be shared.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def stores(memory: Path, missing_requirement: Callable[[str], None]) -> Iterator[Stores]:
    if programs() is None:
        missing_requirement("no Postgres (Debian: apt-get install --no-install-recommends postgresql)")
    folder = memory / "stores"
    folder.mkdir()
    for path in (memory, folder):
        path.chmod(0o755)  # Postgres runs as a user of its own
    made = Stores(folder, Postgres(folder / "postgres", free_port()), free_port())
    try:
        secrets = {"DAGSTER_DB_PASSWORD": "it's : @ dagster", "MLFLOW_DB_PASSWORD": "%41 mlflow"}
        run_script("postgres/create_databases.sh", **made.postgres.environment(), **secrets)
        (folder / "dagster").mkdir()
        shutil.copy(INFRA / "postgres" / "dagster.yaml", folder / "dagster")
        made.artifacts.mkdir()
        made.start_mlflow()
        yield made
    finally:
        made.stop_mlflow()
        made.postgres.stop()


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def start(stores: Stores, home: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fake_chain.py")), "run", *PROFILE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            **stores.environment,
            "CORECODE_HOME": str(home),
            "PYTHONPATH": str(ROOT),
            **environment,
        },
    )


def finish(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=900)
    assert not [secret for secret in SECRETS if secret in out + err]
    return Ended(process.returncode, out, err)


def wait_for(folder: Path, pattern: str) -> Path:
    deadline = time.monotonic() + 600
    while not (found := list(folder.glob(pattern))):
        assert time.monotonic() < deadline, f"{pattern} never appeared"
        time.sleep(0.1)
    return found[0].parent


def tracked(stores: Stores, run: Path) -> Mapping[str, Any]:
    """MLflow's runs of one pipeline run: the whole run by its name, those of a stage by its name."""
    store = Tracking(run.parents[1])
    wanted = f"tags.`corecode.run` = '{run.name}' AND tags.`corecode.kind` != 'arm'"
    found = store.client.search_runs([store.experiment], wanted)
    return {one.data.tags.get("corecode.stage", one.info.run_name): one for one in found}


def dagster_status(run: Path) -> str:
    with open_instance(run.parents[1]) as instance:
        return next(one.status.value for one in instance.get_runs() if run.name.endswith(one.run_id[:8]))


@pytest.fixture
def using(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> Stores:
    """The stores, for this process too."""
    for name, value in stores.environment.items():
        monkeypatch.setenv(name, value)
    return stores


@pytest.fixture(scope="module")
def done(stores: Stores) -> Path:
    """A run that succeeded."""
    home = stores.folder / "done"
    ended = finish(start(stores, home))
    assert ended.code == 0, ended.err
    return next((home / "runs").iterdir())


def test_a_run_is_whole_in_both_stores_and_nothing_is_written_beside_them(using: Stores, done: Path) -> None:
    runs = dict(tracked(using, done))
    parent = runs.pop(done.name)
    assert set(runs) == set(STAGES)
    assert {run.info.status for run in (parent, *runs.values())} == {"FINISHED"}
    assert dagster_status(done) == "SUCCESS"
    store = Tracking(done.parents[1])
    report = {one.path for one in store.client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/report.html", "report/summary.json"} <= report
    assert list(using.artifacts.rglob("report.html"))
    version = store.client.get_model_version_by_alias("corecode", "champion")
    assert version.tags["corecode.run"] == done.name
    assert parent.data.tags["dagster.run_id"][:8] == done.name[-8:]
    home = done.parents[1]
    assert not (home / "dagster").exists()
    assert not (home / "mlflow").exists()


def test_each_store_has_a_role_and_a_database_of_its_own(stores: Stores) -> None:
    grants = "SELECT has_database_privilege('{}', '{}', 'CONNECT')"
    asked = [(role, base) for role in ("dagster", "mlflow") for base in ("dagster", "mlflow")]
    answers = {(role, base): stores.postgres.query(grants.format(role, base)) == ["t"] for role, base in asked}
    assert answers == {(role, base): role == base for role, base in asked}


def test_the_mlflow_server_answers_only_to_its_names_and_pages(stores: Stores) -> None:
    assert stores.healthy(Host=f"mlflow:{stores.port}", Origin=f"http://127.0.0.1:{stores.port}")
    assert not stores.healthy(Host="attacker.example")
    assert not stores.healthy(Origin="http://attacker.example")


@pytest.mark.parametrize(
    "path", ["../escaped", "%2e%2e/escaped", "..%2fescaped", "a/../../escaped", "%2ftmp%2fescaped"]
)
def test_artifacts_cannot_leave_their_folder(stores: Stores, path: str) -> None:
    address = f"{stores.url}/api/2.0/mlflow-artifacts/artifacts/{path}"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(address, b"x", method="PUT"), timeout=60)
    assert not list(stores.folder.rglob("escaped"))
    assert not Path("/tmp/escaped").exists()


def test_an_unset_variable_of_postgres_is_named_at_the_start(stores: Stores, tmp_path: Path) -> None:
    ended = finish(start(stores, tmp_path / "home", PGPASSWORD="", PGPASSFILE="/dev/null"))
    assert ended.code == 1
    assert ended.err.count("error: ") == 1
    assert "do not answer" in ended.err
    assert "no password supplied" in ended.err


def test_a_store_that_is_away_at_the_start_is_one_message(stores: Stores, tmp_path: Path) -> None:
    home = tmp_path / "home"
    away = f"http://127.0.0.1:{free_port()}"
    for environment, sentence in (
        ({"MLFLOW_TRACKING_URI": away}, f"MLflow at {away} does not answer"),
        ({"PGPORT": str(free_port())}, "Dagster's stores"),
    ):
        ended = finish(start(stores, home, **environment))
        assert ended.code == 1
        assert ended.err.count(sentence) == 1
        assert "Traceback" not in ended.err
        assert "Retrying" not in ended.err
        assert ended.out == ""
        assert not list((home / "runs").glob("*"))


def test_two_partitions_of_smoke_go_through_the_services_of_the_compose_file(using: Stores, tmp_path: Path) -> None:
    """Code location, page and daemon with the commands of the file, and the real stages: two partitions are started
    on the page and train at once; one is canceled, a job of the other is killed after a checkpoint and goes on from it.
    A third diverges by its settings, which is not tried again. Both stores agree."""
    home = tmp_path / "home"
    ports = {4000: free_port(), 3000: free_port()}
    workspace = yaml.safe_load((INFRA / "postgres" / "workspace.yaml").read_text(encoding="utf-8"))
    server = workspace["load_from"][0]["grpc_server"]
    assert (server["host"], server["port"]) == ("code-location", 4000)
    server |= {"host": "127.0.0.1", "port": ports[4000]}
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump(workspace), encoding="utf-8")
    changes = {
        "=0.0.0.0": "=127.0.0.1",
        "=/opt/dagster/workspace.yaml": f"={tmp_path / 'workspace.yaml'}",
        **{f"={port}": f"={mine}" for port, mine in ports.items()},
        **{f":{port}": f":{mine}" for port, mine in ports.items()},
    }
    environment = {**os.environ, "CORECODE_HOME": str(home), "PYTHONPATH": str(ROOT)}

    def local(words: list[str]) -> list[str]:
        program, *rest = words
        for container, here in changes.items():
            rest = [word.replace(container, here) for word in rest]
        return [str(Path(sys.executable).with_name(program)), *rest]

    def healthy(name: str) -> bool:
        test = compose(name)["healthcheck"]["test"]
        assert test[0] == "CMD"
        return subprocess.run(local(test[1:]), capture_output=True, env=environment).returncode == 0

    started: dict[str, subprocess.Popen[bytes]] = {}

    def wait(reached: Callable[[], object]) -> None:
        until(reached, started["dagster-daemon"], tmp_path / "code-location.log", pause=1)

    with open_instance(home) as instance:
        instance.event_log_storage.set_concurrency_slots("training", 2)
    try:
        for name in ("code-location", "dagster-webserver", "dagster-daemon"):
            with (tmp_path / f"{name}.log").open("wb") as log:
                started[name] = subprocess.Popen(
                    local(compose(name)["command"]), stdout=log, stderr=log, env=environment, start_new_session=True
                )
            until(lambda name=name: healthy(name), started[name], tmp_path / f"{name}.log", pause=2)
        page = Page(f"http://127.0.0.1:{ports[3000]}/graphql")
        ids = {seed: page.launch(f"smoke|{seed}", *LONG) for seed in (5, 6)}
        wait(lambda: {page.status(run_id) for run_id in ids.values()} == {"STARTED"})

        wait(lambda: list(home.glob("runs/smoke-seed6-*/planner_grpo/job.json")))
        page.terminate(ids[6])
        wait(lambda: page.status(ids[6]) == "CANCELED")

        wait(lambda: list(home.glob("runs/smoke-seed5-*/coder_grpo/checkpoints/step-*[0-9]/")))
        for pid in job_processes(home, "smoke-seed5-", "/coder_grpo/"):
            os.kill(pid, signal.SIGKILL)
        ids[7] = page.launch("smoke|7", "sft.learning_rate=1e30")
        wait(lambda: {page.status(ids[seed]) for seed in (5, 7)} <= {"SUCCESS", "FAILURE", "CANCELED"})
    finally:
        for process in started.values():
            os.killpg(process.pid, signal.SIGTERM)
        for process in started.values():
            process.wait(timeout=120)

    whole, canceled, mistaken = (home / "runs" / f"smoke-seed{seed}-{run_id[:8]}" for seed, run_id in ids.items())
    assert (dagster_status(whole), dagster_status(canceled)) == ("SUCCESS", "CANCELED")
    with open_instance(home) as instance:
        assert not [run for run in instance.get_runs() if not run.is_finished]
        assert [step for step, _ in failures(instance, ids[5])] == ["coder_grpo"]
        assert "smoke|5" in instance.get_materialized_partitions(dg.AssetKey("champion"))
        assert "smoke|6" not in instance.get_materialized_partitions(dg.AssetKey("planner_grpo"))
        ((step, why),) = failures(instance, ids[7])
        assert step == "sft_warmup"
        assert "Failure: the training has diverged: " in why
        assert len(instance.get_runs(dg.RunsFilter(tags={"dagster/partition": "smoke|7"}))) == 1
    ended, cut, wrong = (tracked(using, run) for run in (whole, canceled, mistaken))
    assert {name for name, run in wrong.items() if run.info.status == "FAILED"} == {mistaken.name, "sft_warmup"}
    assert set(wrong) == {mistaken.name, "problems", "sft_warmup"}
    assert set(ended) == {whole.name, *STAGES}
    assert {run.info.status for run in ended.values()} == {"FINISHED"}
    assert {name for name, run in cut.items() if run.info.status == "KILLED"} == {canceled.name, "planner_grpo"}
    assert {run.info.status for run in cut.values()} == {"FINISHED", "KILLED"}
    assert not Tracking(home).running()
    summary = json.loads((whole / "collaboration_gain" / "summary.json").read_text(encoding="utf-8"))
    assert ended[whole.name].data.tags["corecode.digest"] == summary["digests"]["metrics"]
    phase = whole / "coder_grpo"
    (after,) = re.findall(r"coder_grpo continues after step (\d+)$", (phase / "job.log").read_text(), re.MULTILINE)
    assert int(after) in range(5, 60, 5)
    lines = [json.loads(line) for line in (phase / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = {line["step"]: line["metrics"]["policy/loss"] for line in lines if "policy/loss" in line["metrics"]}
    assert list(losses) == list(range(1, 61))
    points = Tracking(home).client.get_metric_history(ended["coder_grpo"].info.run_id, "policy/loss")
    assert [(point.step, point.value) for point in points] == list(losses.items())
    assert not marked(f"CORECODE_HOME={home}")
    assert files_with_a_secret(tmp_path) == []


def failures(instance: dg.DagsterInstance, run_id: str) -> list[tuple[str | None, str]]:
    """Each attempt of a run that failed: its step and the sentence."""
    events = [record.dagster_event for record in instance.all_logs(run_id) if record.is_dagster_event]
    kinds = (dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.STEP_UP_FOR_RETRY)
    failed = [event for event in events if event is not None and event.event_type in kinds]
    return [(event.step_key, event.event_specific_data.error.to_string()) for event in failed]


def files_with_a_secret(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(secret.encode() in path.read_bytes() for secret in SECRETS)]


def job_processes(home: Path, *parts: str) -> list[int]:
    """Pids of the training jobs of a home whose command lines hold these texts; without their supervisors."""
    return [
        pid
        for pid, line in marked(f"CORECODE_HOME={home}").items()
        if "-m corecode.training.job" in line and "supervise" not in line and all(part in line for part in parts)
    ]


def until(
    reached: Callable[[], object], process: subprocess.Popen[bytes], log: Path | None = None, pause: float = 0.5
) -> None:
    """Wait for something that a process brings about."""
    deadline = time.monotonic() + 900
    while not reached():
        assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:] if log else "the process ended"
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")[-3000:] if log else "it never happened"
        time.sleep(pause)


def test_postgres_goes_away_in_the_middle(using: Stores) -> None:
    home = using.folder / "middle"
    process = start(using, home, FAKE_HOLD="planner_grpo")
    job = wait_for(home, "runs/*/planner_grpo/held")
    using.postgres.stop()
    (job / "go").touch()
    ended = finish(process)
    assert ended.code == 1
    assert "do not answer" in ended.err
    assert "Traceback" not in ended.err
    # What was trained is there, and a later run could go on from it.
    assert (job / "result.json").is_file()
    assert (job / "model" / "model.safetensors").is_file()

    using.postgres.start()
    again = finish(start(using, home))
    assert again.code == 0, again.err
    runs = tracked(using, job.parent)
    assert runs[job.parent.name].info.status == "FAILED"
    assert {run.info.status for run in runs.values()} <= {"FINISHED", "FAILED"}
    assert runs["planner_grpo"].data.metrics["reward/mean"] == pytest.approx(0.2)
    assert dagster_status(job.parent) == "FAILURE"


def test_mlflow_goes_away_in_the_middle(using: Stores) -> None:
    home = using.folder / "lonely"
    process = start(using, home, FAKE_HOLD="planner_grpo", MLFLOW_HTTP_REQUEST_TIMEOUT="3")
    job = wait_for(home, "runs/*/planner_grpo/held")
    using.stop_mlflow()
    (job / "go").touch()
    ended = finish(process)
    assert ended.code == 1
    assert ended.err.count("error: ") == 1
    assert f"error: MLflow at {using.url} does not answer" in ended.err
    assert "Traceback" not in ended.err
    assert (job / "result.json").is_file()
    assert dagster_status(job.parent) == "FAILURE"

    using.start_mlflow()
    assert {run.info.status for run in tracked(using, job.parent).values()} <= {"FINISHED", "FAILED"}
    assert tracked(using, job.parent)["planner_grpo"].data.metrics["reward/mean"] == pytest.approx(0.2)


def test_mlflow_goes_away_at_the_end(using: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.tracking.PATIENCE_S", 0.0)
    run = Tracking(tmp_path).open(run_key("last words"), "last words", {})
    run.metrics({"loss": 1.0}, 1)
    using.stop_mlflow()
    run.metrics({"loss": 0.5}, 2)
    run.end("FINISHED")
    assert any("waits in" in problem for problem in run.problems)
    with pytest.raises(InfrastructureError, match="does not answer"):
        Tracking(tmp_path).running()
    using.start_mlflow()
    store = Tracking(tmp_path)
    assert store.client.get_run(run.id).info.status == "FINISHED"
    assert [point.value for point in store.client.get_metric_history(run.id, "loss")] == [1.0, 0.5]
    assert not list(tmp_path.rglob("*.json"))


def test_a_backup_brings_both_stores_back(using: Stores, done: Path, tmp_path: Path) -> None:
    before = {name: dict(run.data.metrics) for name, run in tracked(using, done).items()}
    server = {**using.postgres.environment(), "MLFLOW_ARTIFACTS": str(using.artifacts)}
    backup = run_script("backup.sh", str(tmp_path / "backups"), **server).stdout.splitlines()[-1]
    refused = try_script("restore.sh", backup, **server)
    assert refused.returncode == 2
    assert refused.stderr == "error: the database dagster is not empty; drop it, create it again and restore then\n"

    using.stop_mlflow()
    for name in ("dagster", "mlflow"):
        using.postgres.query(f"DROP DATABASE {name} WITH (FORCE)")
        using.postgres.query(f"CREATE DATABASE {name} OWNER {name}")
    shutil.rmtree(using.artifacts)
    using.artifacts.mkdir()
    run_script("restore.sh", backup, **server)
    assert set(using.postgres.query("SELECT tableowner FROM pg_tables WHERE schemaname = 'public'", "mlflow")) == {
        "mlflow"
    }
    using.start_mlflow()
    assert {name: dict(run.data.metrics) for name, run in tracked(using, done).items()} == before
    store = Tracking(done.parents[1])
    parent = tracked(using, done)[done.name].info.run_id
    copy = Path(store.client.download_artifacts(parent, "report/summary.json", str(tmp_path)))
    assert copy.read_bytes() == (done / "collaboration_gain" / "summary.json").read_bytes()
    assert dagster_status(done) == "SUCCESS"


def test_the_password_of_the_stores_is_written_nowhere(using: Stores, done: Path, tmp_path: Path) -> None:
    """Not after a run that ended well, nor after the outages above: no file, row, log or artifact holds it."""
    assert (done / "collaboration_gain" / "report.html").is_file()
    assert files_with_a_secret(using.folder) == [using.postgres.folder / "password"]
    for name in ("dagster", "mlflow"):
        environment = {**os.environ, **using.postgres.environment(name)}
        dumped = tmp_path / f"{name}.sql"
        subprocess.run([str(using.postgres.bin / "pg_dump"), f"--file={dumped}"], check=True, env=environment)
        assert b"smoke" in dumped.read_bytes()
    assert files_with_a_secret(tmp_path) == []
