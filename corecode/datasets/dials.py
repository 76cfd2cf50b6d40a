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
author. The judge has one set of conventions, drawn from ``dataset.seed``; only execution tells. Splits share neither a
sequence of operations nor a sequence of three or more turns.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from corecode.config import DatasetConfig
from corecode.problems import Problem, Reference, Split, Test
from corecode.roles.thought import AlgorithmicThought

SPLITS: tuple[Split, ...] = ("sft", "rl", "validation", "test")
SHARES = (0.45, 0.2, 0.1, 0.25)
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
    "halve": Operation(
        ("halve each number", "divide each number by two"),
        (
            Variant("halve x // 2", "a = [x // 2 for x in a]"),
            Variant("halve int(x / 2)", "a = [int(x / 2) for x in a]"),
        ),
        loops=True,
    ),
    "rotate": Operation(
        ("rotate the list by two", "shift the list around by two"),
        (Variant("rotate left", "a = a[2:] + a[:2]"), Variant("rotate right", "a = a[-2:] + a[:-2]")),
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
    "has": Operation(("tell whether k occurs", "say if k is among them"), (Variant("print whether {k} in a", ""),)),
}
OUTPUT_TYPE = {"sum": "integer", "largest": "integer", "middle": "integer", "list": "list", "has": "word"}
REPORT_WEIGHTS = {"sum": 0.15, "largest": 0.2, "middle": 0.25, "list": 0.25, "has": 0.15}
MAY_BE_EMPTY = frozenset({"largest", "middle"})
"""Reports whose answer for an empty list is a convention of the plan."""
EMPTY_ANSWERS = ("0", "-1")
FORMATS = {
    "list": ("print(*a)", "print(*a, sep=',')"),
    "has": ("print('YES' if {k} in a else 'NO')", "print('Yes' if {k} in a else 'No')"),
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

    @property
    def dial_states(self) -> list[int]:
        return list(itertools.accumulate(self.turns, turn, initial=self.start))

    def fill(self, template: str, conventions: Conventions) -> str:
        """Put the numbers into a template."""
        return template.format(k=self.dial_states[-1], e=EMPTY_ANSWERS[conventions["empty"]])

    def variant(self, name: str, conventions: Conventions) -> Variant:
        return (OPERATIONS | REPORTS)[name].variants[conventions[name]]

    def thought(self, conventions: Conventions) -> str:
        """The Algorithmic Thought of an author with these conventions; its first step works the dial out."""
        states = self.dial_states
        dial = f"k {states[0]}" + "".join(
            f" {word} {state}" for word, state in zip(self.turns, states[1:], strict=True)
        )
        names = (*self.operations, self.report)
        steps = [self.fill(self.variant(name, conventions).step, conventions) for name in names]
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
        for name in names:
            code = (
                FORMATS[name][conventions[f"format/{name}"]]
                if name in FORMATS
                else self.variant(name, conventions).code
            )
            lines.append(self.fill(code, conventions))
        return "\n".join(lines)

    def statement(self, rng: random.Random) -> str:
        """One of the many wordings."""
        plain = dict.fromkeys(choices(), 0)
        ops = "; ".join(self.fill(rng.choice(OPERATIONS[name].phrases), plain) for name in self.operations)
        report = self.fill(rng.choice(REPORTS[self.report].phrases), plain)
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
                Blueprint(self.operations, self.report, turn(self.dial_states[-1], word), ()),
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
        if rng.random() < 0.5:
            numbers[rng.randrange(length)] = blueprint.dial_states[-1]
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


def _blueprint(split: Split, parts: Structures, rng: random.Random) -> Blueprint:
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
    return Blueprint(operations, report, rng.choice(starts), turns)


def datasets(config: DatasetConfig) -> dict[Split, list[Problem]]:
    """Make the four splits.

    Warm-up problems carry their author's thought and program and one test by that author; all others carry
    :data:`TESTS` tests by the judge, whose outputs differ: printing a constant never solves one. No statement occurs
    twice in a split.
    """
    deal = structures(random.Random(f"{config.seed} structures"))
    judge = draw_conventions(random.Random(f"{config.seed} judge"))
    sizes: dict[Split, int] = {
        "sft": config.sft,
        "rl": config.rl,
        "validation": config.validation,
        "test": config.test,
    }
    result: dict[Split, list[Problem]] = {}
    for split in SPLITS:
        rng = random.Random(f"{config.seed} {split}")
        seen: set[str] = set()
        problems: list[Problem] = []
        while len(problems) < sizes[split]:
            author = draw_conventions(rng) if split == "sft" else judge
            blueprint = _blueprint(split, deal[split], rng)
            statement = blueprint.statement(rng)
            tests = make_tests(blueprint, author, rng, 1 if split == "sft" else TESTS)
            constant = split != "sft" and len({test.output for test in tests}) == 1
            if statement in seen or constant:
                continue
            seen.add(statement)
            problems.append(
                Problem(
                    id=f"dials-{split}-{len(problems):05d}",
                    statement=statement,
                    tests=tests,
                    split=split,
                    source="dials",
                    references=[Reference(program=blueprint.program(author), thought=blueprint.thought(author))],
                    structure=" ".join(blueprint.operations) + " | " + " ".join(blueprint.turns),
                )
            )
        result[split] = problems
    return result
