"""``corecode problems``: bring benchmarks in, look at problems, count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli_sandbox import cores, say

if TYPE_CHECKING:
    from rich.table import Table

    from corecode.datasets import ImportSummary
    from corecode.datasets.validate import Judge
    from corecode.problems import Problem, Test

LISTED = 20
"""Findings of a source that are printed; the summary file has all."""
SHOWN_TESTS = 3
SHOWN_STATEMENT = 60
"""Characters of a statement in a list."""
LONGEST = 400
"""Characters of a text that are shown."""
SUMMARIES = "imports"
"""Folder for what was refused, flagged and put right, beside the problem files."""

problems_app = typer.Typer(no_args_is_help=True, help="Import benchmarks, show problems, count them.")

SourceArgument = Annotated[
    str, typer.Argument(help="A problem file or folder, the name of a benchmark, or an id on the Hugging Face hub.")
]


@problems_app.command("import")
def import_(
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders, names of benchmarks, or ids on the Hugging Face hub.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the problem files.")],
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Most records read of each source.")] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Split of the sources; by default 'test' where there is one.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", help="One file of this name for all sources, such as train; else one each.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Judge the reference solutions; flags broken tests.")
    ] = True,
) -> None:
    """Turn benchmarks into validated problem files; OUT/imports says what was refused, flagged or put right."""
    from corecode.datasets import read

    with _folder(out), _judge(check) as judge:
        found = [read(source, limit, split, judge) for source in sources]
    names = [name or _name(source, split) for source in sources]
    for target in dict.fromkeys(names):
        _write(out, target, [one for own, one in zip(names, found, strict=True) if own == target])


@problems_app.command()
def show(
    source: SourceArgument,
    problem: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of a problem; else all are listed.")] = None,
) -> None:
    """List the problems of a source, or show one of them."""
    from corecode.datasets import read
    from corecode.errors import UserError

    problems, _ = read(source)
    if problem is None:
        table = _table("id", "kind", "tests", "limits", "flags", "statement")
        for one in problems:
            limits = f"{one.time_limit_s:g} s, {one.memory_limit_mb} MiB"
            first = one.statement.strip().split("\n")[0][:SHOWN_STATEMENT]
            table.add_row(one.id, one.kind, str(len(one.tests)), limits, ", ".join(one.flags), first)
        _print(table)
        return
    chosen = next((one for one in problems if one.id == problem), None)
    if chosen is None:
        raise UserError(f"{source} has no problem {problem!r}; 'corecode problems show {source}' lists all")
    print(_whole(chosen))


@problems_app.command()
def stats(source: SourceArgument) -> None:
    """Count problems, kinds, tests and findings of a source, with its content digest."""
    import statistics

    from corecode.datasets import read
    from corecode.datasets.records import data_files

    path = Path(source).expanduser()
    files = [str(file) for file in data_files(path)] if source and path.is_dir() else []
    for one in files or [source]:  # a folder without any is told what is wrong with it
        problems, summary = read(one)
        sizes = [len(problem.tests) for problem in problems]
        table = _table(Path(one).name, "")
        table.add_row("problems", f"{len(problems)} of {summary.records} records ({', '.join(summary.formats)})")
        table.add_row("kinds", _counts(problem.kind for problem in problems))
        table.add_row("tests a problem", f"{min(sizes)} to {max(sizes)}, median {statistics.median(sizes):g}")
        table.add_row("with a reference", str(sum(bool(problem.references) for problem in problems)))
        table.add_row("refused", _counts(issue.reason for issue in summary.refused))
        table.add_row("flagged", _counts(flag for problem in problems for flag in problem.flags))
        table.add_row("digest", summary.digest)
        _print(table)


@contextmanager
def _folder(out: Path) -> Generator[None]:
    """Make the folder before the work begins; one that was made for nothing is removed again."""
    from corecode.errors import UserError

    is_new = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {out}: cannot make this folder ({error.strerror}); name another") from error
    try:
        yield
    except BaseException:
        if is_new:
            out.rmdir()
        raise


@contextmanager
def _judge(check: bool) -> Generator[Judge | None]:
    """A judge of reference solutions in a sandbox of this machine; None where none is wanted."""
    if not check:
        yield None
        return
    from corecode.config import SandboxConfig
    from corecode.execution import Executor, open_configured

    with open_configured(SandboxConfig(workers=cores())) as sandbox:
        yield Executor(sandbox).judge


def _name(source: str, split: str | None) -> str:
    """A file name for a source: the file's or set's own, with the split where one was asked for."""
    path = Path(source)
    own = path.name.removesuffix(".gz")
    own = own.rpartition(".")[0] if path.is_file() else own
    return f"{own}-{split}" if split else own


def _write(out: Path, name: str, found: list[tuple[list[Problem], ImportSummary]]) -> None:
    """Write the problems of some sources as one file, and say what became of their records."""
    from corecode.datasets.validate import examine
    from corecode.problems import write_problems
    from corecode.training.records import write_json

    merged = examine(problem for problems, _ in found for problem in problems)
    path = out / f"{name}.jsonl"
    digest = write_problems(path, merged.problems)
    (out / SUMMARIES).mkdir(exist_ok=True)
    summaries = [summary for _, summary in found]
    write_json(
        out / SUMMARIES / f"{name}.json",
        {
            "digest": digest,
            "problems": len(merged.problems),
            "sources": [summary.as_json() for summary in summaries],
            "refused_in_merging": [vars(issue) for issue in merged.refused] if len(found) > 1 else [],
        },
    )
    for summary in summaries:
        formats = ", ".join(summary.formats)
        say(f"{summary.source}: {summary.records} records ({formats}), {summary.problems} problems")
        issues = [("refused", one) for one in summary.refused] + [("flagged", one) for one in summary.flagged]
        for what, one in issues[:LISTED]:
            say(f"  {what} {one.problem}: {one.reason}{f', {one.detail}' if one.detail else ''}")
        if len(issues) > LISTED:
            say(f"  and {len(issues) - LISTED} more, in {out / SUMMARIES / name}.json")
        if summary.notes:
            first = summary.notes[0]
            say(f"  {len(summary.notes)} put right or noted, such as {first.problem}: {first.reason}")
        if not summary.references_checked:
            say("  reference solutions were not judged (--no-check)")
    print(path)


def _whole(problem: Problem) -> str:
    """A problem as text: all of it, with long texts cut."""
    lines = [f"{problem.id}  ({problem.kind}, {problem.source or 'own'})"]
    lines.append(f"limits: {problem.time_limit_s:g} s, {problem.memory_limit_mb} MiB a test")
    facts = {
        "calls": problem.entry_point,
        "flags": ", ".join(problem.flags),
        "compared by": "its own checker" if problem.checker else "",
    }
    lines += [f"{name}: {value}" for name, value in facts.items() if value]
    lines += ["", problem.statement.rstrip(), "", f"{len(problem.tests)} tests, the first:"]
    lines += [_test(problem, test) for test in problem.tests[:SHOWN_TESTS]]
    for number, reference in enumerate(problem.references, 1):
        lines += ["", f"reference solution {number} of {len(problem.references)}:", reference.program.rstrip()]
    return "\n".join(lines)


def _test(problem: Problem, test: Test) -> str:
    if problem.kind == "stdio":
        return f"  {_cut(test.input)!r} -> {_cut(test.output)!r}"
    if problem.kind == "call":
        return f"  {test.call}({_cut(', '.join(map(repr, test.args)))}) -> {_cut(repr(test.expected))}"
    return "\n".join(f"  {line}" for line in _cut(test.code).split("\n"))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def _counts(words: Iterable[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common()) or "-"


def _table(*headings: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold")  # what does not fit goes on below
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    Console().print(table, markup=False)
