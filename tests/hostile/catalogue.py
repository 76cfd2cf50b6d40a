"""Reads the attacking programs and says whether what happened is what must happen.

Each file under ``programs/<kind>/`` begins with comment lines ``# key: value``:

- ``does``: one sentence (required).
- ``kind``: ``stdio`` (default), ``call``, ``asserts``, or several of them; the program is then run once as each.
- ``tests``: which tests it faces, see ``_TESTS``; by default one that wants a secret token, or a function ``add``.
- ``answer`` and ``stdin``: the expected output and the input of a stdio program. Without ``answer`` the expected output
  is a secret that changes with every run, so that "accepted" can only mean a forged or stolen answer.
- ``stdin_kb``: size of the input instead of its text.
- ``limits``: fields of :class:`sandbox.Limits`.
- ``runs``: how often it runs in a row on one worker (an attack that wants to survive needs two).
- ``cost``: ``steps`` for a sandbox that counts steps.
- ``checker``: judge through a checker program.
- ``expect`` (required, repeated; all must hold; " or " separates alternatives): ``not_accepted`` (and no test passed,
  but for the number given by ``passed``), ``verdict A|B``, ``output contains TEXT``, ``output lacks TEXT``,
  ``cpu_s|wall_s|peak_mb|steps >=|<= NUMBER``.

No attack may end as a sandbox error: that would let a program escape its verdict.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from sandbox import Judgement, Limits, Program, TestCase, Verdict

PROGRAMS = Path(__file__).parent / "programs"
KINDS = ("escape", "persistence", "denial", "forgery", "spying", "hiding_cost")
_KEYS = {
    "does", "kind", "tests", "answer", "stdin", "stdin_kb", "limits", "runs", "cost", "checker", "passed", "expect",
}  # fmt: skip

TOKEN_CHECKER = """
import sys
expected, output = (open(path).read().split() for path in sys.argv[2:4])
raise SystemExit(0 if expected == output else 1)
"""
"""A checker that wants the tokens of the expected output."""


@dataclass(frozen=True)
class Attack:
    """One attacking program as one kind of program."""

    name: str
    """``kind/file``, and ``as`` which kind of program."""
    source: str
    kind: str
    headers: dict[str, str]
    expectations: tuple[str, ...]

    @property
    def runs(self) -> int:
        return int(self.headers.get("runs", 1))

    @property
    def cost(self) -> str:
        return self.headers.get("cost", "cpu_time")

    @property
    def limits(self) -> Limits:
        given = dict(item.split("=") for item in self.headers.get("limits", "").split())
        return Limits(**{name: float(text) if name.endswith("_s") else int(text) for name, text in given.items()})

    @property
    def waits(self) -> bool:
        """Whether it uses up a time limit, which makes it slow."""
        return any("time_limit" in expectation for expectation in self.expectations) or "wall_s" in self.headers.get(
            "limits", ""
        )

    def program(self) -> Program:
        """The program with its tests; secrets are new every time."""
        checker = TOKEN_CHECKER if "checker" in self.headers else None
        return Program(self.source, self._tests(), limits=self.limits, checker=checker)

    def _tests(self) -> tuple[TestCase, ...]:
        first, second = (f"token-{secrets.token_hex(8)}" for _ in range(2))
        tests = self.headers.get("tests", "add")
        if tests == "earlier":
            return TestCase.stdio(f"{first}\n", "seen"), TestCase.stdio("second\n", first)
        if self.kind == "stdio":
            stdin = self.headers.get("stdin", "") + "\n" + "x" * 1024 * int(self.headers.get("stdin_kb", 0))
            return (TestCase.stdio(stdin.lstrip("\n"), self.headers.get("answer", first)),)
        if tests == "secret":
            calls = [("secret", (1,), first), ("secret", (2,), second)]
        elif tests == "order":
            if self.kind == "asserts":
                return tuple(TestCase.asserts(f"assert {check}") for check in _ORDER)
            calls = [("order", ([30, 10, 20],), [10, 20, 30]), ("order", ([7, 7],), [7, 7])]
        else:
            numbers = ((1, 2), (2, 2)) if tests == "small" else ((1234, 4321), (2048, 1000))
            calls = [("add", pair, sum(pair)) for pair in numbers]
        if self.kind == "call":
            return tuple(TestCase.call(name, list(arguments), expected) for name, arguments, expected in calls)
        return tuple(
            TestCase.asserts(f"assert {name}({', '.join(map(repr, arguments))}) == {expected!r}")
            for name, arguments, expected in calls
        )


_ORDER = (
    "sorted(order([30, 10, 20])) == [10, 20, 30]",
    "order([30, 10, 20]) == [10, 20, 30]",
    "len(order([7, 7])) == 2",
    "isinstance(order([7]), list) and order([7])[0] == 7",
    "set(order([7, 7])) == {7}",
    "sum(order([7, 7])) == 14 and all(x == 7 for x in order([7, 7]))",
)
"""What the tests ask of ``order``, through the builtins that an attack replaces."""


def read_attacks() -> list[Attack]:
    """Every program under ``programs/``, once for each kind it names."""
    attacks: list[Attack] = []
    for path in sorted(PROGRAMS.glob("*/*.py")):
        source = path.read_text(encoding="utf-8")
        headers: dict[str, str] = {}
        expectations: list[str] = []
        for line in source.split("\n"):
            match = re.fullmatch(r"# (\w+): (.*)", line)
            if not match:
                break
            key, value = match.groups()
            if key not in _KEYS or (key in headers and key != "expect"):
                raise ValueError(f"{path}: the header {key!r} is unknown or repeated")
            if key == "expect":
                expectations.append(value)
            headers[key] = value
        if "does" not in headers or not expectations:
            raise ValueError(f"{path}: the headers 'does' and 'expect' are required")
        kinds = headers.get("kind", "stdio").split()
        for kind in kinds:
            name = f"{path.parent.name}/{path.stem}" + (f" as {kind}" if len(kinds) > 1 else "")
            attacks.append(Attack(name, source, kind, headers, tuple(expectations)))
    return attacks


def complaints(attack: Attack, judgement: Judgement) -> list[str]:
    """What must have happened and did not; empty when the attack was contained."""
    found = [
        expectation
        for expectation in attack.expectations
        if not any(_holds(attack, alternative, judgement) for alternative in expectation.split(" or "))
    ]
    if judgement.verdict is Verdict.SANDBOX_ERROR:
        found.append(f"no sandbox error ({judgement.detail})")
    return found


def _holds(attack: Attack, expectation: str, judgement: Judgement) -> bool:
    output = "\n".join(test.stdout for test in judgement.tests)
    match expectation.split(" ", 2):
        case ["not_accepted"]:
            allowed = int(attack.headers.get("passed", 0))
            return judgement.verdict is not Verdict.ACCEPTED and judgement.passed <= allowed
        case ["verdict", verdicts]:
            return judgement.verdict in [Verdict(name) for name in verdicts.split("|")]
        case ["output", "contains", text]:
            return text in output
        case ["output", "lacks", text]:
            return text not in output
        case [field, sign, number]:
            value = {
                "cpu_s": judgement.cpu_s,
                "wall_s": judgement.wall_s,
                "peak_mb": judgement.peak_mb,
                "steps": judgement.steps or 0,
            }[field]
            return value >= float(number) if sign == ">=" else value <= float(number)
        case _:
            raise ValueError(f"{attack.name}: cannot read the expectation {expectation!r}")
