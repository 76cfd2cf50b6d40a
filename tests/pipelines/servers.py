"""Real servers for tests: MLflow's store, and a served model."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pipelines.launchers.local import free_port

PATIENCE_S = 300


@contextmanager
def serving(command: list[str], url: str, folder: Path, environment: Mapping[str, str]) -> Generator[None]:
    """Run a server in a session of its own until the end; it answers at ``url`` when this returns."""
    log = folder / f"server-{time.monotonic_ns()}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=dict(environment), stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-3000:]
            assert time.monotonic() < deadline, f"{url} never answered"
            try:
                with urllib.request.urlopen(url, timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.3)
        yield
    finally:
        with suppress(ProcessLookupError):  # it ended by itself, and its workers with it
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def mlflow_server(home: Path) -> Generator[str]:
    """A tracking server over a home's store that also keeps the artifacts; its address."""
    database = home / "mlflow" / "mlflow.db"
    with closing(sqlite3.connect(database)) as tables:
        # Made in a home, the experiment keeps artifacts in a folder; a new one keeps them with the server.
        tables.execute("UPDATE experiments SET name = 'local' WHERE name = 'core-code'")
        tables.commit()
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--serve-artifacts", "--artifacts-destination", str(home / "kept")),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"} | {
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{database}",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    with serving(command, f"{uri}/health", home, environment):
        yield uri
