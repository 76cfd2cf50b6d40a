"""The engine dies in the middle of a batch; the process that owns a sandbox dies. Nothing is judged wrongly or left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox import Judgement, Limits, Program, TestCase, Verdict, open_sandbox

START = Path(__file__).parents[2] / "infra" / "docker" / "start_engine.sh"
OWNER = """
import sys
from sandbox import Limits, Program, TestCase, open_sandbox
endless = Program("while True: pass", (TestCase.stdio("", ""),), limits=Limits(cpu_s=60, wall_s=120))
with open_sandbox(sys.argv[1], workers=2) as opened:
    opened.judge([Program("print(1)", (TestCase.stdio("", "1"),))] * 4)
    print("judging", flush=True)
    opened.judge([endless] * 2)
"""
"""A process that owns a sandbox at work."""


class Engine:
    """A Docker engine of this test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        subprocess.run([START, str(self.folder)], check=True, capture_output=True, text=True)

    def kill(self) -> None:
        os.kill(int((self.folder / "docker.pid").read_text()), signal.SIGKILL)

    def remove(self) -> None:
        """End the engine and everything that it started, found by the folder in its command line."""
        subprocess.run([START, "stop", str(self.folder)], check=False, capture_output=True)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        time.sleep(0.5)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", line.split()[1]], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, missing_requirement: Callable[[str], None]) -> Iterator[Engine]:
    if os.getuid() != 0 or shutil.which("dockerd") is None:
        missing_requirement("an engine of the test's own needs root and dockerd")
    folder = Path(tempfile.mkdtemp(prefix="corecode-engine-", dir="/tmp"))  # a socket's path has to be short
    started = Engine(folder)
    try:
        started.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/docker.sock")
        yield started
    finally:
        started.remove()


@pytest.mark.docker
@pytest.mark.timeout(300)
def test_a_killed_engine_costs_verdicts_but_never_makes_a_wrong_one(engine: Engine) -> None:
    program = "import time\ntime.sleep(0.05)\na, b = map(int, input().split())\nprint(a {sign} b)\n"
    batch = [
        Program(program.format(sign="+" if n % 2 else "-") + f"# {n}", (TestCase.stdio(f"{n} 1\n", f"{n + 1}\n"),))
        for n in range(200)
    ]
    right = [Verdict.ACCEPTED if n % 2 else Verdict.WRONG_ANSWER for n in range(200)]
    results: list[Judgement] = []
    with open_sandbox("docker", workers=2) as opened:
        opened.judge(batch[:8])
        worker = threading.Thread(target=lambda: results.extend(opened.judge(batch)))
        worker.start()
        time.sleep(1.5)
        engine.kill()
        started = time.monotonic()
        worker.join(timeout=90)
        assert not worker.is_alive(), "the batch does not end"
        took = time.monotonic() - started
        verdicts = [result.verdict for result in results]
        judged = [(said, want) for said, want in zip(verdicts, right, strict=True) if said is not Verdict.SANDBOX_ERROR]
        assert all(said is want for said, want in judged)
        assert 0 < len(judged) < 200
        assert took < 60
        engine.start()
        assert [result.verdict for result in opened.judge(batch[:20])] == right[:20]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += [int(part) for part in task.read_text().split()]
    return children + [deeper for child in children for deeper in below(child)]


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def containers_of(pid: int) -> list[str]:
    import docker

    from sandbox.docker_engine import LABEL, OWNER_LABEL

    client = docker.from_env()
    try:
        found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
        return [container.id for container in found if f"/{pid}/" in container.labels.get(OWNER_LABEL, "")]
    finally:
        client.close()


def test_nothing_survives_the_owner(backend: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, backend], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "judging\n"
        time.sleep(0.5)
        processes = below(owner.pid)
        if backend == "docker":
            assert len(containers_of(owner.pid)) == 2
        else:
            assert len(processes) >= 4
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()
    assert wait_until(lambda: not any(alive(pid) for pid in processes), 10)
    if backend == "docker":
        # The engine notices the closed connection; the next opening sweeps what it missed.
        wait_until(lambda: not containers_of(owner.pid), 20)
    with open_sandbox(backend, workers=1) as opened:
        assert opened.judge([Program("print(1)", (TestCase.stdio("", "1"),))])[0].verdict is Verdict.ACCEPTED
        if backend == "docker":
            assert containers_of(owner.pid) == []
    top, name = Path("/sys/fs/cgroup"), f"corecode-sandbox-{owner.pid}-*"
    assert [*top.glob(name), *top.glob(f"*/{name}")] == []


def test_a_dead_runner_is_replaced(backend: str) -> None:
    """A sandbox is killed from outside: its program is judged again, and none wrongly."""
    slow = Program("import time; time.sleep(0.3); print(1)", (TestCase.stdio("", "1"),), limits=Limits(cpu_s=2))
    results: list[Judgement] = []
    with open_sandbox(backend, workers=1) as opened:
        worker = threading.Thread(target=lambda: results.extend(opened.judge([slow] * 6)))
        worker.start()
        time.sleep(0.5)
        if backend == "docker":
            import docker

            client = docker.from_env()
            client.containers.get(containers_of(os.getpid())[0]).kill()
            client.close()
        else:
            for pid in below(os.getpid()):
                if b"bwrap" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        worker.join(timeout=60)
    assert [result.verdict for result in results] == [Verdict.ACCEPTED] * 6
