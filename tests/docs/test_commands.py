"""Every command and file that README and docs name exists, and so do the options that a command is shown with."""

from __future__ import annotations

import os
import re

import pytest
import typer.main
from pages import MARKERS, ROOT, Command, commands, named
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

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
        parse(words)
    elif command.program == "make":
        targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in command.words[1:] if "=" not in word} <= set(targets)
    elif command.program in ("python", "python3") and not command.words[1].startswith("-"):
        assert (ROOT / command.words[1]).is_file()
    elif command.program.startswith(("infra/", "benchmarks/", ".ci/")):
        assert os.access(ROOT / command.program, os.X_OK)


MENTIONED = [one for one in named() if re.match(r"(\.venv/bin/)?corecode [a-z]", one[1])]
FILES = [one for one in named() if re.fullmatch(r"[a-z_]+(/[\w.-]+)+\.(py|sh|ya?ml|json|md|txt)", one[1])]
# Made by a run or by the reader, not part of the project.
MADE = ("problems/", "evaluation/", "collaboration_gain/", "checkpoints/", "artifacts/", "best/")


@pytest.mark.parametrize(("page", "text"), MENTIONED, ids=map(" ".join, MENTIONED))
def test_a_command_named_in_the_text_exists_with_these_options(page: str, text: str) -> None:
    command, words = find(text.removeprefix(".venv/bin/").split()[1:])
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word.strip("[]") for word in words if word.strip("[").startswith("--")} <= options


@pytest.mark.parametrize(("page", "path"), FILES, ids=map(" ".join, FILES))
def test_a_file_named_in_the_text_exists(page: str, path: str) -> None:
    assert path.startswith(MADE) or (ROOT / path).is_file()


def find(words: list[str]) -> tuple[TyperCommand | TyperGroup, list[str]]:
    """The command that words name, through groups, and the words after it."""
    command = typer.main.get_command(app)
    while isinstance(command, TyperGroup) and words and words[0] not in ("--help", "-h"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command, words = command.commands[words[0]], words[1:]
    assert isinstance(command, TyperCommand | TyperGroup)
    return command, words


def parse(words: list[str]) -> None:
    """Parse as the real command line does, without running anything."""
    command, words = find(words)
    try:
        command.make_context(command.name, words)
    except typer.Exit:
        pass  # --help
    except TyperException as error:
        pytest.fail(str(error))


@pytest.mark.parametrize(
    "words", [["nothing"], ["run"], ["run", "smoke", "--sed", "1"], ["problems", "look"], ["serve", "--port", "many"]]
)
def test_what_does_not_exist_is_found(words: list[str]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        parse(words)
