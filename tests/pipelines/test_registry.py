"""The champion changes hands only for a team that is better beyond chance on the same evaluation."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from corecode.errors import InfrastructureError, UserError
from pipelines.profiles import load_profile
from pipelines.registry import Candidate, decide, evaluation_digest, load_candidate, promote

PROFILE = load_profile("smoke", ["evaluation.samples=5", "evaluation.temperatures=[1.0]"])
PROBLEMS = 200


def candidate(run: str, right: int, digest: str = "d") -> Candidate:
    """A team that solves the first ``right`` of 200 problems."""
    return Candidate(Path(), run, digest, {f"p{i:03}": float(i < right) for i in range(PROBLEMS)})


def test_decisions() -> None:
    first = decide(candidate("a", 50), None, PROFILE)
    assert (first.champion, first.reason) == (True, "the first champion")
    better = decide(candidate("b", 90), candidate("a", 50), PROFILE)
    assert better.champion
    assert better.previous == "a"
    assert better.difference == pytest.approx(0.2)
    assert better.low is not None
    assert better.low > 0
    noise = decide(candidate("b", 51), candidate("a", 50), PROFILE)
    assert not noise.champion
    assert noise.reason.startswith("held: not better beyond chance than a: +0.5 points [")
    assert not decide(candidate("b", 10), candidate("a", 50), PROFILE).champion
    other = decide(candidate("b", 200, "other"), candidate("a", 50), PROFILE)
    assert not other.champion
    assert "measured on other problems" in other.reason
    assert decide(candidate("a", 50), candidate("a", 50), PROFILE).reason == "already the champion"


def make_run(home: Path, name: str, right: int, statement: str = "Print 1.") -> Path:
    """A finished run whose team solves the first ``right`` test problems in every sample."""
    run = home / "runs" / name
    problem = {"id": "p", "statement": statement, "tests": [{"input": "", "output": "1"}]}
    (run / "problems").mkdir(parents=True)
    (run / "problems" / "test.jsonl").write_text(json.dumps(problem) + "\n", encoding="utf-8")
    for stage in ("planner_grpo", "coder_grpo"):
        model = run / stage / "model"
        model.mkdir(parents=True)
        (model / "model.safetensors").write_text(f"{stage} of {name}", encoding="utf-8")
    rows = run / "evaluation" / "final__team"
    rows.mkdir(parents=True)
    lines = [
        json.dumps(
            {
                "problem_id": f"p{i:03}",
                "arm": "final/team",
                "temperature": 1.0,
                "sample": sample,
                "total": 1,
                "verdict": "accepted" if i < right else "wrong_answer",
                "passed": int(i < right),
            }
        )
        for i in range(PROBLEMS)
        for sample in range(5)
    ]
    (rows / "T1.0.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


def test_promotion_copies_the_team_and_is_idempotent(tmp_path: Path) -> None:
    worse, better = make_run(tmp_path, "worse", 60), make_run(tmp_path, "better", 120)
    assert promote(PROFILE, worse, tmp_path)["reason"] == "the first champion"
    assert promote(PROFILE, better, tmp_path)["champion"] is True
    for _ in range(2):
        assert promote(PROFILE, better, tmp_path)["reason"] == "already the champion"
    held = promote(PROFILE, worse, tmp_path)
    assert held["champion"] is False
    champion = tmp_path / "champion"
    assert (champion / "planner" / "model.safetensors").read_text(encoding="utf-8") == "planner_grpo of better"
    team = json.loads((champion / "team.json").read_text(encoding="utf-8"))
    assert (team["run"], team["roles"], team["prompts"]) == ("better", ["planner", "coder"], "compact")
    assert team["sampling"]["coder"] == {"temperature": 1.0, "max_tokens": PROFILE.evaluation.max_program_tokens}
    assert team["evaluation"]["pass@1"] == pytest.approx(0.6)
    assert not list(tmp_path.rglob("*.partial"))


def test_the_champion_outlives_its_run_folder(tmp_path: Path) -> None:
    import shutil

    run = make_run(tmp_path, "gone", 60)
    promote(PROFILE, run, tmp_path)
    shutil.rmtree(run)
    assert load_candidate(tmp_path / "champion").run == "gone"
    assert (tmp_path / "champion" / "coder" / "model.safetensors").is_file()


def test_promotions_at_once_leave_the_best(tmp_path: Path) -> None:
    rights = [20, 140, 80, 190, 50, 110]
    runs = [make_run(tmp_path, f"run{right}", right) for right in rights]
    threads = [threading.Thread(target=promote, args=(PROFILE, run, tmp_path)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load_candidate(tmp_path / "champion").run == "run190"


def test_the_evaluation_digest_covers_problems_and_protocol(tmp_path: Path) -> None:
    run, other = make_run(tmp_path, "a", 1), make_run(tmp_path, "b", 1, statement="Print 2.")
    digest = evaluation_digest(PROFILE, run)
    assert digest != evaluation_digest(PROFILE, other)
    assert digest != evaluation_digest(load_profile("smoke", ["evaluation.samples=4"]), run)
    assert digest == evaluation_digest(load_profile("smoke", ["planner_grpo.steps=9"]), run)


def test_no_champion_without_models_or_measure(tmp_path: Path) -> None:
    import shutil

    run = make_run(tmp_path, "a", 1)
    shutil.rmtree(run / "coder_grpo")
    with pytest.raises(InfrastructureError, match="the coder's trained model is missing"):
        promote(PROFILE, run, tmp_path)
    assert not (run / "champion").exists()
    assert not (tmp_path / "champion").exists()
    without = load_profile("smoke", ["evaluation.arms=[sft/team]"])
    with pytest.raises(InfrastructureError, match="final/team was not evaluated"):
        promote(without, _unmeasured(tmp_path), tmp_path)
    with pytest.raises(UserError, match="holds no team"):
        load_candidate(tmp_path)


def _unmeasured(home: Path) -> Path:
    run = make_run(home, "unmeasured", 1)
    (run / "evaluation" / "final__team").rename(run / "evaluation" / "sft__team")
    rows = run / "evaluation" / "sft__team" / "T1.0.jsonl"
    rows.write_text(rows.read_text(encoding="utf-8").replace("final/team", "sft/team"), encoding="utf-8")
    return run
