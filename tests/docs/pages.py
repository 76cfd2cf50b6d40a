"""The shell commands in README and docs.

A word after a fence's language says why its commands are not typed by :mod:`test_walk`: ``setup`` (it installs),
``long`` (many minutes), ``network``, ``gpu``, or ``cluster`` (other machines or services).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKERS = {"", "setup", "long", "network", "gpu", "cluster"}
_FENCE = re.compile(r"^```(bash|console|sh|shell)[ \t]*([^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SEPARATORS = {"|", "||", "&&", ";", "&"}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page: its lines as they would be typed, without prompts and without what is printed."""

    page: str
    marker: str
    lines: tuple[str, ...]


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

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def blocks() -> Iterator[Block]:
    """All fenced blocks of commands, page by page."""
    for page in PAGES:
        for kind, marker, block in _FENCE.findall(page.read_text(encoding="utf-8")):
            lines = re.sub(r"\\\n\s*", " ", block).splitlines()
            if kind == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            yield Block(page.name, marker.strip(), tuple(lines))


def commands() -> Iterator[Command]:
    """All commands in them."""
    for block in blocks():
        for line in block.lines:
            yield from _split(block, line)


def _split(block: Block, line: str) -> Iterator[Command]:
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
            yield Command(block.page, block.marker, tuple(part))
        part = []


def named() -> Iterator[tuple[str, str]]:
    """All names in backquotes within a page's text, each with its page: commands, files, fields."""
    for page in PAGES:
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        yield from ((page.name, name) for name in dict.fromkeys(re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)))
