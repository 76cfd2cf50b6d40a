"""Dagster's own daemon and queue: a backfill of two partitions, of which one is killed, started again by the daemon and
then canceled, and the other fails once and is tried again. Training is replaced (fake_chain.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from processes import marked

from assets import STAGES
from pipelines.definitions import defs
from pipelines.instance import dagster_home, open_instance
from pipelines.launchers import supervise
from pipelines.tracking import Tracking

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PATIENCE_S = 400.0


def wait_until(what: str, reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(1)


@contextmanager
def daemon(home: Path, log: Path) -> Iterator[None]:
    """The daemon with a code location whose jobs of seed 0 never end and whose Coder GRPO of seed 1 fails once."""
    folder = dagster_home(home)
    environment = {
        **os.environ,
        "CORECODE_HOME": str(home),
        "DAGSTER_HOME": str(folder),
        "PYTHONPATH": f"{ROOT}:{HERE}",
        "FAKE_SLOW": "-seed0-:planner_grpo",
        "FAKE_FAIL_ONCE": "-seed1-:coder_grpo",
    }
    # Under the supervisor, as with `corecode up`: a test that fails leaves no process either.
    command = [sys.executable, "-I", supervise.__file__, "--", sys.executable, "-m", "dagster._daemon", "run"]
    command += ["-f", str(HERE / "fake_location.py"), "-d", str(ROOT)]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, env=environment)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def backfill(instance: dg.DagsterInstance, *partitions: str) -> str:
    """Ask for partitions of all assets, as Dagster's page does."""
    from dagster._core.execution.backfill import PartitionBackfill

    graph = defs.resolve_asset_graph()
    asked = PartitionBackfill.from_asset_partitions(
        backfill_id="twoseeds",
        asset_graph=graph,
        partition_names=list(partitions),
        asset_selection=[dg.AssetKey(name) for name in STAGES],
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=False,
        title=None,
        description=None,
        run_config=None,
    )
    instance.add_backfill(asked)
    return asked.backfill_id


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_backfill_through_the_queue(new_home: Callable[[str], Path], tmp_path: Path) -> None:
    home = new_home("daemon")

    def runs(seed: int, *statuses: str) -> list[dg.DagsterRun]:
        """Dagster runs of a seed, oldest first."""
        found = instance.get_runs(dg.RunsFilter(tags={"dagster/partition": f"smoke|{seed}"}))[::-1]
        return [run for run in found if not statuses or run.status.value in statuses]

    def slow() -> list[Path]:
        return list(home.glob("runs/smoke-seed0-*/planner_grpo/slow"))

    with open_instance(home) as instance:
        backfill(instance, "smoke|0", "smoke|1")
        with daemon(home, tmp_path / "daemon.log"):
            wait_until("the first seed trains", slow)
            assert [run.status.value for run in runs(1)] == ["QUEUED"], "one run with models at a time"
            instance.event_log_storage.set_concurrency_slots("training", 2)

            slow()[0].unlink()
            (first,) = runs(0)
            os.kill(int(first.tags["corecode/process"].split("/")[-2]), signal.SIGKILL)
            wait_until("the killed run has failed", lambda: runs(0, "FAILURE"))
            wait_until("the daemon has started it again", lambda: slow() and runs(0, "STARTED"))
            assert len(list(home.glob("runs/smoke-seed0-*"))) == 1, "it goes on in its folder"

            (again,) = runs(0, "STARTED")
            assert instance.run_launcher.terminate(again.run_id)
            wait_until("it is canceled", lambda: runs(0, "CANCELED"))
            wait_until("the second seed is done", lambda: runs(1, "SUCCESS"))
            store = Tracking(home)
            wait_until("MLflow has nothing open", lambda: not store.running())
            wait_until("the backfill has ended", lambda: instance.get_backfill("twoseeds").status.value != "REQUESTED")

        (done,) = runs(1)
        events = [record.dagster_event for record in instance.all_logs(done.run_id) if record.is_dagster_event]
        retried = [event.step_key for event in events if event.event_type is dg.DagsterEventType.STEP_UP_FOR_RETRY]
        assert retried == ["coder_grpo"]
        assert instance.get_materialized_partitions(dg.AssetKey("champion")) == {"smoke|1"}
        assert not [run for run in instance.get_runs() if not run.is_finished]
    tracked = [(run.info.run_name, run.info.status) for run in store.client.search_runs([store.experiment])]
    assert sorted(status for name, status in tracked if name.startswith("smoke-")) == ["FINISHED", "KILLED"]
    assert sorted(status for name, status in tracked if name.startswith("planner_grpo ")) == ["FINISHED", "KILLED"]
    assert {status for _, status in tracked} == {"FINISHED", "KILLED"}
    wait_until("every process has ended", lambda: not marked(f"CORECODE_HOME={home}"))
