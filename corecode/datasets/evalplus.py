"""HumanEval+ and MBPP+ (EvalPlus, Liu et al. 2023): inputs without expected outputs, and a reference that gives them.

Each test holds the reference and some inputs. It runs in the sandbox's examiner, beside the program and out of its
reach: the reference computes what is expected, and the answer of the program is compared with it. So nothing of the
data runs while it is read.

Comparison follows the benchmark: equality; numbers with a decimal point within the record's ``atol``, or 1e-6 where it
is 0; for MBPP+ what the asserts of the record say (truth alone, or equality as sets); for HumanEval/32 the residual at
the root that was found. JSON has no tuples or sets: the arguments of MBPP+ get the types that its asserts write out.
"""

from __future__ import annotations

import ast
import contextlib
from typing import Any, cast

from corecode.datasets.asserts import called_names, parse
from corecode.datasets.converted import Converted, Origin, Refused, newlines, text
from corecode.datasets.humaneval import without_docstring
from corecode.problems import Problem, Reference, Test

Record = dict[str, Any]

TIME_LIMIT_S = 10.0
"""CPU seconds a test, for program and reference each."""
MAX_TESTS = 50
"""Tests a problem; of more inputs several share one."""
_ROOT = "find_zero"
"""HumanEval/32: any root is right."""

_TEST = """\
from copy import deepcopy as _copy

inf, nan = float("inf"), float("nan")
_SCOPE = {{}}
exec({reference!r}, _SCOPE)


def _close(found, expected, atol):
    if type(expected) in (list, tuple):
        return type(found) is type(expected) and len(found) == len(expected) and all(
            _close(*_pair, atol) for _pair in zip(found, expected)
        )
    if type(expected) is float and type(found) in (float, int):
        return found == expected or abs(found - expected) <= atol + 1e-7 * abs(expected)
    return found == expected


for _arguments in {inputs}:
    _expected = _SCOPE[{name!r}](*_copy(_arguments))
    _found = {name}(*_copy(_arguments))
    assert {comparison}
"""
_COMPARISONS = {
    "equal": "_found == _expected or _close(_found, _expected, {atol})",
    "truth": "bool(_found) == bool(_expected)",
    "set": "set(_found) == set(_expected)",
    "root": "abs(_SCOPE['poly'](*_copy(_arguments), _found)) <= {atol}",
}


def convert(record: Record, origin: Origin) -> Converted:
    """A record of HumanEval+ or MBPP+."""
    prompt, name = text(record, "prompt"), text(record, "entry_point")
    solution = text(record, "canonical_solution")
    atol = float(record.get("atol") or 0) or 1e-6
    human = str(record["task_id"]).startswith("HumanEval")
    inputs = [list(one) for one in [*record["base_input"], *(record.get("plus_input") or [])]]
    if not inputs:
        raise Refused("base_input and plus_input: it has no inputs")
    if human:
        program = without_docstring(prompt, name) + solution
        comparison = "root" if name == _ROOT else "equal"
    else:
        program = solution.strip() + "\n"
        asserts = [node for node in _assertions(record) if name in called_names(ast.unparse(node))]
        inputs = _typed(inputs, asserts, name)
        comparison = _comparison(prompt, name)
    size = -(-len(inputs) // MAX_TESTS)
    tests = [
        Test(
            code=_TEST.format(
                reference=program,
                inputs=inputs[first : first + size],
                name=name,
                comparison=_COMPARISONS[comparison].format(atol=atol),
            )
        )
        for first in range(0, len(inputs), size)
    ]
    return Converted(
        Problem(
            id=str(record["task_id"]),
            statement=prompt if human else _wording(prompt),
            kind="asserts",
            tests=tests,
            source="humaneval+" if human else "mbpp+",
            entry_point=name,
            continues=human,
            time_limit_s=TIME_LIMIT_S,
            references=[Reference(program=program)],
        )
    )


def refuse_hub(record: Record, origin: Origin) -> Converted:
    """A record of MBPP+ as it lies on the hub: read as MBPP it would pass for MBPP+ without the added inputs."""
    raise Refused("its check needs numpy, which the sandbox has not; use the benchmark's file with base_input")


def _wording(prompt: str) -> str:
    """The text of a prompt that is a program with nothing but a docstring."""
    tree = parse(prompt)
    lines = ((tree and ast.get_docstring(tree)) or prompt).strip().split("\n")
    first = next((number for number, line in enumerate(lines) if line.startswith("assert ")), len(lines))
    shown = ["Your code should pass the test:"] if first < len(lines) else []
    return "\n".join([*lines[:first], *shown, *lines[first:]])


def _assertions(record: Record) -> list[ast.Assert]:
    tree = parse(newlines(record.get("assertion") or ""))
    return [node for node in tree.body if isinstance(node, ast.Assert)] if tree else []


def _comparison(prompt: str, name: str) -> str:
    """How the assert in the prompt compares: ``truth``, ``set`` or ``equal``."""
    tree = parse(_wording(prompt).rpartition("Your code should pass the test:\n")[2])
    match tree.body[0] if tree and tree.body else None:
        case ast.Assert(test=ast.Call(func=ast.Name(id=called))) if called == name:
            return "truth"
        case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id=called)))) if called == name:
            return "truth"
        case ast.Assert(test=ast.Compare(left=ast.Call(func=ast.Name(id="set")))):
            return "set"
        case _:
            return "equal"


def _typed(inputs: list[list[Any]], asserts: list[ast.Assert], name: str) -> list[list[Any]]:
    """The inputs with the types of the arguments that the asserts write as literals."""
    written: list[list[object]] = []
    for node in asserts:
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name:
                try:
                    written.append([ast.literal_eval(argument) for argument in call.args])
                except ValueError:
                    continue
    return [[_argument(value, [w[i] for w in written if i < len(w)]) for i, value in enumerate(one)] for one in inputs]


def _argument(value: object, examples: list[object]) -> object:
    """An argument of the examples' types. Text that reads as a complex number is one, where they have numbers."""
    if isinstance(value, str) and examples and all(isinstance(one, int | float | complex) for one in examples):
        with contextlib.suppress(ValueError):
            return complex(value)
    return _like(value, examples, list)


def _like(value: object, examples: list[object], outer: type) -> object:
    """``value``, a JSON value, with the container types of the examples, and those of the container around it where the
    examples do not reach so deep."""
    if not isinstance(value, list):
        return value
    items = cast("list[object]", value)
    containers = [example for example in examples if isinstance(example, list | tuple | set)]
    sequences = [list(cast("list[object]", container)) for container in containers]
    kinds = {type(container) for container in containers}
    kind = outer if not kinds else kinds.pop() if len(kinds) == 1 else list
    same = bool(sequences) and all(len(sequence) == len(items) for sequence in sequences)
    inner = [
        _like(item, [s[i] for s in sequences] if same else [x for s in sequences for x in s], kind)
        for i, item in enumerate(items)
    ]
    if kind is tuple:
        return tuple(inner)
    return set(inner) if kind is set else inner
