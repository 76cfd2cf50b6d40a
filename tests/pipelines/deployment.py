"""The deployment of infra/compose.yaml without containers: Postgres with both databases, MLflow, Dagster's page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from postgres import Postgres

INFRA = Path(__file__).parents[2] / "infra"
# The server may take long on a busy machine; an outage must not.
PATIENT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "60", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}


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


@dataclass(frozen=True)
class Page:
    """What clicks on Dagster's page do."""

    address: str

    def ask(self, query: str, **variables: Any) -> Any:
        """The answer to the only field of a query."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self.address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            result = json.load(answer)
        assert not result.get("errors"), result
        (found,) = result["data"].values()
        return found

    def launch(self, partition: str, *overrides: str) -> str:
        """Start the whole chain for a partition, with fields changed in the launchpad; the run's id."""
        profile, seed = partition.split("|")
        tags = {"dagster/partition": partition, "dagster/partition/profile": profile, "dagster/partition/seed": seed}
        parameters = {
            "selector": {"repositoryLocationName": "corecode", "repositoryName": "__repository__", "jobName": "train"},
            "runConfigData": {"resources": {"run": {"config": {"overrides": overrides}}}},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        query = """mutation($parameters: ExecutionParams!) { launchRun(executionParams: $parameters) {
            __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
            ... on RunConfigValidationInvalid { errors { message } } } }"""
        answer = self.ask(query, parameters=parameters)
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def status(self, run_id: str) -> str:
        return self.ask("query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", id=run_id)["status"]

    def terminate(self, run_id: str) -> None:
        answer = self.ask("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run_id)
        assert answer == {"__typename": "TerminateRunSuccess"}


def run_script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = try_script(name, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done


def try_script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    command = [str(INFRA / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**kept, **environment})
