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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from postgres import Postgres, programs

from assets import STAGES
from corecode.errors import InfrastructureError
from pipelines.launchers.local import free_port
from pipelines.tracking import Tracking, run_key

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
PROFILE = ["smoke", "--seed", "3", "--set", "dataset.test=60"]
# The server may take long on a busy machine; an outage must not.
PATIENT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}

# Generous, since each test starts several servers and chains, and the machine may be shared.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def compose(name: str) -> dict[str, Any]:
    """A service of the compose file."""
    return yaml.safe_load((INFRA / "compose.yaml").read_text(encoding="utf-8"))["services"][name]


@dataclass
class Stores:
    """Postgres with both databases, the MLflow server on it, and a DAGSTER_HOME."""

    folder: Path
    postgres: Postgres
    port: int
    artifacts: Path = field(init=False)
    _mlflow: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.artifacts = self.folder / "artifacts"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use the stores."""
        return {
            **self.postgres.environment("dagster"),
            "DAGSTER_HOME": str(self.folder / "dagster"),
            "MLFLOW_TRACKING_URI": self.url,
            **PATIENT,
        }

    def start_mlflow(self) -> None:
        """Start the server with the compose file's own command and wait until it is healthy."""
        service = compose("mlflow")
        words = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", word) for word in service["command"][2:]]  # the defaults
        options = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        options |= {"host": "127.0.0.1", "port": str(self.port), "artifacts-destination": str(self.artifacts)}
        command = [f"--{name}={value}" if value else f"--{name}" for name, value in options.items()]
        with (self.folder / "mlflow.log").open("ab") as log:
            self._mlflow = subprocess.Popen(
                [sys.executable, "-m", *service["command"][:2], *command],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    **{name: value for name, value in service["environment"].items() if name.startswith("MLFLOW_")},
                    **self.postgres.environment("mlflow"),
                },
                start_new_session=True,
            )
        deadline = time.monotonic() + 600
        while not self.healthy():
            assert self._mlflow.poll() is None, (self.folder / "mlflow.log").read_text(encoding="utf-8")[-3000:]
            assert time.monotonic() < deadline, "the MLflow server never answered"
            time.sleep(0.5)

    def healthy(self, **headers: str) -> bool:
        """Whether the server answers a request with these headers that could change something."""
        address = f"{self.url}/api/2.0/mlflow/experiments/search"
        request = urllib.request.Request(
            address, b'{"max_results": 1}', {"Content-Type": "application/json", **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop_mlflow(self) -> None:
        if self._mlflow is not None:
            os.killpg(self._mlflow.pid, signal.SIGKILL)
            self._mlflow.wait()
            self._mlflow = None


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


def run_script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = try_script(name, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done


def try_script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [str(INFRA / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**kept, **environment})


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
    from pipelines.instance import open_instance

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


def test_the_services_of_the_compose_file_run_a_partition(using: Stores, tmp_path: Path) -> None:
    """Code location, page and daemon with the commands of the file; a run goes through the page, the queue and both
    stores."""
    home = tmp_path / "home"
    ports = {4000: free_port(), 3000: free_port()}
    workspace = yaml.safe_load((INFRA / "postgres" / "workspace.yaml").read_text(encoding="utf-8"))
    server = workspace["load_from"][0]["grpc_server"]
    assert (server["host"], server["port"]) == ("code-location", 4000)
    server |= {"host": "127.0.0.1", "port": ports[4000]}
    (tmp_path / "workspace.yaml").write_text(yaml.safe_dump(workspace), encoding="utf-8")
    changes = {
        "=0.0.0.0": "=127.0.0.1",
        "=pipelines.definitions": "=fake_location",
        "=/opt/dagster/workspace.yaml": f"={tmp_path / 'workspace.yaml'}",
        **{f"={port}": f"={mine}" for port, mine in ports.items()},
        **{f":{port}": f":{mine}" for port, mine in ports.items()},
    }
    environment = {**os.environ, "CORECODE_HOME": str(home), "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}

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
    try:
        for name in ("code-location", "dagster-webserver", "dagster-daemon"):
            with (tmp_path / f"{name}.log").open("wb") as log:
                started[name] = subprocess.Popen(
                    local(compose(name)["command"]), stdout=log, stderr=log, env=environment, start_new_session=True
                )
            until(lambda name=name: healthy(name), started[name], tmp_path / f"{name}.log", pause=2)
        page = f"http://127.0.0.1:{ports[3000]}/graphql"
        run_id = launch(page, "smoke|3")

        def status() -> str:
            query = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
            return ask(page, query, {"id": run_id})["runOrError"]["status"]

        until(lambda: status() in ("SUCCESS", "FAILURE", "CANCELED"), started["dagster-daemon"], pause=1)
        assert status() == "SUCCESS", (tmp_path / "code-location.log").read_text(encoding="utf-8")[-3000:]
    finally:
        for process in started.values():
            os.killpg(process.pid, signal.SIGTERM)
        for process in started.values():
            process.wait(timeout=120)
    runs = tracked(using, home / "runs" / f"smoke-seed3-{run_id[:8]}")
    assert {"smoke-seed3-" + run_id[:8], *STAGES} == set(runs)
    assert {run.info.status for run in runs.values()} == {"FINISHED"}


def until(
    reached: Callable[[], bool], process: subprocess.Popen[bytes], log: Path | None = None, pause: float = 0.5
) -> None:
    """Wait for something that a process brings about."""
    deadline = time.monotonic() + 900
    while not reached():
        assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:] if log else "the process ended"
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")[-3000:] if log else "it never happened"
        time.sleep(pause)


def ask(page: str, query: str, variables: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(page, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        result = json.load(answer)
    assert not result.get("errors"), result
    return result["data"]


def launch(page: str, partition: str) -> str:
    """Start the whole chain for a partition, as a click on the page does; the run's id."""
    profile, seed = partition.split("|")
    tags = {"dagster/partition": partition, "dagster/partition/profile": profile, "dagster/partition/seed": seed}
    parameters = {
        "selector": {"repositoryLocationName": "corecode", "repositoryName": "__repository__", "jobName": "train"},
        "runConfigData": {"resources": {"run": {"config": {"overrides": ["dataset.test=60"]}}}},
        "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
    }
    query = """mutation($parameters: ExecutionParams!) { launchRun(executionParams: $parameters) {
        __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
        ... on RunConfigValidationInvalid { errors { message } } } }"""
    answer = ask(page, query, {"parameters": parameters})["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    return answer["run"]["runId"]


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
