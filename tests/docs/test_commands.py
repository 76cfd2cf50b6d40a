"""Every command in README and docs exists, with the options that it is shown with."""

from __future__ import annotations

import os
import re

import click
import pytest
import typer.main
from pages import MARKERS, ROOT, Command, commands

from pipelines.cli import app

ALL = list(commands())


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
