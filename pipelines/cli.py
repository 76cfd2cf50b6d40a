"""The command line ``corecode``. Each command imports what it needs when it runs: ``--help`` has to answer at once.

Exit codes: 0 success; 2 a user's mistake (one sentence on standard error); 1 anything else that failed (without a word
when it is that nobody reads the output any more); 130 Ctrl-C, SIGTERM or SIGHUP.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from pipelines.cli_compare import compare
from pipelines.cli_evaluate import evaluate
from pipelines.cli_problems import problems_app
from pipelines.cli_registry import champions, promote, rollback
from pipelines.cli_runs import runs
from pipelines.cli_sandbox import judge, sandbox_app

_REFUSALS = {
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
    *(errno.ENAMETOOLONG, errno.ENOSPC, errno.EDQUOT),
}
"""What a file system says of a place that cannot be used as it was asked: whoever named it is told."""

app = typer.Typer(
    name="corecode",
    help="Train a Planner and a Coder language model to work together on code.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def run(
    profile: Annotated[
        str, typer.Argument(help="Name of a profile ('corecode profiles'), or the path of a YAML file.")
    ],
    seed: Annotated[int | None, typer.Option(min=0, help="Replaces the profile's seed.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and show the resolved profile.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Train again what an earlier run with the same inputs has trained.")
    ] = False,
) -> None:
    """Run a profile from problems to champion; the last line printed is the path of summary.json."""
    from pipelines.cli_run import run_profile

    raise typer.Exit(run_profile(profile, seed, overrides or [], dry_run, force))


@app.command()
def rerun(
    run: Annotated[str, typer.Argument(help="A past run: its id in MLflow, or its name.")],
    force: Annotated[
        bool, typer.Option("--force", help="Train again what an earlier run with the same inputs has trained.")
    ] = False,
) -> None:
    """Repeat a past run from what MLflow holds of it, and say whether its figures came out the same."""
    from pipelines.cli_rerun import repeat

    raise typer.Exit(repeat(run, force))


@app.command()
def profiles() -> None:
    """List the shipped profiles."""
    from pipelines.cli_run import list_profiles

    list_profiles()


@app.command()
def doctor(
    profile: Annotated[str | None, typer.Argument(help="Try what this profile needs, instead of the machine.")] = None,
) -> None:
    """Say what this machine can do, each line with its remedy."""
    from pipelines.doctor import examine

    raise typer.Exit(examine(profile))


@app.command()
def up(
    dagster_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the Dagster page.")] = 3000,
    mlflow_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the MLflow page.")] = 5000,
) -> None:
    """Open the Dagster and MLflow pages on this machine's loopback, and run Dagster's daemon; Ctrl-C ends all."""
    from pipelines.cli_up import serve_pages

    raise typer.Exit(serve_pages(dagster_port, mlflow_port))


@app.command()
def solve(
    problem: Annotated[str, typer.Option(help="File with the problem's statement; - reads standard input.")],
    model: Annotated[
        str,
        typer.Option(
            help="'champion', 'challenger', 'models:/corecode/VERSION', or a folder that holds team.json, such as"
            " runs/NAME/champion."
        ),
    ] = "champion",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampling.")] = 0,
) -> None:
    """Let the champion think and write a program."""
    from pipelines.cli_solve import solve_problem

    text = _statement(problem)
    solve_problem(text, model, seed)


@app.command()
def serve(
    model: Annotated[str, typer.Option(help="'champion', or a model folder such as runs/NAME/coder_grpo/model.")],
    role: Annotated[str, typer.Option(help="The champion's role; also the name that requests give.")] = "coder",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine's loopback.")] = 8000,
    python: Annotated[str | None, typer.Option(help="Python of the environment that has vLLM.")] = None,
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="What it computes on.")] = "cpu",
    gpus: Annotated[int, typer.Option(min=1, help="GPUs to spread over.")] = 1,
) -> None:
    """Serve a model with vLLM until Ctrl-C."""
    from pipelines.cli_serve import serve_model

    raise typer.Exit(serve_model(model, role, port, python, device, gpus))


app.command()(evaluate)
app.command()(runs)
app.command()(compare)
app.command()(promote)
app.command()(rollback)
app.command()(champions)
app.command()(judge)
app.add_typer(sandbox_app, name="sandbox")
app.add_typer(problems_app, name="problems")


def _statement(problem: str) -> str:
    from corecode.errors import UserError

    if problem == "-":
        text = sys.stdin.read()
    else:
        try:
            text = Path(problem).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UserError(f"cannot read the problem {problem}: {reason}") from error
    if not text.strip():
        raise UserError(f"the problem {problem} is empty; give a statement")
    return text


def main() -> None:
    """Entry point: the command's own exit code, with one sentence for what went wrong."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, signal.default_int_handler)
    if sys.stdout is None:  # it was closed by the caller
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    code = _run()
    try:
        sys.stdout.flush()
    except OSError:
        # Whoever read has gone, or the disk is full. What is left must not complain once more at the very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    sys.exit(code)


def _run() -> int:
    """The exit code of the command; what went wrong is said."""
    from typer.exceptions import TyperException

    from corecode.errors import InfrastructureError, UserError

    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except UserError as error:
        return _failed(str(error), 2)
    except InfrastructureError as error:
        return _failed(str(error), 1)
    except TyperException as error:  # the command line could not be understood; without words, help was shown
        words = " ".join(error.format_message().replace("Value error, ", "").split()).removesuffix(".")
        return _failed(f"{words} (--help shows what there is)", error.exit_code) if words else error.exit_code
    except KeyboardInterrupt:
        return _failed("interrupted", 130)
    except BrokenPipeError:
        return 1
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        place = f"{error.filename}: " if error.filename else ""
        return _failed(f"{place}{error.strerror}; name another place, or change what stands in the way", 2)


def _failed(sentence: str, code: int) -> int:
    from pipelines.redact import redact

    print(f"error: {redact(sentence)}", file=sys.stderr)
    return code
