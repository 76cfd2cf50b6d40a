"""``dials``: a procedural family of list problems on which planning carries work and execution settles conventions.

A statement sets a dial *k* in 0..9, turns it three or four times by single words (``up`` k+1, ``down`` k-1, ``jump``
k+3, ``turn`` k+5, ``mirror`` 9-k, ``triple`` 3k, all modulo 10), applies two or three list operations, of which at
least one uses k, and asks for a report. Three things make it worth learning:

- **Work that a thought carries.** The thought writes one look-up a turn (``k 2 mirror 7 triple 1``). A model that
  writes code at once has to compose the turns in a single pass.
- **Conventions of the plan.** The text leaves open whether a bound belongs to the list, a list is sorted up or down,
  division rounds down or towards zero, a rotation goes left or right, and so on. The thought says which is meant.
- **Conventions of the program.** How a list is separated and which words answer yes or no is said nowhere, not even in
  the thought: only the Coder decides.

The warm-up corpus comes from many authors who differ in every convention at random, so each pair is right for its own
author. The judge has one set of conventions, drawn from the seed; only execution tells. Splits share neither a sequence
of operations nor a sequence of three or more turns.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from corecode.config import DatasetConfig
from corecode.problems import Problem, Reference, Split, Test
from corecode.roles.thought import AlgorithmicThought

SPLITS: tuple[Split, ...] = ("sft", "rl", "validation", "test")
SHARES = (0.5, 0.2, 0.05, 0.25)
"""Shares of the structures that go to each split."""
TESTS = 5
"""Tests of a judged problem."""


@dataclass(frozen=True)
class Variant:
    """One reading of an operation: the step that states it and the code that does it."""

    step: str
    code: str


@dataclass(frozen=True)
class Operation:
    """A list operation or a report, in several wordings, with one variant for each reading the wordings allow."""

    phrases: tuple[str, ...]
    variants: tuple[Variant, ...]
    loops: bool = False


OPERATIONS = {
    "above": Operation(
        ("keep the upper side of k", "drop the lower side of k"),
        (
            Variant("keep x > {k}", "a = [x for x in a if x > {k}]"),
            Variant("keep x >= {k}", "a = [x for x in a if x >= {k}]"),
        ),
        loops=True,
    ),
    "join": Operation(
        ("put k into the list", "join k to the list"),
        (Variant("join {k} at end", "a = a + [{k}]"), Variant("join {k} at front", "a = [{k}] + a")),
    ),
    "raise": Operation(
        ("add k to each number", "raise each number by k"),
        (Variant("raise x + {k}", "a = [x + {k} for x in a]"),),
        loops=True,
    ),
    "times": Operation(
        ("multiply each number by k", "replace each number by k times it"),
        (Variant("times x * {k}", "a = [x * {k} for x in a]"),),
        loops=True,
    ),
    "divide": Operation(
        ("divide each number by {c}", "replace each number by one {c}-th of it"),
        (
            Variant("divide x // {c}", "a = [x // {c} for x in a]"),
            Variant("divide int(x / {c})", "a = [int(x / {c}) for x in a]"),
        ),
        loops=True,
    ),
    "rotate": Operation(
        ("rotate the list by {c}", "shift the list around by {c}"),
        (Variant("rotate left {c}", "a = a[{c}:] + a[:{c}]"), Variant("rotate right {c}", "a = a[-{c}:] + a[:-{c}]")),
    ),
    "sort": Operation(
        ("sort the numbers", "put the numbers in order"),
        (Variant("sort up", "a = sorted(a)"), Variant("sort down", "a = sorted(a)[::-1]")),
    ),
    "diff": Operation(
        ("take the differences of neighbours", "replace the list by its neighbour differences"),
        (
            Variant("differ y - x", "a = [y - x for x, y in zip(a, a[1:])]"),
            Variant("differ x - y", "a = [x - y for x, y in zip(a, a[1:])]"),
        ),
        loops=True,
    ),
    "total": Operation(
        ("form the running totals", "replace each number by the total so far"),
        (
            Variant("total with own", "a = [sum(a[:i + 1]) for i in range(len(a))]"),
            Variant("total without own", "a = [sum(a[:i]) for i in range(len(a))]"),
        ),
        loops=True,
    ),
    "flip": Operation(("reverse the list", "read the list backwards"), (Variant("reverse", "a = a[::-1]"),)),
}
DIAL_OPERATIONS = frozenset({"above", "join", "raise", "times"})

REPORTS = {
    "sum": Operation(("print the sum", "print what they add up to"), (Variant("print sum", "print(sum(a))"),)),
    "largest": Operation(
        ("print the largest number", "print the maximum"), (Variant("print max", "print(max(a) if a else {e})"),)
    ),
    "middle": Operation(
        ("print the middle number", "print the number in the middle"),
        (
            Variant("print lower middle", "print(a[(len(a) - 1) // 2] if a else {e})"),
            Variant("print upper middle", "print(a[len(a) // 2] if a else {e})"),
        ),
    ),
    "list": Operation(("print the numbers", "print the list"), (Variant("print list", ""),)),
    "has": Operation(("tell whether {h} occurs", "say if there is a {h}"), (Variant("print whether {h} in a", ""),)),
}
OUTPUT_TYPE = {"sum": "integer", "largest": "integer", "middle": "integer", "list": "list", "has": "word"}
REPORT_WEIGHTS = {"sum": 0.1, "largest": 0.15, "middle": 0.15, "list": 0.4, "has": 0.2}
MAY_BE_EMPTY = frozenset({"largest", "middle"})
"""Reports whose answer for an empty list is a convention of the plan."""
EMPTY_ANSWERS = ("0", "-1")
FORMATS = {
    "list": ("print(*a)", "print(*a, sep=',')"),
    "has": ("print('YES' if {h} in a else 'NO')", "print('Yes' if {h} in a else 'No')"),
}
"""Conventions of the program: no thought mentions them."""

TURNS = ("up", "down", "jump", "turn", "mirror", "triple")
FRAMES = (
    "Dial k starts at {start}, then {turns}. With k: {ops}; {report}.",
    "{Report} after these steps: {ops}. Dial k starts at {start}, then {turns}.",
    "Steps: {ops}. At the end {report}. Dial k starts at {start}, then {turns}.",
    "Set the dial k to {start}, then {turns}. Now {ops}, and {report}.",
)

Conventions = dict[str, int]
"""For each operation, report, ``empty`` and ``format/<report>`` the index of the reading that is meant."""


def turn(k: int, word: str) -> int:
    """The dial's next state, in 0..9."""
    return {"up": k + 1, "down": k - 1, "jump": k + 3, "turn": k + 5, "mirror": 9 - k, "triple": 3 * k}[word] % 10


def choices() -> dict[str, int]:
    """How many readings each convention has; only those with more than one are open."""
    counts = {name: len(op.variants) for name, op in (OPERATIONS | REPORTS).items()}
    return counts | {"empty": len(EMPTY_ANSWERS)} | {f"format/{name}": len(texts) for name, texts in FORMATS.items()}


def draw_conventions(rng: random.Random) -> Conventions:
    """One author's (or the judge's) conventions."""
    return {name: rng.randrange(count) for name, count in choices().items()}


@dataclass(frozen=True)
class Blueprint:
    """Everything of a problem but its wording and its conventions."""

    operations: tuple[str, ...]
    report: str
    start: int
    turns: tuple[str, ...]
    constants: tuple[int, ...]
    """One constant an operation, in 2..4."""
    wanted: int
    """The number that the report ``has`` looks for."""

    @property
    def dial_states(self) -> list[int]:
        return list(itertools.accumulate(self.turns, turn, initial=self.start))

    def fill(self, template: str, index: int, conventions: Conventions) -> str:
        """Put the numbers into a template of operation ``index``."""
        constant = self.constants[index] if index < len(self.constants) else 0
        empty = EMPTY_ANSWERS[conventions["empty"]]
        return template.format(k=self.dial_states[-1], c=constant, h=self.wanted, e=empty)

    def variant(self, name: str, conventions: Conventions) -> Variant:
        return (OPERATIONS | REPORTS)[name].variants[conventions[name]]

    def thought(self, conventions: Conventions) -> str:
        """The Algorithmic Thought of an author with these conventions; its first step works the dial out."""
        states = self.dial_states
        dial = f"k {states[0]}" + "".join(
            f" {word} {state}" for word, state in zip(self.turns, states[1:], strict=True)
        )
        names = (*self.operations, self.report)
        steps = [self.fill(self.variant(name, conventions).step, i, conventions) for i, name in enumerate(names)]
        loops = [str(i + 2) for i, name in enumerate(self.operations) if OPERATIONS[name].loops]
        empty = f"empty -> {EMPTY_ANSWERS[conventions['empty']]}" if self.report in MAY_BE_EMPTY else "none"
        return AlgorithmicThought(
            io=f"integers -> {OUTPUT_TYPE[self.report]}",
            steps=(dial, *steps),
            conditions=empty,
            iteration=" ".join(loops) or "none",
        ).render()

    def program(self, conventions: Conventions) -> str:
        """The program of an author with these conventions."""
        lines = ["a = list(map(int, input().split()))"]
        names = (*self.operations, self.report)
        for i, name in enumerate(names):
            code = (
                FORMATS[name][conventions[f"format/{name}"]]
                if name in FORMATS
                else self.variant(name, conventions).code
            )
            lines.append(self.fill(code, i, conventions))
        return "\n".join(lines)

    def statement(self, rng: random.Random) -> str:
        """One of the many wordings."""
        plain = dict.fromkeys(choices(), 0)
        ops = "; ".join(
            self.fill(rng.choice(OPERATIONS[name].phrases), i, plain) for i, name in enumerate(self.operations)
        )
        report = self.fill(rng.choice(REPORTS[self.report].phrases), len(self.operations), plain)
        return rng.choice(FRAMES).format(
            start=self.start, turns=" ".join(self.turns), ops=ops, report=report, Report=report[0].upper() + report[1:]
        )

    def departures(self, conventions: Conventions) -> Iterator[tuple[Blueprint, Conventions]]:
        """Every near miss: one convention read otherwise, or the dial off by one."""
        names = [*dict.fromkeys(self.operations), self.report]
        if self.report in FORMATS:
            names.append(f"format/{self.report}")
        if self.report in MAY_BE_EMPTY:
            names.append("empty")
        for name in names:
            for other in range(choices()[name]):
                if other != conventions[name]:
                    yield self, conventions | {name: other}
        for word in ("up", "down"):
            yield (
                Blueprint(
                    self.operations, self.report, turn(self.dial_states[-1], word), (), self.constants, self.wanted
                ),
                conventions,
            )


def run(program: str, stdin: str) -> str:
    """Output of one of our own reference programs (trusted: only :meth:`Blueprint.program` writes them)."""
    printed: list[str] = []

    def print_(*values: object, sep: str = " ") -> None:
        printed.append(sep.join(map(str, values)))

    exec(compile(program, "reference", "exec"), {"input": lambda: stdin, "print": print_})
    return "\n".join(printed)


def make_tests(blueprint: Blueprint, conventions: Conventions, rng: random.Random, count: int = TESTS) -> list[Test]:
    """Inputs with the reference's outputs, picked so that as many near misses as possible fail at least one."""
    reference = blueprint.program(conventions)
    others = [b.program(c) for b, c in blueprint.departures(conventions)] if count > 1 else []
    candidates: list[tuple[str, str, set[int]]] = []
    for i in range(2 * count + 2 if count > 1 else 1):
        length = rng.randint(1, 4) if i % 5 == 4 else rng.randint(5, 9)
        numbers = [rng.randint(-9, 9) for _ in range(length)]
        for value in (blueprint.dial_states[-1], blueprint.wanted):
            if rng.random() < 0.5:
                numbers[rng.randrange(length)] = value
        if length > 3:
            numbers[rng.randrange(length)] = numbers[0]
        stdin = " ".join(map(str, numbers))
        output = run(reference, stdin)
        candidates.append((stdin, output, {j for j, other in enumerate(others) if run(other, stdin) != output}))
    chosen: list[Test] = []
    left = set(range(len(others)))
    while len(chosen) < count:
        outputs = {test.output for test in chosen}
        best = max(candidates, key=lambda c: (len(c[2] & left), c[1] not in outputs, len(c[2])))
        candidates.remove(best)
        chosen.append(Test(input=best[0], output=best[1]))
        left -= best[2]
    return chosen


@dataclass(frozen=True)
class Structures:
    """What one split may be made of."""

    operations: tuple[tuple[tuple[str, ...], ...], ...]
    """For two and for three operations, the sequences."""
    turns: tuple[tuple[tuple[str, ...], ...], ...]
    """For three and for four turns, the sequences."""


def _split(items: Sequence[tuple[str, ...]], rng: random.Random) -> list[tuple[tuple[str, ...], ...]]:
    shuffled = list(items)
    rng.shuffle(shuffled)
    cuts = [round(sum(SHARES[:i]) * len(shuffled)) for i in range(len(SHARES) + 1)]
    return [tuple(shuffled[a:b]) for a, b in itertools.pairwise(cuts)]


def structures(rng: random.Random) -> dict[Split, Structures]:
    """Deal the sequences of operations and of turns to the splits; no two splits share one."""
    sequences = [[ops for ops in itertools.permutations(OPERATIONS, n) if DIAL_OPERATIONS & set(ops)] for n in (2, 3)]
    operations = [_split(group, rng) for group in sequences]
    turns = [_split(list(itertools.product(TURNS, repeat=n)), rng) for n in (3, 4)]
    return {
        split: Structures(tuple(group[i] for group in operations), tuple(group[i] for group in turns))
        for i, split in enumerate(SPLITS)
    }


def _wanted(blueprint: Blueprint, conventions: Conventions, rng: random.Random) -> int:
    """A digit that really occurs in some results where there is one, so that yes is not a rare answer."""
    as_list = replace(blueprint, report="list").program(conventions | {"format/list": 0})
    inputs = [" ".join(str(rng.randint(-9, 9)) for _ in range(7)) for _ in range(6)]
    found = [int(x) for stdin in inputs for x in run(as_list, stdin).split()]
    digits = [x for x in found if 0 <= x <= 9]
    return rng.choice(digits) if digits else blueprint.wanted


def _blueprint(split: Split, parts: Structures, conventions: Conventions, rng: random.Random) -> Blueprint:
    """Draw one problem. The warm-up also sees one operation and shorter turns, which are easier to learn from."""
    easy = split == "sft" and rng.random() < 0.3
    if easy:
        operations = (rng.choice(sorted(DIAL_OPERATIONS)),)
        turns = tuple(rng.choice(TURNS) for _ in range(rng.randint(1, 2)))
    else:
        operations = rng.choice(parts.operations[0 if rng.random() < 0.8 else 1])
        turns = rng.choice(parts.turns[0 if rng.random() < 0.5 else 1])
    starts = [k for k in range(10) if list(itertools.accumulate(turns, turn, initial=k))[-1] > 0]
    (report,) = rng.choices(list(REPORT_WEIGHTS), list(REPORT_WEIGHTS.values()))
    constants = tuple(rng.randint(2, 4) for _ in operations)
    blueprint = Blueprint(operations, report, rng.choice(starts), turns, constants, rng.randint(0, 9))
    return replace(blueprint, wanted=_wanted(blueprint, conventions, rng)) if report == "has" else blueprint


def datasets(config: DatasetConfig, seed: int) -> dict[Split, list[Problem]]:
    """Make the four splits.

    Warm-up problems carry their author's thought and program and one test by that author; all others carry
    :data:`TESTS` tests by the judge. No statement occurs twice in a split.
    """
    deal = structures(random.Random(f"{seed} structures"))
    judge = draw_conventions(random.Random(f"{seed} judge"))
    sizes: dict[Split, int] = {
        "sft": config.sft,
        "rl": config.rl,
        "validation": config.validation,
        "test": config.test,
    }
    result: dict[Split, list[Problem]] = {}
    for split in SPLITS:
        rng = random.Random(f"{seed} {split}")
        seen: set[str] = set()
        problems: list[Problem] = []
        while len(problems) < sizes[split]:
            author = draw_conventions(rng) if split == "sft" else judge
            blueprint = _blueprint(split, deal[split], author, rng)
            statement = blueprint.statement(rng)
            if statement in seen:
                continue
            seen.add(statement)
            problems.append(
                Problem(
                    id=f"dials-{split}-{len(problems):05d}",
                    statement=statement,
                    tests=make_tests(blueprint, author, rng, 1 if split == "sft" else TESTS),
                    split=split,
                    source="dials",
                    references=[Reference(program=blueprint.program(author), thought=blueprint.thought(author))],
                    structure=" ".join(blueprint.operations) + " | " + " ".join(blueprint.turns),
                )
            )
        result[split] = problems
    return result
