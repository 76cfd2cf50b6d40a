"""How fast this sandbox is, beside the floor and beside a bare subprocess, all in one run on the same machine.

Absolute numbers depend on the machine and its load; the *ratios* to the bare subprocess and to the floor do so much
less, and a baseline keeps those. Every quantity is measured in several rounds that take turns; the median counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

from sandbox import open_sandbox
from sandbox.types import Program, Sandbox, TestCase, Verdict

TRIVIAL = "a, b = map(int, input().split())\nprint(a + b)\n"

_FORKS = """
import os, sys, time
count = int(sys.argv[1])
started = time.perf_counter()
for _ in range(count):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
print(count / (time.perf_counter() - started))
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 5
    programs: int = 200
    """Programs of one test in a round."""
    batched: int = 60
    """Programs of five tests in a round."""
    subprocesses: int = 40
    """Bare subprocesses in a round."""
    forks: int = 400
    """Forks in a round."""
    latencies: int = 200
    """Programs judged one after the other, for p50 and p99."""
    scaled: int = 10
    """The factor by which the number of programs is raised to see whether time follows."""


TINY = Sizes(rounds=1, programs=6, batched=2, subprocesses=2, forks=5, latencies=3, scaled=2)
"""Only to see that it runs."""


@dataclass(frozen=True)
class BenchReport:
    """What was measured; rates are medians over the rounds."""

    backend: str
    workers: int
    startup_s: float
    """From nothing to the first verdict."""
    programs_per_s: float
    """Trivial programs with one test each (so this is tests per second, too)."""
    batched_tests_per_s: float
    """Tests per second with five stdin tests a program."""
    batched_programs_per_s: float
    p50_ms: float
    p99_ms: float
    """One program at a time, from the call to its verdict."""
    floor_forks_per_s: float
    """Bare ``os.fork`` in a warm interpreter, one after the other."""
    subprocesses_per_s: float
    """Bare ``python -I`` processes without any isolation, as many at a time as the sandbox has workers."""
    scaling: float
    """Time for ten times the programs, over ten times the time for one times the programs (1 is linear)."""

    @property
    def ratios(self) -> dict[str, float]:
        """The machine-independent part, which a baseline keeps."""
        return {
            "programs_to_subprocess": self.programs_per_s / self.subprocesses_per_s,
            "batched_tests_to_subprocess": self.batched_tests_per_s / self.subprocesses_per_s,
            "programs_to_floor": self.programs_per_s / self.floor_forks_per_s,
            "scaling": self.scaling,
        }

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "ratios": self.ratios}


def measure(backend: str = "auto", workers: int = 2, sizes: Sizes | None = None) -> BenchReport:
    """Measure one backend.

    Raises:
        sandbox.SandboxUnavailable: the backend does not work here.
        RuntimeError: an honest program was judged wrongly, which makes any speed worthless.
    """
    sizes = sizes or Sizes()
    started = time.perf_counter()
    with open_sandbox(backend, workers=workers) as opened:
        _rate(opened, 1, 1)
        startup = time.perf_counter() - started
        _rate(opened, 4 * workers, 1)  # every worker has run something
        rounds = [
            (
                _forks_per_s(sizes.forks),
                _subprocesses_per_s(sizes.subprocesses, workers),
                _rate(opened, sizes.programs, 1),
                _rate(opened, sizes.batched, 5),
            )
            for _ in range(sizes.rounds)
        ]
        floor, bare, single, batched = (statistics.median(values) for values in zip(*rounds, strict=True))
        latencies = sorted(_timed(lambda: _rate(opened, 1, 1)) for _ in range(sizes.latencies))
        scaling = single / _rate(opened, sizes.programs * sizes.scaled, 1)
        return BenchReport(
            backend=opened.backend,
            workers=workers,
            startup_s=startup,
            programs_per_s=single,
            batched_tests_per_s=5 * batched,
            batched_programs_per_s=batched,
            p50_ms=1000 * latencies[len(latencies) // 2],
            p99_ms=1000 * latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)],
            floor_forks_per_s=floor,
            subprocesses_per_s=bare,
            scaling=scaling,
        )


def render(report: BenchReport) -> str:
    """The report as a table for people."""
    ratios = report.ratios
    rows = [
        ("trivial programs, one test each", f"{report.programs_per_s:.0f} programs/s"),
        ("five stdin tests a program", f"{report.batched_tests_per_s:.0f} tests/s"),
        ("", f"{report.batched_programs_per_s:.0f} programs/s"),
        ("one at a time", f"p50 {report.p50_ms:.1f} ms, p99 {report.p99_ms:.1f} ms"),
        ("start to first verdict", f"{report.startup_s:.2f} s"),
        ("floor: bare fork, one core", f"{report.floor_forks_per_s:.0f} forks/s"),
        ("bare subprocess, no isolation", f"{report.subprocesses_per_s:.0f} programs/s"),
        ("against the bare subprocess", f"{ratios['programs_to_subprocess']:.2f}x"),
        ("  with five tests a program", f"{ratios['batched_tests_to_subprocess']:.2f}x"),
        ("time of ten times the programs", f"{10 * report.scaling:.1f}x"),
    ]
    width = max(len(name) for name, _ in rows)
    title = f"{report.backend}, {report.workers} workers"
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in rows)])


def _rate(opened: Sandbox, programs: int, tests: int) -> float:
    """Programs per second."""
    # Every source differs, so that no cache of judged programs could help.
    stamp = time.perf_counter_ns()
    jobs = [
        Program(
            f"{TRIVIAL}# {stamp} {number}\n",
            tuple(TestCase.stdio(f"{number} {test}\n", f"{number + test}\n") for test in range(tests)),
        )
        for number in range(programs)
    ]
    started = time.perf_counter()
    judgements = opened.judge(jobs)
    took = time.perf_counter() - started
    for judgement in judgements:
        if judgement.verdict is not Verdict.ACCEPTED:
            raise RuntimeError(f"an honest program got {judgement.verdict}: {judgement.detail}")
    return programs / took


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _forks_per_s(count: int) -> float:
    done = subprocess.run([sys.executable, "-I", "-c", _FORKS, str(count)], capture_output=True, check=True, text=True)
    return float(done.stdout)


def _subprocesses_per_s(count: int, workers: int) -> float:
    def work(number: int) -> None:
        given = f"{number} 1\n"
        done = subprocess.run([sys.executable, "-I", "-c", TRIVIAL], input=given, capture_output=True, text=True)
        if done.stdout != f"{number + 1}\n":
            raise RuntimeError(f"a bare subprocess failed: {done.stderr}")

    with ThreadPoolExecutor(workers) as pool:
        return count / _timed(lambda: list(pool.map(work, range(count))))


def compare(report: BenchReport, baseline: dict[str, dict[str, float]], tolerance: float) -> list[str]:
    """Ratios of ``report`` that are worse than the baseline by more than ``tolerance`` (a share), as sentences."""
    known = baseline.get(report.backend, {})
    worse: list[str] = []
    for name, value in report.ratios.items():
        if name in known:
            bad = value > known[name] * (1 + tolerance) if name == "scaling" else value < known[name] * (1 - tolerance)
            if bad:
                worse.append(f"{report.backend}: {name} is {value:.2f}, the baseline is {known[name]:.2f}")
    return worse


def to_json(report: BenchReport) -> str:
    return json.dumps(report.as_dict(), indent=2)
