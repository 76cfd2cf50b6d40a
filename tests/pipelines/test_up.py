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

import pytest
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
        code = process.wait(timeout=90)
    assert code == 0
    assert time.monotonic() - begin < 60
    assert marked(f"CORECODE_HOME={home}") == {}


# Pages as small as can be: a server with a helper in a session of its own, which it ends with SIGINT, as Dagster does.
# The helper says when it is up: an interpreter that is still starting answers SIGINT with an error.
PAGE = """
import http.server, signal, subprocess, sys
sleep = "import time; print(flush=True); time.sleep(600)"
helper = subprocess.Popen([sys.executable, "-c", sleep], start_new_session=True, stdout=subprocess.PIPE)
helper.stdout.readline()
def end(*_):
    helper.send_signal(signal.SIGINT)
    print("helper ended with", helper.wait(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
SMALL = f"""
import sys
from pipelines import cli_up
from pipelines.cli import main
def page(name):
    return lambda home, port: cli_up.Page(
        name, [sys.executable, "-c", {PAGE!r}, str(port)], f"http://127.0.0.1:{{port}}", {{}})
cli_up._reconcile = lambda home: None
cli_up._dagster, cli_up._mlflow = page("Dagster"), page("MLflow")
main()
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_in_the_background_of_a_script(end: signal.Signals, tmp_path: Path) -> None:
    """There SIGINT is ignored, and the other two end everything, in peace."""
    home = tmp_path / "home"
    process = subprocess.Popen(
        [
            *("sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", SMALL, "up"),
            *("--dagster-port", str(free_port()), "--mlflow-port", str(free_port())),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home)},
    )
    assert process.stdout is not None
    assert [process.stdout.readline().split()[0] for _ in range(3)] == ["Dagster", "MLflow", "Ctrl-C"]
    assert len(marked(f"CORECODE_HOME={home}")) >= 7, "two supervisors, two pages, two helpers and the command"
    process.send_signal(signal.SIGINT)
    process.send_signal(end)
    _, errors = process.communicate(timeout=90)
    assert (process.returncode, errors) == (0, "")
    assert marked(f"CORECODE_HOME={home}") == {}
    for name in ("dagster", "mlflow"):
        assert f"helper ended with -{signal.SIGINT.value}" in (home / "logs" / f"{name}.log").read_text(
            encoding="utf-8"
        )
