"""``corecode rerun``: a run again from what MLflow holds alone, with training replaced (fake_chain.py)."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corecode.config import ModelConfig, ScratchConfig
from corecode.errors import UserError
from pipelines import provenance
from pipelines.cli_rerun import differences, recall
from pipelines.tracking import Tracking, run_key

ROOT = Path(__file__).parents[2]
PROFILE = ["smoke", "--seed", "3", "--set", "dataset.test=20", "--set", "coder_grpo.steps=1"]


def corecode(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("fake_chain.py")), *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home), "PYTHONPATH": str(ROOT), **environment},
        timeout=180,
    )


def summary_of(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return json.loads(Path(ended.stdout.splitlines()[-1]).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def past(new_home: Callable[[str], Path]) -> tuple[Path, dict[str, Any]]:
    """A home, and the summary of the run in it, of which nothing but MLflow's record is left."""
    home = new_home("rerun")
    ended = corecode(home, "run", *PROFILE)
    assert ended.returncode == 0, ended.stderr
    summary = summary_of(ended)
    shutil.rmtree(home / "runs")
    return home, summary


def test_from_its_record_alone_the_same_digest(past: tuple[Path, dict[str, Any]]) -> None:
    home, summary = past
    again = corecode(home, "rerun", summary["run"])
    assert again.returncode == 0, again.stderr
    assert f"same digest as {summary['run']}: {summary['digests']['metrics']}" in again.stderr
    assert "reused" not in again.stderr, "there was nothing left to reuse"
    assert "CPU was" not in again.stderr
    found = summary_of(again)
    assert found["run"] != summary["run"]
    assert (found["seed"], found["problems"]["evaluated"]) == (3, 20)
    profile = json.loads((home / "runs" / found["run"] / "profile.json").read_text(encoding="utf-8"))
    assert profile["coder_grpo"]["steps"] == 1


def test_another_digest_is_an_error_that_shows_the_figures(past: tuple[Path, dict[str, Any]]) -> None:
    home, summary = past
    again = corecode(home, "rerun", summary["provenance"]["mlflow_run_id"], "--force", FAKE_CLOUD="1")
    assert again.returncode == 1
    assert f"error: the digest differs from that of {summary['run']}" in again.stderr
    assert "arms.final/alone.temperatures.1.0.apr" in again.stderr
    assert "other problems" not in again.stderr


def test_mistakes(past: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = Tracking(past[0])
    for name in ("nothing", "' OR ''='", "planner_grpo"):
        with pytest.raises(UserError, match="there is no run"):
            recall(store, name)
    with pytest.raises(UserError, match="there is no run"):
        recall(Tracking(tmp_path / "new"), "any")
    assert not (tmp_path / "new").exists()
    bare = store.open(run_key("bare"), "bare", {"corecode.kind": "run"})
    with pytest.raises(UserError, match=r"run bare cannot be repeated: MLflow holds no profile\.json"):
        recall(store, bare.id)
    bare.document({"name": "smoke", "warp": 9}, "profile.json")
    with pytest.raises(UserError, match="its profile is of another version"):
        recall(store, "bare")
    for content in ("{", "[1]"):
        (tmp_path / "profile.json").write_text(content, encoding="utf-8")
        bare.artifact(tmp_path / "profile.json")
        with pytest.raises(UserError, match=r"the file profile\.json that MLflow holds of run .* is damaged"):
            recall(store, "bare")
    bare.end("FINISHED")


def test_every_difference_of_the_environment_is_said(tmp_path: Path) -> None:
    model = ModelConfig(path=str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"then")
    first = provenance.environment(model)
    (tmp_path / "model.safetensors").write_bytes(b"now!!")
    now = {**provenance.environment(model), "git": {"commit": "b" * 40, "dirty": "false"}}
    assert now["versions"]["torch"]
    assert now["machine"]["cpu"]
    assert differences(now, now) == []
    assert differences({**now, "model": first["model"]}, now) == ["the files of the base model are not the same"]
    assert provenance.environment(ModelConfig(scratch=ScratchConfig()))["model"] is None
    then = copy.deepcopy(now)
    then["git"] = {"commit": "a" * 40, "dirty": "true"}
    then["versions"] |= {"torch": "2.0.0", "python": "3.9.1"}
    then["packages"] |= {"torch": "2.0.0", "rich": "1.0"}
    then["machine"] |= {"cpu": "Abacus 2"}
    del then["versions"]["trl"]
    found = differences(then, now)
    assert found[:2] == [
        "the git commit was aaaaaaaaaaaa and is bbbbbbbbbbbb now (the code that jobs run is the same)",
        "the git tree had uncommitted changes (the code that jobs run is the same)",
    ]
    assert f"torch was 2.0.0 and is {now['versions']['torch']} now" in found
    assert f"python was 3.9.1 and is {now['versions']['python']} now" in found
    assert f"trl was not installed and is {now['versions']['trl']} now" in found
    assert "1 other packages differ: rich" in found
    cpu = f"the CPU was Abacus 2 and is {now['machine']['cpu']} now"
    assert f"{cpu}: last bits of sums may differ, and so what is sampled" in found
    then["code"] = "other"
    assert "the code that jobs run is not the same" in differences(then, now)
    assert differences({}, now) == [
        "MLflow holds no whole environment.json of it: nothing is known of its code, packages and machine"
    ]
    assert differences({"git": {}}, now) == differences({}, now)


def test_a_cpu_is_named_with_its_kind() -> None:
    cores = "processor\t: {}\nvendor_id\t: A\ncpu family\t: 25\nmodel\t\t: {}\nmodel name\t: AMD EPYC\n\n"
    assert provenance.cpu_model(cores.format(0, 17) + cores.format(1, 18)) == "AMD EPYC (family 25, model 17)"
    assert provenance.cpu_model("model name\t: Abacus: the second\n") == "Abacus: the second"
    wide = cores.format(0, 17).replace("EPYC\n", "EPYC\nflags\t\t: fpu avx avx2 avx512f\n")
    assert provenance.cpu_model(wide) == "AMD EPYC (family 25, model 17, avx512f)"
    assert provenance.cpu_model(wide.replace(" avx512f", "")) == "AMD EPYC (family 25, model 17, avx2)"
    assert provenance.cpu_model("model name\t: B\nFeatures\t: fp asimd\n") == "B (asimd)"
