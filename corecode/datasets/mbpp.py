"""MBPP (Austin et al. 2021): the full set of 974 problems and the sanitized one of 427.

- The function's name stands in the asserts alone, so the statement shows the first one; the others stay hidden.
- The two sets differ in wording, names and asserts. They keep different ids (``mbpp/11``, ``mbpp-sanitized/11``).
- ``test_setup_code`` (full) and ``test_imports`` (sanitized) run between program and asserts. Two tasks build trees in
  it, of a class ``Node`` that the program has to define: the statement shows such code.
- Asserts compare as Python does: floats exactly, a tuple is not a list. ``challenge_test_list`` belongs to the tests.
- Line ends of code and asserts are CRLF nearly everywhere; they become line feeds.
- A file of the same fields with a ``plan`` (pairs to learn from) keeps the plan as thought where it has the four parts.
"""

from __future__ import annotations

from typing import Any

from corecode.datasets.asserts import entry_point
from corecode.datasets.converted import Converted, Origin, Refused, newlines, text
from corecode.problems import Problem, Reference, Test
from corecode.roles.thought import parse_thought

Record = dict[str, Any]

TIME_LIMIT_S = 4.0
"""CPU seconds a test; the data state none."""
SLOW = {123: 30.0}
"""Tasks whose own reference needs more (task 123 sums the divisors of every number up to 20,000)."""
_SPLITS = ((1, 10, "prompt"), (11, 510, "test"), (511, 600, "validation"), (601, 974, "train"))


def split_of(record: Record) -> str | None:
    """The split that the authors gave a task: by its number."""
    number = int(record["task_id"])
    return next((name for low, high, name in _SPLITS if low <= number <= high), None)


def convert(record: Record, origin: Origin) -> Converted:
    """A problem from a record of either set."""
    number = int(record["task_id"])
    sanitized = "test_imports" in record
    challenge = record.get("challenge_test_list") or []
    tests = [newlines(test).strip() for test in [*record["test_list"], *challenge]]
    if not tests:
        raise Refused("test_list: it has no tests")
    setup = newlines(record.get("test_setup_code") or "") or "\n".join(record.get("test_imports") or [])
    code = text(record, "code") if record.get("code") is not None else None
    wording = text(record, "prompt" if record.get("text") is None else "text").strip()
    statement = f"{wording}\nYour code should pass the test:\n{tests[0]}"
    if record.get("test_setup_code"):
        statement += f"\nBefore it, this runs:\n{setup.strip()}"
    source = "mbpp-sanitized" if sanitized else "mbpp"
    return Converted(
        Problem(
            id=f"{source}/{number}",
            statement=statement,
            kind="asserts",
            tests=[Test(code=test) for test in tests],
            source=source,
            entry_point=entry_point(tests, code, setup),
            setup=setup,
            time_limit_s=SLOW.get(number, TIME_LIMIT_S),
            references=[] if code is None else [Reference(program=code, thought=_thought(record.get("plan")))],
        )
    )


def _thought(plan: object) -> str | None:
    """A plan that is an Algorithmic Thought; free text would teach the Planner another form."""
    thought = parse_thought(plan) if isinstance(plan, str) else None
    return thought.render() if thought else None
