"""``make lock``: the versions of this environment as ``requirements.lock``.

Only what ``pyproject.toml`` needs with the extra ``dev``, found by following the requirements of installed packages;
whatever else is installed stays out. A local version (torch ``2.13.0+cpu``) is pinned without its label, so that each
machine takes the build for its accelerator. The file names no index: ``pip install -r`` and ``uv pip install -r`` both
read it.
"""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
EXTRAS = ("dev",)
HEAD = """\
# The environment that this project is developed and tested in: every package that
# `pip install -e '.[dev]'` needs, pinned.
# Made by `make lock` with Python {python} on {system}; see docs/reproducibility.md.
"""


def closure(project: Path = PROJECT, extras: Iterable[str] = EXTRAS) -> dict[str, str]:
    """Versions of everything that a project with these extras needs here, by canonical name, without itself.

    Raises:
        importlib.metadata.PackageNotFoundError: a needed package is not installed.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
    from packaging.version import Version

    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    itself = canonicalize_name(declared["name"])
    optional = declared["optional-dependencies"]
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(itself, extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name == itself:
            requirements = optional[extra] if extra else declared["dependencies"]
        else:
            package = metadata.distribution(name)
            found[name] = Version(package.version).public
            requirements = package.requires or []
        for needed in map(Requirement, requirements):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(needed.name), more) for more in ("", *needed.extras)]
    return dict(sorted(found.items()))


def lock_text() -> str:
    """The lock file's content."""
    head = HEAD.format(python=platform.python_version(), system=f"{platform.system()} {platform.machine()}")
    return head + "".join(f"{name}=={version}\n" for name, version in closure().items())


if __name__ == "__main__":
    sys.stdout.write(lock_text())
