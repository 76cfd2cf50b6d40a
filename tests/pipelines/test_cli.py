"""The command line: fast help, and every mistake one sentence with exit code 2 and nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import yaml

from pipelines import home as home_module
from pipelines.profiles import load_profile, shipped

ROOT = Path(__file__).parents[2]
Outcome = tuple[int, str, str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that does not exist yet."""
    folder = tmp_path / "home"
    monkeypatch.setenv("CORECODE_HOME", str(folder))
    return folder


@pytest.fixture
def corecode(corecode: Callable[..., Outcome], home: Path) -> Callable[..., Outcome]:
    """The command line with a home of its own."""
    return corecode


def refused(outcome: Outcome, sentence: str, home: Path) -> None:
    """Exit code 2, one sentence on standard error, nothing on standard output, nothing written."""
    code, out, err = outcome
    assert code == 2, err
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert not home.exists()


def test_help_answers_in_less_than_half_a_second() -> None:
    """Processor time, so that a busy machine does not fail it; on an idle one it is the time a person waits."""
    command_line = [sys.executable, "-c", "from pipelines.cli import main; main()", "--help"]
    before = os.times()
    shown = subprocess.run(command_line, capture_output=True, cwd=ROOT, check=True)
    after = os.times()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.5
    for command in (b"run", b"profiles", b"doctor", b"up", b"solve", b"compare", b"judge", b"sandbox"):
        assert command in shown.stdout


def test_the_command_line_imports_nothing_heavy() -> None:
    heavy = ("torch", "mlflow", "dagster", "transformers", "plotly", "docker", "numpy", "pydantic")
    program = f"import sys, pipelines.cli; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stdout.strip() == "[]"


def test_profiles_lists_every_shipped_one(corecode: Callable[..., Outcome]) -> None:
    code, out, _ = corecode("profiles")
    assert code == 0
    for name in shipped():
        assert name in out


def test_dry_run_shows_the_resolved_profile_and_writes_nothing(corecode: Callable[..., Outcome], home: Path) -> None:
    for name in shipped():
        code, out, err = corecode("run", name, "--seed", "5", "--set", "planner_grpo.steps=7", "--dry-run")
        assert (code, err) == (0, "")
        expected = load_profile(name, ["planner_grpo.steps=7"], seed=5)
        assert yaml.safe_load(out) == json.loads(expected.model_dump_json())
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["quikstart"], "unknown profile 'quikstart', did you mean 'quickstart'?"),
        (["smoke", "--set", "coder_grpo.group_sise=4"], "did you mean 'coder_grpo.group_size'?"),
        (["smoke", "--set", "planner_grpo.group_size=1"], "fewer than 2 samples"),
        (["smoke", "--set", "seed=-1"], "seed = -1"),
        (["smoke", "--set", "model={path: /no/such/model}"], "there is no model folder /no/such/model"),
        (["no/such.yaml"], "there is no profile file no/such.yaml"),
    ],
)
def test_a_bad_profile(corecode: Callable[..., Outcome], home: Path, arguments: list[str], sentence: str) -> None:
    refused(corecode("run", *arguments), sentence, home)


def test_model_folder_beside_others_is_not_taken_for_a_hub_id(
    corecode: Callable[..., Outcome], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    refused(
        corecode("run", "smoke", "--set", "model={path: models/tiny}"), "there is no model folder models/tiny", home
    )
    (tmp_path / "models" / "empty").mkdir()
    refused(corecode("run", "smoke", "--set", "model={path: models/empty}"), "models/empty holds no model", home)


def test_problem_files(corecode: Callable[..., Outcome], home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = [
        "run",
        "smoke",
        "--set",
        f"dataset={{name: file, path: {data}, sft: 1, rl: 1, validation: 1, test: 1}}",
    ]
    refused(corecode(*arguments), str(data), home)
    data.mkdir()
    for split in ("sft", "rl", "validation", "test"):
        problem = {
            "id": split,
            "statement": f"Print {split}.",
            "tests": [{"output": split}],
            "references": [{"program": f"print({split!r})", "thought": None}],
        }
        (data / f"{split}.jsonl").write_text(json.dumps(problem) + "\n", encoding="utf-8")
    (data / "rl.jsonl").write_text("\n", encoding="utf-8")
    refused(corecode(*arguments), "rl.jsonl holds no problem", home)
    (data / "rl.jsonl").write_text('{"id": "x", "statement": "y", "tests": []}\n', encoding="utf-8")
    refused(corecode(*arguments), "has no tests", home)


def test_no_write_access(
    corecode: Callable[..., Outcome], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "file" / "home"))
    refused(corecode("run", "smoke"), "is a file; set CORECODE_HOME to a folder", home)
    monkeypatch.setenv("CORECODE_HOME", "/proc/corecode")
    refused(corecode("run", "smoke"), "cannot write to /proc/corecode", home)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 4 MiB; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a small file system here (not root, or mounting is forbidden)")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_too_small(
    corecode: Callable[..., Outcome], home: Path, tiny_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tiny_disk / "home"))
    refused(corecode("run", "smoke"), "the disk is full", home)
    with pytest.raises(OSError, match="No space left"):
        (tiny_disk / "filler").write_bytes(b"x" * 8 * 1024**2)
    refused(corecode("run", "smoke"), "the disk is full", home)
    assert sorted(path.name for path in tiny_disk.iterdir()) == ["filler"]


def test_free_space_is_checked_before_the_first_file(
    corecode: Callable[..., Outcome], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: object) -> object:
        return shutil._ntuple_diskusage(10**9, 10**9 - 10**6, 10**6)  # type: ignore[attr-defined]

    monkeypatch.setattr(home_module.shutil, "disk_usage", usage)
    refused(corecode("run", "smoke"), "the disk is full", home)


@pytest.mark.parametrize("option", ["--dagster-port", "--mlflow-port"])
def test_a_port_that_is_taken(corecode: Callable[..., Outcome], home: Path, option: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused(corecode("up", option, port), f"port {port} is taken; choose another with {option} PORT", home)


def test_solve_without_champion_or_problem(corecode: Callable[..., Outcome], home: Path, tmp_path: Path) -> None:
    problem = tmp_path / "problem.txt"
    refused(corecode("solve", "--problem", str(problem)), "cannot read the problem", home)
    problem.write_text(" \n", encoding="utf-8")
    refused(corecode("solve", "--problem", str(problem)), "is empty; give a statement", home)
    problem.write_text("Print 1.", encoding="utf-8")
    refused(corecode("solve", "--problem", str(problem)), "there is no champion", home)
    refused(corecode("solve", "--problem", str(problem), "--model", str(tmp_path)), "holds no team.json", home)
    problem.write_bytes(b"\xff\xfe\xff")
    refused(corecode("solve", "--problem", str(problem)), "it is not UTF-8 text", home)


def test_usage_mistakes_are_one_sentence_too(corecode: Callable[..., Outcome], home: Path) -> None:
    for arguments, sentence in (
        (["run"], "Missing argument 'profile' (--help shows what there is)"),
        (["run", "smoke", "--seed", "x"], "Invalid value for '--seed'"),
        (["run", "smoke", "--sed", "3"], "No such option: --sed (Possible options: --se"),
        (["runn"], "No such command 'runn'. Did you mean 'run'"),
        (["sandbox", "bnch"], "Did you mean 'bench'?"),
        (["judge"], "Missing option '--problems'"),
    ):
        refused(corecode(*arguments), sentence, home)
    code, out, err = corecode()
    assert (code, err) == (2, "")
    assert "Usage" in out


@pytest.mark.parametrize("arguments", [["profiles"], ["--help"], ["run", "smoke", "--dry-run"]])
def test_nobody_reads_on(arguments: list[str], home: Path) -> None:
    """As before ``| head -1``: silence, and not success."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home)},
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_output_that_cannot_be_written(home: Path) -> None:
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "run", "smoke", "--dry-run"]
    environment = {**os.environ, "CORECODE_HOME": str(home)}
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: No space left on device;")
    assert len(ended.stderr.splitlines()) == 1
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    assert subprocess.run(closed, stderr=subprocess.PIPE, cwd=ROOT, env=environment).stderr == b""


def test_a_name_that_no_file_can_have(corecode: Callable[..., Outcome], home: Path) -> None:
    refused(corecode("doctor", "x" * 300), "File name too long; name another place", home)
