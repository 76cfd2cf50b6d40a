"""The definitions as Dagster sees them: a snapshot, so that a change of the lineage is a decision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from assets import STAGES
from pipelines.definitions import JOB, defs
from pipelines.instance import SETTINGS, dagster_home
from pipelines.settings import RunSettings

ROOT = Path(__file__).parents[2]


def test_lineage_groups_and_kinds() -> None:
    graph = defs.resolve_asset_graph()
    seen = {
        key.to_user_string(): (
            [parent.to_user_string() for parent in graph.get(key).parent_keys],
            graph.get(key).group_name,
            sorted(graph.get(key).kinds),
        )
        for key in graph.get_all_asset_keys()
    }
    training = ["mlflow", "pytorch"]
    assert seen == {
        "problems": ([], "data", ["python"]),
        "sft_warmup": (["problems"], "training", training),
        "planner_grpo": (["sft_warmup"], "training", training),
        "coder_grpo": (["planner_grpo"], "training", training),
        "baselines": (["coder_grpo"], "training", training),
        "evaluation": (["baselines"], "evaluation", ["mlflow", "python"]),
        "collaboration_gain": (["evaluation"], "evaluation", ["mlflow", "python"]),
        "champion": (["collaboration_gain"], "registry", ["mlflow"]),
    }
    assert set(seen) == set(STAGES)


def test_checks_state_claims() -> None:
    graph = defs.resolve_asset_graph()
    seen = {
        key.name: (key.asset_key.to_user_string(), graph.get_check_spec(key).blocking) for key in graph.asset_check_keys
    }
    assert seen == {
        "warm_up_teaches_the_format": ("sft_warmup", False),
        "planner_grpo_does_no_harm": ("planner_grpo", False),
        "few_samples_are_lost": ("evaluation", True),
        "collaboration_pays": ("collaboration_gain", False),
    }


def test_every_asset_and_check_is_described() -> None:
    graph = defs.resolve_asset_graph()
    assert all(graph.get(key).description for key in graph.get_all_asset_keys())
    assert all(graph.get_check_spec(key).description for key in graph.asset_check_keys)


def test_the_job_runs_the_stages_in_order_and_defaults_to_the_quickstart() -> None:
    job = defs.resolve_job_def(JOB)
    steps = [step.key for step in _plan(job)]
    assert [key for key in steps if key in STAGES] == list(STAGES)
    assert RunSettings().profile == "quickstart"


def _plan(job: Any) -> list[Any]:
    from dagster._core.execution.api import create_execution_plan

    return create_execution_plan(job).get_all_steps_in_topo_order()


def test_importing_the_definitions_imports_nothing_heavy() -> None:
    heavy = ("torch", "mlflow", "trl", "transformers", "plotly", "docker", "deepspeed")
    program = f"import sys, pipelines.definitions; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert shown.stdout.strip() == "[]"


def test_settings_of_the_checkout_and_of_a_home_are_the_same(tmp_path: Path) -> None:
    checkout = yaml.safe_load((ROOT / "dagster.yaml").read_text(encoding="utf-8"))
    folders = [checkout.pop(name) for name in ("storage", "local_artifact_storage", "compute_logs")]
    assert checkout == SETTINGS
    assert folders[0]["sqlite"]["base_dir"] == ".corecode/dagster"
    home = dagster_home(tmp_path)
    assert yaml.safe_load((home / "dagster.yaml").read_text(encoding="utf-8")) == SETTINGS


def test_run_settings_become_run_configuration() -> None:
    config = RunSettings(profile="smoke", seed=3, overrides=["a.b=1"]).run_config()
    assert config == {"resources": {"run": {"config": {"profile": "smoke", "seed": 3, "overrides": ["a.b=1"]}}}}
    job = defs.resolve_job_def(JOB)
    assert dg.validate_run_config(job, config)
