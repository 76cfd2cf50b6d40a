"""What MLflow holds of a run is enough to compare runs: the searches of docs/compare.md find what they say, names are
the same in every run, and the link of ``corecode compare`` leads to MLflow's page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pipelines.cli_compare import page_link
from pipelines.tracking import Tracking

ROOT = Path(__file__).parents[2]
ARMS = "sft/alone", "sft/team", "final/alone", "final/team"


@dataclass(frozen=True)
class Compared:
    """Two runs with different seeds in one home."""

    store: Tracking
    summaries: tuple[dict[str, Any], dict[str, Any]]
    folders: tuple[Path, Path]

    def search(self, text: str) -> list[Any]:
        return list(self.store.client.search_runs([self.store.experiment], text))

    def one(self, text: str) -> Any:
        (found,) = self.search(text)
        return found


@pytest.fixture(scope="module")
def compared(new_home: Callable[[str], Path]) -> Compared:
    home = new_home("compared")
    paths: list[Path] = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("fake_chain.py")), "run", "smoke", "--seed", seed],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "CORECODE_HOME": str(home), "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        paths.append(Path(done.stdout.splitlines()[-1]))
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    return Compared(Tracking(home), (first, second), (paths[0].parent.parent, paths[1].parent.parent))


def documented() -> Mapping[str, str]:
    text = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| ([^|]+?) \| ``(.+?)`` \|$", text, re.MULTILINE))


def test_documented_searches_find_what_they_say(compared: Compared) -> None:
    first = compared.summaries[0]
    here = {
        "'quickstart'": "'smoke'",
        "'48'": "'2'",
        "'18f2%'": f"'{first['digests']['metrics'][:4]}%'",
        "'quickstart-seed0-18f2f70b'": f"'{first['run']}'",
    }
    found: dict[str, int] = {}
    for title, search in documented().items():
        for example, value in here.items():
            search = search.replace(example, value)
        found[title] = len(compared.search(search))
    dirty = len(compared.search("tags.`corecode.kind` = 'run' AND tags.`git.dirty` = 'true'"))
    plain = len(compared.search("tags.`corecode.kind` = 'run' AND tags.`version.torch` = '2.13.0'"))
    assert found == {
        "whole runs only": 2,
        "all seeds of a profile": 2,
        "one seed over all profiles": 1,
        "Planner GRPO of every run": 2,
        "the trained team of every run": 2,
        "the Coder alone and its team, side by side": 4,
        "runs in which collaboration pays beyond chance": 2,
        "teams above a pass@1": 4,
        "a changed setting": 2,
        "another reward": 0,
        "runs on exactly this data": 2,
        "stages that were reused": 0,
        "runs with exactly these figures": 1,
        "runs of uncommitted code": dirty,
        "runs with another torch": 2 - plain,
        "everything below one run": 1 + 8 + len(ARMS),
        "what did not end well": 0,
    }


def test_runs_compare_row_by_row(compared: Compared) -> None:
    runs = [compared.one(f"tags.`corecode.kind` = 'run' AND tags.`corecode.seed` = '{seed}'") for seed in (0, 1)]
    assert [run.info.run_name for run in runs] == [summary["run"] for summary in compared.summaries]
    assert set(runs[0].data.metrics) == set(runs[1].data.metrics)
    assert set(runs[0].data.params) == set(runs[1].data.params)
    different = {name for name, value in runs[0].data.params.items() if runs[1].data.params[name] != value}
    assert different == {"seed"}
    metrics = runs[0].data.metrics
    for name in ("pass_at_1/final/team/T1.0", "cg/pass_at_1/final/T1.0", "cg_abs/pass_at_1/final/T1.0"):
        assert metrics[f"{name}/low"] <= metrics[name] <= metrics[f"{name}/high"]
    assert not any(name.startswith(("apr/", "pass_at_5/", "missing/")) for name in metrics)
    (report,) = compared.search("tags.`corecode.stage` = 'collaboration_gain' AND tags.`corecode.seed` = '0'")
    assert {"pass_at_5/final/team/T1.0", "apr/final/team/T1.0/low"} <= set(report.data.metrics)


def test_stages_and_arms_name_what_they_are(compared: Compared) -> None:
    stage = compared.one("tags.`corecode.stage` = 'coder_grpo' AND tags.`corecode.seed` = '1'")
    assert stage.info.run_name == "coder_grpo smoke-seed1"
    assert {"profile", "seed", "coder_grpo.steps"} <= set(stage.data.params)
    assert {one.dataset.name for one in stage.inputs.dataset_inputs} == {"dials-rl", "dials-validation"}
    team = compared.one("tags.`corecode.arm` = 'final/team' AND tags.`corecode.seed` = '1'")
    alone = compared.one("tags.`corecode.arm` = 'final/alone' AND tags.`corecode.seed` = '1'")
    assert team.info.run_name == "final/team smoke-seed1"
    assert team.info.status == "FINISHED"
    assert team.data.params["weights.planner"] == "planner_grpo"
    assert {one.dataset.name for one in team.inputs.dataset_inputs} == {"dials-test"}
    assert (team.data.metrics["pass_at_1/T1.0"], alone.data.metrics["pass_at_1/T1.0"]) == (1.0, 0.5)
    assert set(alone.data.metrics) < set(team.data.metrics)
    assert team.data.metrics["cg_abs/pass_at_1/T1.0/low"] > 0
    assert "cg_abs/pass_at_1/T1.0" not in alone.data.metrics


def test_models_carry_their_metrics(compared: Compared) -> None:
    client = compared.store.client
    stage = compared.one("tags.`corecode.stage` = 'planner_grpo' AND tags.`corecode.seed` = '0'")
    found = client.search_logged_models([compared.store.experiment], f"source_run_id = '{stage.info.run_id}'")
    model = client.get_logged_model(found[0].model_id)
    assert {metric.key: metric.value for metric in model.metrics} == {
        "reward/mean": 0.2,
        "sft/loss": pytest.approx(1 / 3),
        "validation/cg": 0.1,
        "validation/pass_at_1/team": 0.7,
        "validation/thought_valid": 0.95,
    }
    assert model.tags["corecode.role"] == "planner"
    history = client.get_metric_history(stage.info.run_id, "reward/mean")
    assert sorted(point.step for point in history) == [0, 1, 2], "the run has no point twice"


def test_the_link_leads_to_the_page_that_compares(compared: Compared, tmp_path: Path) -> None:
    link = page_link(list(compared.folders))
    assert link is not None
    base, fragment = link.split("#")
    assert base == "http://127.0.0.1:5000/"
    asked = parse_qs(urlsplit(fragment).query)
    assert urlsplit(fragment).path == "/compare-runs"
    assert json.loads(asked["experiments"][0]) == [compared.store.experiment]
    assert json.loads(asked["runs"][0]) == [one["provenance"]["mlflow_run_id"] for one in compared.summaries]
    elsewhere = tmp_path / "collaboration_gain"
    elsewhere.mkdir()
    assert page_link([compared.folders[0], tmp_path]) is None
    for facts in ({}, {"mlflow_url": "http://other:5000/#/experiments/1/runs/a"}):
        (elsewhere / "summary.json").write_text(json.dumps({"provenance": facts}), encoding="utf-8")
        assert page_link([compared.folders[0], tmp_path]) is None
    for damaged in ("{", "[]", '{"provenance": null}'):
        (elsewhere / "summary.json").write_text(damaged, encoding="utf-8")
        assert page_link([compared.folders[0], tmp_path]) is None
