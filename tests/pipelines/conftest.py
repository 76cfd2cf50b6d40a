"""Homes for tests: in memory where the machine can, with MLflow's tables made once (that takes seconds)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def memory() -> Generator[Path]:
    """A folder that is removed at the end; writing to it never waits for a disk."""
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="corecode-test-", dir=shm if shm.is_dir() else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_home(memory: Path) -> Path:
    """A home in which MLflow's tables exist and nothing else. Copy it."""
    home = memory / "empty"
    program = "import pathlib, sys; from pipelines.tracking import Tracking; Tracking(pathlib.Path(sys.argv[1])).client"
    subprocess.run([sys.executable, "-c", program, str(home)], check=True, cwd=ROOT)
    return home


@pytest.fixture(scope="session")
def new_home(memory: Path, empty_home: Path) -> Callable[[str], Path]:
    """Make a home of this name. Artifacts keep the folder of the original, which does not matter."""

    def make(name: str) -> Path:
        return Path(shutil.copytree(empty_home, memory / name))

    return make


Outcome = tuple[int, str, str]


@pytest.fixture
def corecode(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process: exit code, standard output, standard error."""

    from pipelines.cli import main

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["corecode", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run
