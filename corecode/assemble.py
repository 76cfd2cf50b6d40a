"""From an answer to a whole program, where the problem's statement is itself the beginning of one (HumanEval).

A model may answer with the function's body, as a continuation of the statement, or with the whole function. Both are
right. A whole function may leave out what the statement already shows: imports, constants and helper functions.
"""

from __future__ import annotations

import ast
import re

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def assemble(statement: str, entry_point: str, source: str) -> str:
    """The program that is judged.

    - ``source`` defines ``entry_point``: the statement's other definitions and imports, then ``source`` (which may
      define them again).
    - ``source`` is a body (indented, or with a ``return`` outside of any function): the statement, then the body,
      indented where a model left the indentation of its first line, or of all lines, out.
    - anything else, and what does not parse: as the first case, so that it fails as what it is.
    """
    tree = _parse(source)
    if tree is None or not (_defines(tree, entry_point) or not _returns(tree)):
        for body in (source, f"    {source}", _indented(source)):
            whole = f"{statement.rstrip()}\n{body}\n"
            continued = _parse(whole) if body.startswith((" ", "\t")) else None
            if continued is not None and not _returns(continued):
                return whole
    return _with_preamble(statement, entry_point, source, tree)


def complete(partial: str, source: str) -> str:
    """The program of an answer to a completion task.

    - ``source`` defines what ``partial`` begins to define, or repeats it: the answer is the whole program.
    - else it is the rest, whose indentation may lack on its first line, or on all lines.
    - what fits in no way follows ``partial`` as it is, so that it fails as what it is.
    """
    begun = re.findall(r"^(?:async )?(?:def|class) (\w+)", partial, re.MULTILINE)
    tree = _parse(source)
    defined = {node.name for node in tree.body if isinstance(node, _Function | ast.ClassDef)} if tree else set[str]()
    if source.startswith(partial.rstrip()) or (begun and begun[-1] in defined):
        return source
    last = partial.rstrip().rpartition("\n")[2]
    indent = " " * (len(last) - len(last.lstrip()) + 4 * last.endswith(":"))
    beginning = partial.rstrip() + "\n"
    for rest in (source, indent + source.lstrip(), _indented(source, indent)):
        whole = _parse(beginning + rest)
        if whole is not None and not _returns(whole):
            return beginning + rest
    return beginning + source


def continued_function(statement: str) -> str | None:
    """Name of the function that a statement begins and leaves to be written: it is Python, and its last definition does
    nothing yet (a docstring, imports, ``...``). None for any other text."""
    tree = _parse(f"{statement.rstrip()}\n")
    last = tree.body[-1] if tree is not None and tree.body else None
    return last.name if isinstance(last, _Function) and all(map(_does_nothing, last.body)) else None


def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defines(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, _Function) and node.name == name for node in tree.body)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom)


def _returns(tree: ast.Module) -> bool:
    """Whether a ``return`` stands outside of any function: then the source is a body."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, _Function | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))
    return False


def _indented(source: str, indent: str = "    ") -> str:
    return "\n".join(f"{indent}{line}" if line.strip() else line for line in source.split("\n"))


def _with_preamble(statement: str, entry_point: str, source: str, tree: ast.Module | None) -> str:
    shown = _parse(statement)
    if shown is None:
        return source
    others = [node for node in shown.body if not (isinstance(node, _Function) and node.name == entry_point)]
    preamble = "\n".join(text for node in others if (text := ast.get_source_segment(statement, node)))
    if not preamble:
        return source
    # Imports from __future__ have to stay first.
    futures = [n for n in (tree.body if tree else []) if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    cut = max((node.end_lineno or 0 for node in futures), default=0)
    lines = source.split("\n")
    return "\n".join([*lines[:cut], preamble, *lines[cut:]])
