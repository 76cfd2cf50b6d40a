"""An Algorithmic Thought from a reference program, by reading its syntax tree: the same program, the same thought.

It says what the program does in plain words and in the four parts, and it is bounded in length. Where a dataset has
programs but no thoughts, this makes honest warm-up data: nothing is in the thought that is not in the program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from corecode.datasets.phrases import comprehension, listing, phrase
from corecode.roles.thought import NONE, AlgorithmicThought

MAX_STEPS = 12
"""Steps of a thought; the last one says how many more were left out."""
MAX_ITEMS = 4
"""Conditions, and loops, of a thought."""
MAX_WORDS, MAX_CHARACTERS = 30, 200
"""Length of one step, condition or loop."""
MAX_REACTION = 12
"""Words for what happens when a condition holds."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def thought_from_program(source: str, entry_point: str | None = None) -> AlgorithmicThought:
    """The thought behind a program.

    Args:
        entry_point: the function (or method) that is called; None means a program that reads standard input.

    Raises:
        ValueError: when the source does not parse, or defines no function ``entry_point``.
    """
    try:
        tree = ast.parse(source)
        return _thought(tree, entry_point)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"the program does not parse: {error}") from error


def _thought(tree: ast.Module, entry_point: str | None) -> AlgorithmicThought:
    functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
    function: _Function | None = None
    if entry_point is None:
        body = _program_body(tree, functions)
    else:
        named = (node for node in ast.walk(tree) if isinstance(node, _Function) and node.name == entry_point)
        function = next(named, None)
        if function is None:
            raise ValueError(f"the program defines no function {entry_point!r}")
        functions.pop(entry_point, None)
        body = function.body
    helpers = [helper for helper in functions.values() if _mentions(helper.name, [*body, *functions.values()])]
    scope: list[ast.stmt] = [*helpers, *body]
    io = _signature(function) if function else _stdio(scope)
    steps = [_clip(step) for step in _steps(scope)] or ["nothing has to be done"]
    if len(steps) > MAX_STEPS:
        steps = [*steps[: MAX_STEPS - 1], f"then {len(steps) - MAX_STEPS + 1} more steps"]
    loops = [*_loops(scope), *_recursions([*helpers, *([function] if function else [])])]
    return AlgorithmicThought(_clip(io), steps, _items(_conditions(scope)), _items(loops))


def _clip(text: str, limit: int = MAX_WORDS) -> str:
    words = text.split()
    short = " ".join(words[:limit])[:MAX_CHARACTERS].rstrip()
    return short if short == " ".join(words) else f"{short} ..."


def _items(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(_clip(text) for text in texts))
    more = f"; and {len(distinct) - MAX_ITEMS} more" if len(distinct) > MAX_ITEMS else ""
    return "; ".join(distinct[:MAX_ITEMS]) + more or NONE


def _program_body(tree: ast.Module, functions: dict[str, _Function]) -> list[ast.stmt]:
    """The statements that a script runs, with ``if __name__ == "__main__"`` and a lone ``main()`` opened."""
    body: list[ast.stmt] = [node for node in tree.body if not isinstance(node, _Function | ast.ClassDef)]
    while True:
        match [node for node in body if not _silent(node)]:
            case [ast.If(test=test) as only] if "__name__" in ast.unparse(test):
                body = only.body
            case [ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[]))] if name in functions:
                body = functions.pop(name).body
            case _:
                return body


def _mentions(name: str, nodes: Sequence[ast.stmt]) -> bool:
    """Whether any statement but the function of that name mentions it."""
    others = (node for node in nodes if not (isinstance(node, _Function) and node.name == name))
    return any(isinstance(part, ast.Name) and part.id == name for node in others for part in ast.walk(node))


def _silent(node: ast.stmt) -> bool:
    """Statements that a plan does not mention: imports, docstrings, ``pass`` and declarations."""
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return text or isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | ast.Global | ast.Nonlocal)


def _parts(nodes: Sequence[ast.AST]) -> list[ast.stmt | ast.expr]:
    """Every node below, in the order of the source."""
    found = [part for node in nodes for part in ast.walk(node) if isinstance(part, ast.stmt | ast.expr)]
    return sorted(found, key=lambda part: (part.lineno, part.col_offset))


# Input and output


def _parameters(function: _Function) -> list[ast.arg]:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return [argument for argument in every if argument is not None and argument.arg != "self"]


def _type(annotation: ast.expr) -> str:
    match annotation:
        case ast.Subscript(value=container, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return f"{_type(container)} of {listing([_type(part) for part in parts])}"
        case ast.BinOp(op=ast.BitOr()):
            return f"{_type(annotation.left)} or {_type(annotation.right)}"
        case ast.Constant(value=None):
            return "nothing"
        case _:
            name = ast.unparse(annotation).strip("\"'").split(".")[-1]
            return {"str": "text", "int": "integer", "float": "number", "bool": "truth value"}.get(name, name.lower())


def _signature(function: _Function) -> str:
    """Parameters with their types, and what is returned (from the annotation, else from the last return)."""
    inputs = [
        f"{parameter.arg} ({_type(parameter.annotation)})" if parameter.annotation else parameter.arg
        for parameter in _parameters(function)
    ]
    returned = [node.value for node in _parts(function.body) if isinstance(node, ast.Return) and node.value]
    if function.returns is not None:
        output = _type(function.returns)
    else:
        output = phrase(returned[-1]) if returned else "nothing"
    return f"{listing(inputs)} -> {output}"


def _stdio(scope: Sequence[ast.stmt]) -> str:
    """What a script reads and prints."""
    parts = _parts(scope)
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    names |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
    read = "nothing"
    if names & {"input", "stdin", "open"}:
        read = "numbers from standard input" if names & {"int", "float"} else "text from standard input"
    outputs = [
        listing([phrase(argument) for argument in part.args])
        for part in parts
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "print" and part.args
    ]
    printed = " or ".join(list(dict.fromkeys(outputs))[:3])
    return f"{read} -> {printed or 'text on standard output'}"


# Steps


def _steps(body: Sequence[ast.stmt], depth: int = 0) -> Iterator[str]:
    """One step a statement; what is too long for one becomes a heading and steps of its own, marked by ``>``."""
    mark = ">" * depth + " " if depth else ""
    for node in body:
        if _silent(node):
            continue
        sentence = mark + _sentence(node)
        if len(sentence.split()) <= MAX_WORDS or not isinstance(node, ast.For | ast.While | ast.If | _Function):
            yield sentence
            continue
        yield f"{mark}{_heading(node)}:"
        yield from _steps(node.body, depth + 1)
        if isinstance(node, ast.If) and node.orelse:
            if isinstance(node.orelse[0], ast.If) and len(node.orelse) == 1:
                first, *rest = _steps(node.orelse, depth)
                yield f"{mark}otherwise {first.removeprefix(mark)}"
                yield from rest
            else:
                yield f"{mark}otherwise:"
                yield from _steps(node.orelse, depth + 1)


def _heading(node: ast.For | ast.While | ast.If | _Function) -> str:
    match node:
        case ast.For():
            return f"for each {phrase(node.target)} of {phrase(node.iter)}"
        case ast.While():
            return f"while {phrase(node.test)}"
        case ast.If():
            return f"if {phrase(node.test)}"
        case _:
            return f"helper {node.name} of {listing([parameter.arg for parameter in _parameters(node)])}"


def _sentences(body: Sequence[ast.stmt]) -> str:
    return "; ".join(_sentence(node) for node in body if not _silent(node)) or "do nothing"


def _sentence(node: ast.stmt) -> str:
    match node:
        case ast.Assign():
            return f"set {listing([phrase(target) for target in node.targets])} to {phrase(node.value)}"
        case ast.AnnAssign(value=ast.expr() as value):
            return f"set {phrase(node.target)} to {phrase(value)}"
        case ast.AugAssign(op=ast.Add()):
            return f"increase {phrase(node.target)} by {phrase(node.value)}"
        case ast.AugAssign(op=ast.Sub()):
            return f"decrease {phrase(node.target)} by {phrase(node.value)}"
        case ast.AugAssign():
            return f"set {phrase(node.target)} to {phrase(ast.BinOp(node.target, node.op, node.value))}"
        case ast.Return(value=ast.expr() as value):
            return f"return {phrase(value)}"
        case ast.Return():
            return "return nothing"
        case ast.Expr():
            return phrase(node.value)
        case ast.If() if node.orelse:
            return f"{_heading(node)}: {_sentences(node.body)}; otherwise: {_sentences(node.orelse)}"
        case ast.For() | ast.While() | ast.If() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"{_heading(node)}: {_sentences(node.body)}"
        case ast.With():
            return _sentences(node.body)
        case ast.Try():
            rescue = "; ".join(_sentences(handler.body) for handler in node.handlers)
            return f"try: {_sentences(node.body)}; on an error: {rescue}"
        case ast.Break():
            return "leave the loop"
        case ast.Continue():
            return "go on with the next one"
        case ast.Raise():
            return "report an error"
        case ast.Assert():
            return f"require that {phrase(node.test)}"
        case _:
            return ast.unparse(node)


# Conditions and iteration


def _conditions(scope: Sequence[ast.stmt]) -> Iterator[str]:
    for part in _parts(scope):
        match part:
            case ast.If():
                yield f"{phrase(part.test)} -> {_clip(_sentences(part.body), MAX_REACTION)}"
            case ast.IfExp():
                yield f"{phrase(part.test)} -> {phrase(part.body)}, else {phrase(part.orelse)}"
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                yield from (f"only where {phrase(test)}" for loop in part.generators for test in loop.ifs)
            case _:
                continue


def _loops(scope: Sequence[ast.stmt]) -> Iterator[str]:
    for part in _parts(scope):
        if isinstance(part, ast.For | ast.While):
            yield _heading(part)
        elif isinstance(part, _Comprehension):
            yield comprehension(part.generators)


def _recursions(functions: Sequence[_Function]) -> Iterator[str]:
    for function in functions:
        inside = (part for part in _parts(function.body) if isinstance(part, ast.Name))
        if any(part.id == function.name for part in inside):
            yield f"{function.name} calls itself"
