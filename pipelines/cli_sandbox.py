"""``corecode judge`` and ``corecode sandbox ...``: the sandbox from the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipelines.judge import Tally
    from sandbox import Sandbox


class Backend(StrEnum):
    """Which isolation runs the programs."""

    AUTO = "auto"
    """The strongest that works here."""
    DOCKER = "docker"
    """Warm containers of a Docker engine."""
    BUBBLEWRAP = "bubblewrap"
    """Linux namespaces, without an engine."""


class Cost(StrEnum):
    """How the cost of a run is measured."""

    CPU_TIME = "cpu_time"
    """Processor seconds."""
    STEPS = "steps"
    """A deterministic count of executed steps; slower."""


BackendOption = Annotated[
    Backend, typer.Option("--backend", help="Isolation; auto takes the strongest that works here and says which.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Programs judged at a time; by default one a core.")
]

sandbox_app = typer.Typer(no_args_is_help=True, help="Measure the sandbox, or build its image.")


def judge(
    problems: Annotated[Path, typer.Option("--problems", help="Problems with their tests, one JSON object a line.")],
    submissions: Annotated[Path, typer.Option("--submissions", help="Answers to judge, one JSON object a line.")],
    backend: BackendOption = Backend.AUTO,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the verdicts go, in the submissions' order; default: stdout.")
    ] = None,
    workers: WorkersOption = None,
    cost: Annotated[
        Cost, typer.Option("--cost", help="What counts as cost; steps is exact and slower.")
    ] = Cost.CPU_TIME,
    image: Annotated[
        str | None, typer.Option("--image", help="Image of the Docker engine, as 'corecode sandbox build' names it.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Run the programs as plain processes with your rights. Trusted code only.")
    ] = False,
) -> None:
    """Judge programs or raw model completions; formats in docs/sandbox.md."""
    from corecode.errors import InfrastructureError
    from pipelines.judge import judge_submissions, read_inputs, whole_file

    by_id, answers = read_inputs(problems, submissions)
    target = nullcontext(sys.stdout) if out is None else whole_file(out)
    with target as stream, opened_sandbox(backend, workers, cost, image, unsafe) as sandbox:
        tally = judge_submissions(by_id, answers, sandbox, stream)
    say(summary(tally))
    if tally.unjudged:
        raise InfrastructureError(
            f"{tally.unjudged} of {tally.total} submissions could not be judged (verdict sandbox_error, passed null); "
            "they have no score, judge them again"
        )


@sandbox_app.command()
def bench(
    backend: BackendOption = Backend.AUTO,
    workers: WorkersOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="The smallest sizes: only to see that it runs.")] = False,
) -> None:
    """Measure programs and tests per second, beside a bare fork and a bare subprocess on this machine."""
    from corecode.errors import InfrastructureError
    from sandbox import SandboxUnavailable
    from sandbox.bench import TINY, measure, render, to_json

    try:
        report = measure(backend.value, workers or cores(), TINY if tiny else None)
    except SandboxUnavailable as error:
        raise InfrastructureError(str(error)) from error
    typer.echo(to_json(report) if as_json else render(report))


@sandbox_app.command()
def build(
    registry: Annotated[
        bool, typer.Option("--registry", help="Build from python:3.12-slim, which the engine pulls from its registry.")
    ] = False,
) -> None:
    """Make the Docker engine's sandbox image from this machine's own Python, without any registry; print its name."""
    from corecode.errors import InfrastructureError
    from sandbox import SandboxUnavailable
    from sandbox import image as images

    try:
        typer.echo(_build_from_registry() if registry else images.build())
    except SandboxUnavailable as error:
        raise InfrastructureError(str(error)) from error


REGISTRY_IMAGE = "corecode-sandbox:python3.12"


def _build_from_registry() -> str:
    """Build the image of ``infra/docker/sandbox``; its name."""
    import docker.errors

    from corecode.errors import InfrastructureError, UserError
    from sandbox import image as images

    folder = Path(__file__).parents[1] / "infra" / "docker" / "sandbox"
    if not folder.is_dir():
        raise UserError(f"--registry needs a checkout of this project, there is no {folder}; build without it")
    client = images.connect(timeout_s=600)
    try:
        client.images.build(path=str(folder), tag=REGISTRY_IMAGE, rm=True)
    except (docker.errors.DockerException, OSError) as error:
        raise InfrastructureError(
            f"the engine cannot build from its registry ({error}); without --registry no registry is needed"
        ) from error
    return REGISTRY_IMAGE


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def opened_sandbox(
    backend: Backend, workers: int | None, cost: Cost, image: str | None, unsafe: bool
) -> Iterator[Sandbox]:
    """Open a sandbox and say which one on stderr.

    Raises:
        UserError: ``unsafe`` together with a named backend, or ``image`` without the docker backend.
        InfrastructureError: the backend does not work here; names the remedy.
    """
    from corecode.errors import InfrastructureError, UserError
    from sandbox import SandboxUnavailable, open_sandbox

    if unsafe and backend is not Backend.AUTO:
        raise UserError(f"--unsafe runs without isolation and does not go with --backend {backend.value}; drop one")
    if image is not None and (unsafe or backend is Backend.BUBBLEWRAP):
        raise UserError("--image is for the docker backend only; drop it or use --backend docker")
    if unsafe:
        say("WARNING: --unsafe: programs run as plain processes, with your rights, files and network")
    name = "unsafe" if unsafe else backend.value
    try:
        opened = open_sandbox(name, workers=workers or cores(), cost=cost.value, image=image)
    except SandboxUnavailable as error:
        raise InfrastructureError(str(error)) from error
    with opened as sandbox:
        say(f"sandbox: {sandbox.backend}")
        yield sandbox


def summary(tally: Tally) -> str:
    """The counts of the verdicts in one line."""
    counts = ", ".join(f"{count} {verdict.value}" for verdict, count in tally.verdicts.most_common())
    return f"{tally.total} submissions: {counts}"


def say(text: str) -> None:
    """Speak to the person, beside a standard output that may be the verdict file."""
    typer.echo(text, err=True)
