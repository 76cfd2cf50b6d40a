"""The commands in README and docs: cheap ones run as they stand, all others are checked against the command line.

A word after a fence's language says why its commands are not run here: ``long`` (minutes), ``gpu`` or ``cluster``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import typer.main

from pipelines.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKERS = {"", "long", "gpu", "cluster"}
_FENCE = re.compile(r"^```(bash|console|sh|shell)[ \t]*([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SEPARATORS = {"|", "||", "&&", ";", "&"}


@dataclass(frozen=True)
class Command:
    """One command of a page, as words."""

    page: str
    marker: str
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """Its program's name, without the folder of the environment."""
        return self.words[0].removeprefix(".venv/bin/")

    @property
    def cheap(self) -> bool:
        """Whether it runs here: seconds, no network, nothing left behind."""
        if self.marker or self.program != "corecode":
            return False
        listed = self.words[1:2] in (("profiles",), ("doctor",))
        examples = self.words[1:2] == ("judge",) and "docs/examples/judge/problems.jsonl" in self.words
        return listed or examples or "--help" in self.words or "--dry-run" in self.words

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def commands() -> Iterator[Command]:
    """All commands in the fenced blocks of all pages."""
    for page in PAGES:
        for kind, marker, block in _FENCE.findall(page.read_text(encoding="utf-8")):
            lines = block.replace("\\\n", " ").splitlines()
            if kind == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            for line in lines:
                yield from _split(page.name, marker.strip(), line)


def _split(page: str, marker: str, line: str) -> Iterator[Command]:
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    part: list[str] = []
    for word in [*words, ";"]:
        if word not in _SEPARATORS:
            part.append(word)
            continue
        while part and (part[0] == "exec" or re.match(r"\w+=", part[0])):  # or variables for this command alone
            del part[0]
        if part:
            yield Command(page, marker, tuple(part))
        part = []


ALL = list(commands())
RUN = sorted({" ".join(shlex.quote(word) for word in one.words): one for one in ALL if one.cheap}.items())


def test_markers_are_known() -> None:
    assert {one.marker for one in ALL} <= MARKERS
    assert len(ALL) > 40


@pytest.mark.parametrize("command", ALL, ids=str)
def test_the_command_exists_with_these_options(command: Command) -> None:
    if command.program == "corecode":
        words = list(command.words[1:])
        for sign in (">", ">>", "<"):
            words = words[: words.index(sign)] if sign in words else words
        parse(typer.main.get_command(app), words)
    elif command.program == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in command.words[1:] if "=" not in word} <= set(targets)
    elif command.program in ("python", "python3") and not command.words[1].startswith("-"):
        assert (ROOT / command.words[1]).is_file()
    elif command.program.startswith(("infra/", "benchmarks/", ".ci/")):
        assert os.access(ROOT / command.program, os.X_OK)


def parse(command: click.Command, words: list[str]) -> None:
    """Parse as the real command line does, through groups, without running anything."""
    while isinstance(command, click.Group):
        context = command.make_context("corecode", [], resilient_parsing=True)
        if words[:1] in ([], ["--help"], ["-h"]):
            return
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
    try:
        command.make_context(command.name, words)
    except click.exceptions.Exit:
        pass  # --help
    except click.UsageError as error:
        pytest.fail(error.format_message())


@pytest.mark.parametrize(("text", "command"), RUN, ids=[text for text, _ in RUN])
def test_a_cheap_command_runs_as_it_stands(text: str, command: Command, tmp_path: Path) -> None:
    for name in ("docs", "pipelines", "infra"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *command.words[1:]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CORECODE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    # The doctor's answer is the machine's.
    assert done.returncode in ((0, 1) if "doctor" in command.words else (0,)), done.stderr
    assert "Traceback" not in done.stderr
    shutil.rmtree(tmp_path / "home", ignore_errors=True)
