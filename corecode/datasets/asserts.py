"""Tests that are Python text: which function they call, and how a ``check(candidate)`` becomes single asserts."""

from __future__ import annotations

import ast
import builtins
import warnings

from corecode.problems import Test

_BUILTINS = frozenset(dir(builtins))


def parse(code: str) -> ast.Module | None:
    """The syntax tree; None where the text is no Python of this version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in a data set's text are not our warnings
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def used_names(code: str) -> set[str]:
    """Names that the text reads and does not define itself. Empty when it does not parse."""
    tree = parse(code)
    if tree is None:
        return set()
    bound: set[str] = set()
    loaded: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add((other or name).split(".")[0])
            case _:
                pass
    return loaded - bound


def called_names(code: str) -> list[str]:
    """Names that the text calls as functions, outermost first, each once. Empty when it does not parse."""
    tree = parse(code)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree else []
    return list(dict.fromkeys(call.func.id for call in calls if isinstance(call.func, ast.Name)))


def defined_names(program: str) -> set[str]:
    """Functions and classes that a program defines at its top level."""
    tree = parse(program)
    found = tree.body if tree else []
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


def entry_point(tests: list[str], program: str | None, setup: str = "") -> str | None:
    """The function that all tests call: one that the reference defines, else one that is not built in, else any."""
    if not tests:
        return None
    helpers = defined_names(setup)
    common = [name for name in called_names(tests[0]) if all(name in called_names(test) for test in tests)]
    common = [name for name in common if name not in helpers]
    defined = defined_names(program) if program else set[str]()
    for group in ([n for n in common if n in defined], [n for n in common if n not in _BUILTINS], common):
        if group:
            return group[0]
    return None


def single_asserts(code: str) -> tuple[list[Test], str | None] | None:
    """The asserts of ``def check(candidate): assert ...`` with its ``check(name)``, each as a test that calls the
    function by its own name; and the name that ``check`` got.

    None where ``check`` holds anything but asserts, which may depend on each other.
    """
    tree = parse(code)
    match tree.body if tree else []:
        case [
            ast.FunctionDef(args=ast.arguments(args=[ast.arg(arg=parameter)]), body=body) as check,
            ast.Expr(value=ast.Call(func=ast.Name(id=called), args=[ast.Name(id=name)])),
        ] if called == check.name and all(isinstance(statement, ast.Assert) for statement in body):
            renamed = _Rename(parameter, name)
            return [Test(code=ast.unparse(renamed.visit(statement))) for statement in body], name
        case _:
            return None


class _Rename(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.new, node.ctx), node) if node.id == self.old else node
