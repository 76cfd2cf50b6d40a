"""What happens when the sandbox itself, its owner or its engine dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from sandbox import Judgement, Limits, Program, Sandbox, SandboxUnavailable, TestCase, Verdict, open_sandbox, pool

ROOT = Path(__file__).parents[2]
RIGHT = Program("print(5)", (TestCase.stdio("", "5"),))
SLEEPER = Program("import time\ntime.sleep(3)\nprint(5)", (TestCase.stdio("", "5"),), limits=Limits(wall_s=20))


def runners(pid: int | str = "self") -> list[int]:
    """Processes of this machine that run the sandbox's boot code and descend from ``pid``, oldest first."""
    top = os.getpid() if pid == "self" else int(pid)
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found: list[int] = []
    for child in sorted(parents):
        above = child
        while above in parents and above != top:
            above = parents[above]
        if above == top and child != top and _is_runner(child):
            found.append(child)
    return found


def _is_runner(pid: int) -> bool:
    try:
        return b"sandbox.runner" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def judge_in_thread(sandbox: Sandbox, programs: list[Program]) -> tuple[threading.Thread, list[Judgement]]:
    results: list[Judgement] = []
    thread = threading.Thread(target=lambda: results.extend(sandbox.judge(programs)))
    thread.start()
    return thread, results


def wait_for(condition: object, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_a_killed_sandbox_is_replaced_and_its_program_tried_again() -> None:
    with open_bubblewrap() as sandbox:
        thread, results = judge_in_thread(sandbox, [SLEEPER, RIGHT, RIGHT])
        time.sleep(1)
        kill_all(runners())
        thread.join(60)
        assert [judgement.verdict for judgement in results] == [Verdict.ACCEPTED] * 3


def test_a_program_whose_sandbox_dies_twice_is_a_sandbox_error() -> None:
    with open_bubblewrap() as sandbox:
        thread, results = judge_in_thread(sandbox, [SLEEPER, RIGHT])
        for _ in range(2):
            wait_for(lambda: len(runners()) >= 3)  # bubblewrap's own process aside: runner, zygote, program
            time.sleep(0.3)
            kill_all(runners())
            time.sleep(0.2)
        thread.join(60)
        assert [judgement.verdict for judgement in results] == [Verdict.SANDBOX_ERROR, Verdict.ACCEPTED]
        with pytest.raises(ValueError, match="no pass ratio"):
            _ = results[0].pass_ratio


def test_a_silent_sandbox_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SILENCE_S", 1.0)
    quick = Program("print(5)", RIGHT.tests, limits=Limits(wall_s=2))
    with open_bubblewrap() as sandbox:
        for pid in runners():
            os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        assert sandbox.judge([quick])[0].verdict is Verdict.ACCEPTED
        assert time.monotonic() - started < 60


def test_closing_ends_what_runs_and_what_waits() -> None:
    sandbox = open_bubblewrap()
    thread, results = judge_in_thread(sandbox, [SLEEPER] * 5)
    time.sleep(1)
    sandbox.close()
    thread.join(60)
    assert [judgement.verdict for judgement in results] == [Verdict.SANDBOX_ERROR] * 5
    assert runners() == []
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.judge([RIGHT])
    sandbox.close()


def open_bubblewrap() -> Sandbox:
    try:
        return open_sandbox("bubblewrap", workers=1)
    except SandboxUnavailable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no bubblewrap sandbox: {error}")


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


OWNER = """
import sys
from sandbox import Limits, Program, TestCase, open_sandbox
sandbox = open_sandbox(sys.argv[1], workers=2)
print("open", flush=True)
loop = Program("while True: pass", (TestCase.stdio("", ""),), limits=Limits(cpu_s=60))
sandbox.judge([loop] * 4)
"""


def test_nothing_outlives_a_killed_owner(backend: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, backend], stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"open\n"
    time.sleep(2)
    inside = runners(owner.pid)
    owner.kill()
    owner.wait()
    if backend == "bubblewrap":
        assert inside
        wait_for(lambda: not [pid for pid in inside if _is_runner(pid)])
    else:
        name = f"corecode-sandbox-{owner.pid}-"
        from sandbox.image import connect

        client = connect()
        wait_for(lambda: not client.containers.list(all=True, filters={"name": name}, ignore_removed=True), 30)
        client.close()


@pytest.mark.parametrize("backend", ["docker"], indirect=True)
@pytest.mark.usefixtures("backend")
def test_a_container_that_the_engine_forgot_is_swept_on_opening() -> None:
    from sandbox import docker_engine, image

    client = image.connect()
    dead = docker_engine.owner().rsplit("/", 2)[0] + "/1/0"  # process 1 did not start at time 0 of this boot's owner
    labels = {docker_engine.LABEL: "1", docker_engine.OWNER_LABEL: dead}
    orphan = client.containers.create(image.build(client), ["python3", "-c", ""], labels=labels, network_mode="none")
    open_sandbox("docker", workers=1).close()
    assert client.containers.list(all=True, filters={"id": orphan.id}, ignore_removed=True) == []
    client.close()


@pytest.mark.docker
def test_a_killed_engine_gives_sandbox_errors_and_then_works_again() -> None:
    """A private engine is killed in the middle of a batch and started again."""
    tmp_path = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))  # the path of a socket has at most 104 characters
    script = ROOT / "infra/docker/start_engine.sh"
    started = subprocess.run([script, tmp_path], capture_output=True, text=True)
    if started.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(started.stderr)
        pytest.skip(f"no private engine: {started.stderr.strip()}")
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = started.stdout.strip()
    program = Program("import time\ntime.sleep(0.1)\nprint(5)", RIGHT.tests)
    try:
        with open_sandbox("docker", workers=2) as sandbox:
            thread, results = judge_in_thread(sandbox, [program] * 120)
            time.sleep(3)
            os.kill(int((tmp_path / "docker.pid").read_text()), signal.SIGKILL)
            thread.join(60)
            seen = Counter(judgement.verdict for judgement in results)
            assert set(seen) == {Verdict.ACCEPTED, Verdict.SANDBOX_ERROR}
            assert sum(seen.values()) == 120
            assert {j.verdict for j in sandbox.judge([RIGHT] * 3)} == {Verdict.SANDBOX_ERROR}
            subprocess.run([script, tmp_path], check=True, capture_output=True)
            assert {j.verdict for j in sandbox.judge([RIGHT] * 6)} == {Verdict.ACCEPTED}
    finally:
        subprocess.run([script, "stop", tmp_path], check=False)
        shutil.rmtree(tmp_path)
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before
