"""``corecode up``: both pages answer on loopback alone, Dagster's daemon works, and Ctrl-C leaves no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import listening, marked

from pipelines.launchers.local import free_port

ROOT = Path(__file__).parents[2]


def ask(page: str, query: str) -> Any:
    """What Dagster answers to a GraphQL query."""
    request = urllib.request.Request(
        f"{page}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]


def healthy_daemons(page: str) -> set[str]:
    """Kinds of Dagster's daemon that have shown a heartbeat lately."""
    found = ask(page, "{ instance { daemonHealth { allDaemonStatuses { daemonType healthy } } } }")
    return {one["daemonType"] for one in found["instance"]["daemonHealth"]["allDaemonStatuses"] if one["healthy"]}


def test_pages_answer_and_end_together(new_home: Callable[[str], Path]) -> None:
    home = new_home("pages")
    ports = [free_port(), free_port()]
    command = "from pipelines.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "up", "--dagster-port", str(ports[0]), "--mlflow-port", str(ports[1])],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home)},
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().split() for _ in range(2)]
        assert lines == [["Dagster", f"http://127.0.0.1:{ports[0]}"], ["MLflow", f"http://127.0.0.1:{ports[1]}"]]
        with urllib.request.urlopen(lines[1][1], timeout=20) as page:
            assert b"MLflow" in page.read()
        nodes = ask(lines[0][1], "{ assetNodes { assetKey { path } jobNames } }")["assetNodes"]
        assert {"planner_grpo", "champion"} <= {node["assetKey"]["path"][0] for node in nodes}
        assert listening(marked(f"CORECODE_HOME={home}")) == {"127.0.0.1"}
        deadline = time.monotonic() + 120
        while not {"SCHEDULER", "SENSOR", "QUEUED_RUN_COORDINATOR", "BACKFILL"} <= healthy_daemons(lines[0][1]):
            assert time.monotonic() < deadline, healthy_daemons(lines[0][1])
            time.sleep(1)
    finally:
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=30)
    assert code == 0
    assert time.monotonic() - begin < 20
    assert marked(f"CORECODE_HOME={home}") == {}
