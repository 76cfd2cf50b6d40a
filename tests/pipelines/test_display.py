"""What a person reads: progress lines and bars, the table at the end, the doctor's report."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines import doctor, progress
from pipelines.doctor import Finding, Level
from pipelines.figures import percent, results_table, run_metrics
from pipelines.progress import PlainReporter, RichReporter, duration, headline


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.9, 60, 187, 3729)] == ["0 s", "59 s", "1:00", "3:07", "1:02:09"]


def test_headline_prefers_the_reward() -> None:
    assert headline({"sft/loss": 1.5, "reward/mean": 0.25}) == "reward 0.250"
    assert headline({"sft/loss": 1.5}) == "loss 1.500"
    assert headline({"other": 1}) == ""


def go_through_a_run(reporter: progress.Reporter) -> None:
    reporter.stage_started("planner_grpo")
    reporter.jobs_started("planner_grpo", ["planner_grpo"])
    for step in range(31):
        reporter.job_progress("planner_grpo", "planner_grpo", step, 30, {"reward/mean": step / 30})
    reporter.job_progress("planner_grpo", "unknown", 1, 2, {})
    reporter.job_ended("planner_grpo", "planner_grpo")
    reporter.stage_ended("planner_grpo", 125)
    reporter.stage_started("coder_grpo")
    reporter.jobs_started("coder_grpo", ["coder_grpo"])
    reporter.note("something to know")
    reporter.stage_failed("coder_grpo", ValueError("first"))
    reporter.stage_failed("coder_grpo", ValueError("second"))


def test_plain_lines_are_few_and_complete() -> None:
    lines: list[str] = []
    reporter = PlainReporter(lines.append)
    go_through_a_run(reporter)
    assert lines[0] == "[3/8] planner_grpo"
    assert "      planner_grpo 15/30  reward 0.500" in lines
    assert len([line for line in lines if "planner_grpo" in line and "/30" in line]) == 10
    assert lines[-4:-1] == ["[4/8] coder_grpo", "      something to know", "      coder_grpo did not finish"]
    assert "      done in 2:05" in lines
    assert str(reporter.error) == "second"


def test_bars_show_stage_step_reward_and_time_left() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    reporter = RichReporter(console, expected_minutes=15)
    with reporter:
        reporter.stage_started("planner_grpo")
        reporter.jobs_started("planner_grpo", ["planner_grpo"])
        reporter.job_progress("planner_grpo", "planner_grpo", 12, 30, {"reward/mean": 0.4})
        console.print(reporter._progress)
        shown = out.getvalue()
    for part in ("planner_grpo", "3/8", "12/30", "reward 0.400", "about 14:5", "left"):
        assert part in shown
    with RichReporter(console, None) as reporter:
        go_through_a_run(reporter)
    assert "✓ planner_grpo 2:05" in out.getvalue()
    assert "✗ coder_grpo did not finish" in out.getvalue()


def test_stages_report_to_the_listener_of_the_block() -> None:
    lines: list[str] = []
    with progress.listener(PlainReporter(lines.append)):
        progress.current().note("heard")
    progress.current().note("not heard")
    assert lines == ["      heard"]


def interval(value: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high}


def summary() -> dict[str, Any]:
    def arm(one: float) -> dict[str, Any]:
        figures = {
            "pass@k": {"1": interval(one, one - 0.03, one + 0.03), "5": interval(one + 0.2, one, one + 0.3)},
            "apr": interval(one + 0.1, one, one + 0.2),
            "missing": {"samples": 0},
            "thoughts": {"validity": None},
        }
        return {"temperatures": {"0.2": figures}}

    gain = {"cg": interval(0.5, 0.25, None), "cg_abs": interval(0.2, 0.1, 0.3), "team": 0.6, "alone": 0.4}
    undefined = {**gain, "cg": None, "cg_abs": interval(0.2, 0.1, None)}
    pairs = {
        "final": {"system": "final/team", "temperatures": {"0.2": {"problems": 9, "pass@1": gain}}},
        "sft": {"system": "sft/team", "temperatures": {"0.2": {"problems": 9, "pass@1": undefined}}},
    }
    total = {"problems": 9, "mcnemar_p": None, "pass@1": {"system": 0.6, "baseline": 0.4, **interval(0.2, 0.1, 0.3)}}
    return {
        "temperatures": [0.2],
        "arms": {"final/alone": arm(0.4), "final/team": arm(0.6), "sft/team": arm(0.3)},
        "collaboration_gain": pairs,
        "gains": {"total": {"system": "final/team", "temperatures": {"0.2": total}}},
    }


def test_results_table() -> None:
    out = io.StringIO()
    Console(file=out, width=140).print(results_table(summary()))
    lines = {line.split()[0]: line for line in out.getvalue().splitlines() if line.strip()}
    assert lines["arm"].split() == ["arm", "T", "pass@1", "pass@5", "APR", "CG,", "points"]
    assert "60.0 [57.0, 63.0]" in lines["final/team"]
    assert lines["final/team"].rstrip().endswith("+20.0 [10.0, 30.0]")
    assert lines["sft/team"].rstrip().endswith("+20.0 [10.0, ?]")  # also where the Coder alone solves nothing
    assert lines["final/alone"].rstrip().endswith("50.0 [40.0, 60.0]")


def test_results_table_fits_a_narrow_terminal() -> None:
    out = io.StringIO()
    one = summary()
    one["arms"]["planner-grpo/team"] = one["arms"].pop("final/alone")
    sure = interval(1.0, 1.0, 1.0)
    one["arms"]["final/team"]["temperatures"]["0.2"] |= {"pass@k": {"1": sure, "5": sure}, "apr": sure}
    Console(file=out, width=80).print(results_table(one, 80))
    lines = out.getvalue().splitlines()
    assert "…" not in out.getvalue()
    place = next(number for number, line in enumerate(lines) if line.lstrip().startswith("final/team"))
    assert lines[place].split() == ["final/team", "100.0", "100.0", "100.0", "+20.0"]
    assert lines[place + 1].split() == ["T", "0.2", "[100.0,100.0]", "[100.0,100.0]", "[100.0,100.0]", "[10.0,30.0]"]


def test_run_metrics_have_the_same_names_in_every_run() -> None:
    found = run_metrics(summary())
    assert found["pass@1/final/team/T0.2"] == 0.6
    assert found["pass@5/final/alone/T0.2/low"] == 0.4
    assert found["cg/pass@1/final/T0.2"] == 0.5
    assert found["gain/pass@1/total/T0.2/high"] == 0.3
    assert "cg/pass@1/final/T0.2/high" not in found
    assert "thought_valid/final/team/T0.2" not in found


def test_percent() -> None:
    assert percent(interval(0.4126, 0.3791, 0.446)) == "41.3 [37.9, 44.6]"
    assert percent(None) == "undefined"


def test_doctor_names_a_remedy_and_fails_only_when_the_quickstart_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = Finding(Level.WARN, "port", "3000 is taken", "take another")
    monkeypatch.setattr(doctor, "findings", lambda: iter([Finding(Level.OK, "python", "3.12"), warning]))
    assert doctor.examine() == 0
    out = capsys.readouterr().out
    assert "3000 is taken  -> take another" in out
    assert "The quickstart can run here" in out
    failing = Finding(Level.FAIL, "sandbox", "no backend works", "install bubblewrap")
    monkeypatch.setattr(doctor, "findings", lambda: iter([failing, warning]))
    assert doctor.examine() == 1
    assert "The quickstart cannot run here." in capsys.readouterr().out


def test_doctor_finds_what_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "home"))
    found = list(doctor.findings())
    topics = {finding.topic: finding for finding in found}
    assert {"python", "processor", "memory", "disk", "home", "port", "package", "compiler", "device"} <= set(topics)
    assert topics["python"].level is topics["home"].level is Level.OK
    assert all(finding.remedy for finding in found if finding.level is not Level.OK)
    assert not (tmp_path / "home").exists()
    assert any(finding.topic == "sandbox" and finding.level is Level.OK for finding in found)


def test_doctor_sees_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORECODE_HOME", "/proc/corecode")
    assert [finding.level for finding in doctor._home()] == [Level.FAIL]
