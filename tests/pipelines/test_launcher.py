"""The launcher and its supervisor: results, errors, and no process left whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from corecode.errors import InfrastructureError, UserError
from pipelines.launchers import supervise
from pipelines.launchers.local import Engine, LocalLauncher, job_environment
from pipelines.launchers.process import JOB_VARIABLE, sweep
from pipelines.launchers.tail import JsonTail, last_lines

# Two ranks in sessions of their own that ignore SIGTERM, each with a helper in yet another session.
STUBBORN = """
    import subprocess, sys, time
    rank = ("import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)")
    ranks = [subprocess.Popen([sys.executable, "-c", rank], start_new_session=True) for _ in range(2)]
    open(sys.argv[1], "w").close()
    time.sleep(600)
"""


@dataclass
class FakeJob:
    """A job whose program is given as text."""

    name: str
    folder: Path
    program: str
    spec: dict[str, Any] = field(default_factory=dict)

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "job.py"
        path.write_text(textwrap.dedent(self.program), encoding="utf-8")
        return path


def fake_command(job: Any, path: Path) -> list[str]:
    return [sys.executable, str(path), str(job.folder / "started")]


def launcher(**changes: Any) -> LocalLauncher:
    return LocalLauncher(**{"command": fake_command, "grace_s": 0.5, **changes})


def marked(mark: str) -> list[int]:
    """Pids of living processes whose environment holds a text."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_for(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A text that every process started in this test carries in its environment."""
    text = f"CORECODE_TEST_MARK={tmp_path.name}-{os.getpid()}"
    monkeypatch.setenv(*text.split("=", 1))
    return text


def others(mark: str) -> list[int]:
    return [pid for pid in marked(mark) if pid != os.getpid()]


def test_metrics_arrive_in_order_and_jobs_run_side_by_side(tmp_path: Path) -> None:
    program = """
        import json, pathlib, sys, time
        folder = pathlib.Path(__file__).parent
        partner = folder.parent / {partner!r}
        pathlib.Path(sys.argv[1]).touch()
        while not (partner / "started").exists():  # ends only when both run at the same time
            time.sleep(0.01)
        with open(folder / "metrics.jsonl", "w") as file:
            for step in range(1, 4):
                file.write(json.dumps({{"step": step, "of": 3, "metrics": {{"loss": 1 / step}}}}) + "\\n")
                file.flush()
    """
    jobs = [FakeJob(name, tmp_path / name, program.format(partner=other)) for name, other in (("a", "b"), ("b", "a"))]
    seen: list[tuple[str, int]] = []
    launcher().run(jobs, 2, lambda job, line: seen.append((job.name, line["step"])))
    assert sorted(seen) == [(name, step) for name in "ab" for step in (1, 2, 3)]
    assert [step for name, step in seen if name == "a"] == [1, 2, 3]


def test_one_at_a_time_keeps_the_order(tmp_path: Path) -> None:
    program = """
        import pathlib, time
        log = pathlib.Path(__file__).parent.parent / "log"
        with log.open("a") as file: file.write("+")
        time.sleep(0.05)
        with log.open("a") as file: file.write("-")
    """
    launcher().run([FakeJob(str(i), tmp_path / str(i), program) for i in range(3)], 1, lambda job, line: None)
    assert (tmp_path / "log").read_text(encoding="utf-8") == "+-+-+-"


def test_failure_shows_the_end_of_the_log_and_ends_the_others(tmp_path: Path, mark: str) -> None:
    failing = FakeJob("bad", tmp_path / "bad", "print('loading'); raise RuntimeError('weights are gone')")
    lasting = FakeJob("long", tmp_path / "long", STUBBORN)
    with pytest.raises(InfrastructureError, match=r"job bad ended with exit code 1(.|\n)*weights are gone"):
        launcher().run([lasting, failing], 2, lambda job, line: None)
    assert others(mark) == []


def test_exit_code_2_is_the_users_mistake_in_its_own_words(tmp_path: Path) -> None:
    program = """
        import sys
        print("error: no such model", file=sys.stderr)
        for rank in range(32):
            print(f"[launch.py] rank {rank} exits with return code = 2")  # a launcher of ranks has the last word
        sys.exit(2)
    """
    job = FakeJob("j", tmp_path / "j", program)
    with pytest.raises(UserError, match=r"^no such model$"):
        launcher().run([job], 1, lambda job, line: None)


def test_settings_that_a_library_refuses_are_a_mistake_and_the_log_is_named(tmp_path: Path) -> None:
    program = """
        import sys
        from corecode.training import job
        def refuse(path): raise ValueError("width 3 does not divide\\nby 2")
        job.run_job = refuse
        sys.exit(job.main(["job.json"]))
    """
    with pytest.raises(UserError) as caught:
        launcher().run([FakeJob("j", tmp_path / "j", program)], 1, lambda job, line: None)
    log = tmp_path / "j" / "job.log"
    assert (
        str(caught.value)
        == f"these settings do not go together (ValueError: width 3 does not divide by 2) (log: {log})"
    )
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_an_infrastructure_failure_that_a_job_explains_is_said_in_its_words(tmp_path: Path) -> None:
    job = FakeJob("j", tmp_path / "j", "import sys; print('noise'); sys.exit('error: the sandbox is gone')")
    with pytest.raises(InfrastructureError, match=r"^job j: the sandbox is gone \(log: .*job.log\)$"):
        launcher().run([job], 1, lambda job, line: None)


def test_full_disk_in_a_job_is_said_in_one_sentence(tmp_path: Path) -> None:
    program = "open('/dev/full', 'w').write('x' * 100000)"
    with pytest.raises(UserError, match="the disk is full: job j could not write under"):
        launcher().run([FakeJob("j", tmp_path / "j", program)], 1, lambda job, line: None)


def test_death_by_signal_is_named(tmp_path: Path) -> None:
    program = "import os; os.kill(os.getpid(), 9)"
    with pytest.raises(InfrastructureError, match="signal 9"):
        launcher().run([FakeJob("j", tmp_path / "j", program)], 1, lambda job, line: None)


def test_interrupt_leaves_no_process(tmp_path: Path, mark: str) -> None:
    def interrupt(job: Any, line: Any) -> None:
        raise KeyboardInterrupt

    metrics = 'open(__file__.replace("job.py", "metrics.jsonl"), "w").write(\'{"step": 1}\\n\')'
    job = FakeJob("j", tmp_path / "j", STUBBORN.replace('open(sys.argv[1], "w").close()', metrics))
    with pytest.raises(KeyboardInterrupt):
        launcher().run([job], 1, interrupt)
    assert others(mark) == []


def test_no_process_outlives_a_job_that_ended_well(tmp_path: Path, mark: str) -> None:
    program = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    launcher().run([FakeJob("j", tmp_path / "j", program)], 1, lambda job, line: None)
    assert others(mark) == []


def test_killed_supervisor_leaves_no_process(tmp_path: Path, mark: str) -> None:
    """SIGKILL of the supervisor while ranks ignore SIGTERM: the launcher sweeps what belongs to init by then."""
    program = STUBBORN.replace('open(sys.argv[1], "w")', "time.sleep(0.5); import os; os.kill(os.getppid(), 9)\n    #")
    with pytest.raises(InfrastructureError, match="signal 9"):
        launcher().run([FakeJob("j", tmp_path / "j", program)], 1, lambda job, line: None)
    wait_for(lambda: others(mark) == [], 60)


@pytest.mark.parametrize("how", ["SIGTERM to the supervisor", "SIGKILL of its parent"])
def test_supervisor_ends_ranks_that_ignore_sigterm(tmp_path: Path, mark: str, how: str) -> None:
    started = tmp_path / "started"
    job = tmp_path / "job.py"
    job.write_text(textwrap.dedent(STUBBORN), encoding="utf-8")
    worker = textwrap.dedent(f"""
        import os, subprocess, sys, time
        environment = {{**os.environ, {supervise.PARENT_VARIABLE!r}: str(os.getpid())}}
        supervisor = subprocess.Popen(
            [sys.executable, "-I", {supervise.__file__!r}, "--grace", "0.5", "--",
             sys.executable, {str(job)!r}, {str(started)!r}],
            env=environment, start_new_session=True)
        print(supervisor.pid, flush=True)
        time.sleep(600)
    """)
    process = subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        supervisor = int(process.stdout.readline())
        wait_for(lambda: started.exists() and len(others(mark)) == 7, 60)  # worker, supervisor, job, 2 ranks, 2 helpers
        if how.startswith("SIGTERM"):
            os.kill(supervisor, signal.SIGTERM)
        else:
            process.kill()
        wait_for(lambda: set(others(mark)) <= {process.pid}, 60)
    finally:
        process.kill()
        process.wait()


def test_what_a_command_leaves_behind_gets_sigterm_too(tmp_path: Path) -> None:
    """DeepSpeed's runner dies of SIGTERM at once and tells nobody: its ranks would train on until the grace is over."""
    rank = """
        import pathlib, signal, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        pathlib.Path(sys.argv[1], "started").touch()
        signal.sigwait([signal.SIGTERM])
        pathlib.Path(sys.argv[1], "told").touch()
    """
    runner = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    command = [sys.executable, "-c", runner, textwrap.dedent(rank), str(tmp_path)]
    supervisor = subprocess.Popen([sys.executable, "-I", supervise.__file__, "--grace", "60", "--", *command])
    wait_for((tmp_path / "started").exists, 60)
    supervisor.terminate()
    assert supervisor.wait(40) == 128 + signal.SIGTERM
    assert (tmp_path / "told").exists()


@pytest.mark.parametrize("program", ["pass", "import os; os.abort()", "import os; os.kill(os.getppid(), 15); input()"])
def test_leftovers_are_removed_however_a_command_ends(tmp_path: Path, program: str) -> None:
    for name in ("buffer_1", "buffer_2", "other"):
        (tmp_path / name).touch()
    options = ["--grace", "1", "--leftovers", f"{tmp_path}/buffer_*"]
    command = [sys.executable, "-I", supervise.__file__, *options, "--", sys.executable, "-c", program]
    subprocess.run(command, check=False, stdin=subprocess.PIPE)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_supervisor_passes_the_exit_code_on(tmp_path: Path) -> None:
    for code, expected in ((0, 0), (7, 7), (-9, 137)):
        program = f"import os, sys; os.kill(os.getpid(), 9) if {code} < 0 else sys.exit({code})"
        command = [sys.executable, "-I", supervise.__file__, "--", sys.executable, "-c", program]
        assert subprocess.run(command, check=False).returncode == expected


def test_job_gets_its_own_mark_and_the_environment(tmp_path: Path) -> None:
    program = "import json, os; json.dump(dict(os.environ), open(__file__ + '.env', 'w'))"
    job = FakeJob("j", tmp_path / "j", program)
    launcher(environment=job_environment(3, "cpu", offline=True)).run([job], 1, lambda job, line: None)
    seen = json.loads((job.folder / "job.py.env").read_text(encoding="utf-8"))
    assert (seen["OMP_NUM_THREADS"], seen["PYTHONHASHSEED"], seen["HF_HUB_OFFLINE"]) == ("3", "0", "1")
    assert seen["TOKENIZERS_PARALLELISM"] == "false"
    assert seen["DS_ACCELERATOR"] == "cpu"
    assert sweep(seen[JOB_VARIABLE]) == 0
    assert "HF_HUB_OFFLINE" not in job_environment(1, "cuda", offline=False)


def test_deepspeed_starts_the_same_program_over_ranks(tmp_path: Path) -> None:
    job = FakeJob("j", tmp_path, "", {"kind": "grpo"})
    command = Engine("deepspeed", 2).command(job, Path("job.json"))
    assert command[:3] == [sys.executable, "-m", "deepspeed.launcher.runner"]
    assert command[command.index("--num_accelerators") + 1] == "2"
    assert command[-3:] == ["--module", "corecode.training.job", "job.json"]
    plain = [sys.executable, "-m", "corecode.training.job", "job.json"]
    assert Engine("torch").command(job, Path("job.json")) == plain
    job.spec["kind"] = "evaluate"
    assert Engine("deepspeed", 2).command(job, Path("job.json")) == plain
    job.spec["kind"] = "sft"
    nodes = Engine("deepspeed", 4, hostfile="hosts").command(job, Path("job.json"))
    assert nodes[nodes.index("--hostfile") + 1] == "hosts"


@pytest.mark.parametrize(
    ("device", "visible", "where"),
    [
        ("cuda", "4,5,6,7", ["--include", "localhost:4,5"]),
        ("cuda", "", ["--num_accelerators", "2"]),
        ("cpu", "4,5,6,7", ["--num_accelerators", "2"]),
    ],
)
def test_deepspeed_takes_the_gpus_that_are_visible(
    device: str, visible: str, where: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a number alone it would take the first ones of the machine, whoever they belong to."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    job = FakeJob("j", tmp_path, "", {"kind": "grpo", "profile": {"execution": {"device": device}}})
    assert Engine("deepspeed", 2).command(job, Path("job.json"))[3:5] == where


def test_deepspeed_really_starts_a_module_on_two_cpu_ranks(tmp_path: Path) -> None:
    def command(job: Any, path: Path) -> list[str]:
        return [*Engine("deepspeed", 2).command(job, path)[:-2], "platform", "--terse"]

    job = FakeJob("j", tmp_path / "j", "", {"kind": "sft"})
    launcher(command=command, environment=job_environment(1, "cpu", offline=True)).run([job], 1, lambda job, line: None)
    log = (job.folder / "job.log").read_text(encoding="utf-8")
    assert len([line for line in log.splitlines() if line.startswith("Linux")]) == 2


def test_tail_waits_for_whole_lines_and_notices_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = JsonTail(path)
    assert list(tail.lines()) == []
    path.write_text('{"step": 1}\n{"st', encoding="utf-8")
    assert list(tail.lines()) == [{"step": 1}]
    with path.open("a", encoding="utf-8") as file:
        file.write('ep": 2}\nhalf a line {\n[3]\n')
    assert list(tail.lines()) == [{"step": 2}]
    path.write_text('{"step": 9}\n', encoding="utf-8")
    assert list(tail.lines()) == [{"step": 9}]
    replacing = tmp_path / "metrics.jsonl.partial"  # as a job that continues from a checkpoint does
    replacing.write_text('{"step": 9}\n{"step": 10}\n', encoding="utf-8")
    replacing.replace(path)
    assert list(tail.lines()) == [{"step": 9}, {"step": 10}]


def test_last_lines_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {i}" for i in range(10_000)) + "\n\n", encoding="utf-8")
    assert last_lines(log, 2) == "line 9998\nline 9999"
    assert last_lines(tmp_path / "none") == ""
