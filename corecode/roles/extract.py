"""From a completion to a program: the one rule that training, evaluation and ``corecode solve`` share.

1. Reasoning between ``<think>`` and ``</think>`` is removed; what stands before a lone ``</think>`` too (the opening
   tag is then part of the prompt). A ``<think>`` that is never closed removes the rest: there is no answer.
2. Of the fenced blocks labelled as Python, the **last complete** one is the program. A block that the completion's
   end cuts off counts only where no complete one exists.
3. Without such blocks, the same rule holds for blocks without a label, of which only those that read as Python count.
   Blocks of other languages never count.
4. Without any fence, bare code is accepted; prose before or after it is dropped.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

_THINK_CLOSED = re.compile(r"^[ \t]*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.MULTILINE | re.IGNORECASE)
_THINK_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THINK_OPEN = re.compile(r"^[ \t]*<think(?:ing)?>", re.MULTILINE | re.IGNORECASE)
_FENCE = re.compile(r"(?P<indent>[ \t]*)(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)")
_PYTHON_LABEL = re.compile(r"(?:python|py)[\d.]*", re.IGNORECASE)
_TARGET = r"\w[\w.]*(?:\[[^\]]*\])*"
_CODE_START = re.compile(
    r"(?:import\s+\w|from\s+[\w.]+\s+import\b|(?:async\s+)?def\s+\w|class\s+\w+\s*[:(]|@\w|(?:if|while|with)\s.*:\s*$"
    rf"|for\s.*\sin\s.*:|try\s*:|return\b|{_TARGET}(?:\s*,\s*\*?{_TARGET})*\s*(?:[-+*/%&|^]|//|\*\*|<<|>>)?=[^=]"
    r"|\w[\w.]*\(.*\)\s*$)"
)
_STARTS, _ENDS = 5, 10
"""How many places are tried where bare code could start and end."""


@dataclass(frozen=True)
class Extraction:
    """What was found in a completion."""

    program: str | None
    """Python source without blank lines around it (leading indentation is kept); None when there is none."""
    truncated: bool
    """The completion ends inside its reasoning or inside a fence. (A generator's finish reason is another matter.)"""
    blocks: int
    """Candidate programs; a well-formed answer has exactly one."""


@dataclass(frozen=True)
class _Block:
    label: str
    text: str
    closed: bool


def extract_program(completion: str) -> Extraction:
    """Find the program in a completion. Never raises; an empty completion gives no program."""
    answer, cut = strip_reasoning(completion)
    blocks = _fenced_blocks(answer)
    cut = cut or any(not block.closed for block in blocks)
    if not blocks:
        program = _bare_code(answer)
        return Extraction(program, cut, int(program is not None))
    candidates = [block for block in blocks if _PYTHON_LABEL.fullmatch(block.label) and block.text.strip()]
    if not candidates:
        candidates = [block for block in blocks if not block.label and _looks_like_code(block.text)]
    closed = [block for block in candidates if block.closed]
    chosen = (closed or candidates)[-1:]
    return Extraction(_trim(chosen[0].text) if chosen else None, cut, len(candidates))


def strip_reasoning(completion: str) -> tuple[str, bool]:
    """The completion without its reasoning (line ends as ``\\n``), and whether the reasoning never ended."""
    text = completion.replace("\r\n", "\n").replace("\r", "\n")
    text = _THINK_CLOSED.sub("", text)
    ends = list(_THINK_END.finditer(text))
    if ends:
        text = text[ends[-1].end() :]
    opening = _THINK_OPEN.search(text)
    if opening:
        return text[: opening.start()], True
    return text, False


def first_fence(text: str) -> int | None:
    """Offset of the first line that opens a fence; None without one."""
    offset = 0
    for line in text.splitlines(keepends=True):
        if _FENCE.fullmatch(line.rstrip()):
            return offset
        offset += len(line)
    return None


def _fenced_blocks(text: str) -> list[_Block]:
    """All fenced blocks in order. Fences follow CommonMark, with two liberties that models take: a fence with a label
    inside an open block starts a new one (the closing fence was forgotten), and a closing fence may end a code line."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    lines: list[str] = []

    def end(closed: bool) -> None:
        nonlocal opening
        if opening is not None:
            label = (opening["info"].split() or [""])[0]
            blocks.append(_Block(label, _unindent(lines, opening["indent"]), closed))
        opening = None
        lines.clear()

    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line.rstrip())
        if opening is None:
            opening = fence
        elif fence and fence["mark"].startswith(opening["mark"]):
            end(closed=not fence["info"])
            if fence["info"]:
                opening = fence
        elif line.rstrip().endswith(opening["mark"]) and line.count(opening["mark"][0]) == len(opening["mark"]):
            lines.append(line.rstrip()[: -len(opening["mark"])])
            end(closed=True)
        else:
            lines.append(line)
    end(closed=False)
    return blocks


def _unindent(lines: list[str], indent: str) -> str:
    """The lines without an indent that all of them share (a fence inside a list item indents its block)."""
    if all(line.startswith(indent) for line in lines if line.strip()):
        lines = [line.removeprefix(indent) for line in lines]
    return "\n".join(lines)


def _trim(text: str) -> str:
    """Without blank lines at both ends; the first line keeps its indentation."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", text).rstrip()


def _bare_code(text: str) -> str | None:
    """The code in a text without fences: the earliest and longest run of lines that reads as Python; a text that
    merely starts like code is kept whole (it then fails as what it is, a syntax error)."""
    if _reads_as_code(text):
        return _trim(text)
    lines = _trim(text).split("\n")
    starts = [index for index, line in enumerate(lines) if _CODE_START.match(line)]
    ends = [len(lines), *(index for index in range(len(lines) - 1, 0, -1) if not lines[index].strip())]
    for start in starts[:_STARTS]:
        for stop in ends[:_ENDS]:
            piece = "\n".join(lines[start:stop])
            if stop > start and _reads_as_code(piece):
                return _trim(piece)
    return _trim(text) if starts[:1] == [0] else None


def _looks_like_code(text: str) -> bool:
    return _reads_as_code(text) or _CODE_START.match(_trim(text)) is not None


def _reads_as_code(text: str) -> bool:
    """Whether a text parses as Python and does something (a lone word or number parses too, and is prose)."""
    source = _trim(text)
    first = source.split("\n", 1)[0]
    indent = first[: len(first) - len(first.lstrip())]
    body = _unindent(source.split("\n"), indent)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in a model's text are not our warnings
            tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call) for node in tree.body)
