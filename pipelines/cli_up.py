"""``corecode up``: the Dagster and MLflow pages on loopback, as two process trees that end together.

``dagster dev`` also runs the daemon, so that the queue, backfills, schedules and sensors work.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corecode.errors import InfrastructureError, UserError
from pipelines.home import prepare_home, require_free_port
from pipelines.instance import dagster_home
from pipelines.launchers import supervise
from pipelines.launchers.tail import last_lines
from pipelines.redact import redact

HOST = "127.0.0.1"
READY_S = 180
GRACE_S = 8.0
NEEDED_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class Page:
    """A server to start."""

    name: str
    command: Sequence[str]
    url: str
    environment: Mapping[str, str]


def serve_pages(dagster_port: int, mlflow_port: int) -> int:
    """Serve both pages until Ctrl-C (exit code 0) or until one of them fails.

    Raises:
        UserError: a port is taken, or the home folder cannot be written.
        InfrastructureError: a server did not come up or ended; the message holds its last lines.
    """
    remote = os.environ.get("MLFLOW_TRACKING_URI", "")
    require_free_port(dagster_port, "--dagster-port")
    if not remote.startswith("http"):
        if mlflow_port == dagster_port:
            raise UserError(f"port {mlflow_port} is for Dagster's page; choose another with --mlflow-port PORT")
        require_free_port(mlflow_port, "--mlflow-port")
    home = prepare_home(NEEDED_BYTES)
    _reconcile(home)
    pages = [_dagster(home, dagster_port)]
    if remote.startswith("http"):
        print(f"MLflow   {redact(remote)} (MLFLOW_TRACKING_URI)")
    else:
        pages.append(_mlflow(home, mlflow_port))
    return _serve(pages, home / "logs")


def _reconcile(home: Path) -> None:
    """Runs that a killed process left open are ended; doing it here also makes MLflow's tables before its workers,
    which would all try to make them at once."""
    from pipelines.instance import open_instance
    from pipelines.reconcile import reconcile
    from pipelines.tracking import Tracking

    with open_instance(home) as instance:
        reconcile(Tracking(home), instance)


def _dagster(home: Path, port: int) -> Page:
    command = [sys.executable, "-m", "dagster", "dev", "-m", "pipelines.definitions", "-h", HOST, "-p", str(port)]
    return Page("Dagster", command, f"http://{HOST}:{port}", {"DAGSTER_HOME": str(dagster_home(home))})


def _mlflow(home: Path, port: int) -> Page:
    from pipelines.tracking import Tracking

    store = Tracking(home)
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"),
        *("--default-artifact-root", (store.folder / "artifacts").as_uri()),
    ]
    environment = {
        "MLFLOW_BACKEND_STORE_URI": store.uri,  # not an argument, which every user of the machine can read
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    return Page("MLflow", command, f"http://{HOST}:{port}", environment)


def _serve(pages: Sequence[Page], logs: Path) -> int:
    logs.mkdir(parents=True, exist_ok=True)
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number, page in enumerate(pages):
            started.append(_start(page, logs / f"{page.name.lower()}.log", number, ended))
        for page in pages:
            _await_answer(page, ended, pages, logs)
            print(f"{page.name:8} {page.url}", flush=True)
        print("Ctrl-C ends both.", flush=True)
        raise _stopped(pages[ended.get()], logs)
    except KeyboardInterrupt:
        return 0
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait()


def _start(page: Page, log: Path, number: int, ended: queue.SimpleQueue[int]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", supervise.__file__, "--grace", str(GRACE_S), "--", *page.command]
    environment = {**os.environ, **page.environment, supervise.PARENT_VARIABLE: str(os.getpid())}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def wait() -> None:
        process.wait()
        ended.put(number)

    threading.Thread(target=wait, daemon=True).start()
    return process


def _await_answer(page: Page, ended: queue.SimpleQueue[int], pages: Sequence[Page], logs: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(page.url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            pass  # not up yet: the loop looks again
        try:
            raise _stopped(pages[ended.get(timeout=0.3)], logs)
        except queue.Empty:
            continue
    raise InfrastructureError(f"{page.name} did not answer within {READY_S} s; see {logs / page.name.lower()}.log")


def _stopped(page: Page, logs: Path) -> InfrastructureError:
    log = logs / f"{page.name.lower()}.log"
    return InfrastructureError(f"{page.name} ended; the last lines of {log}:\n{last_lines(log)}")
