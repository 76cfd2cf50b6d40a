"""The definitions as Dagster sees them: a snapshot, so that a change of the lineage is a decision."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from assets import STAGES
from pipelines.definitions import defs
from pipelines.instance import SETTINGS, dagster_home
from pipelines.jobs import JOB
from pipelines.partitions import PARTITIONS
from pipelines.profiles import shipped
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
        "training_data_decontaminated": ("problems", True),
        "problems_validated": ("problems", True),
        "warm_up_teaches_the_format": ("sft_warmup", False),
        "warm_up_beats_the_base_model": ("sft_warmup", False),
        "planner_grpo_does_no_harm": ("planner_grpo", True),
        "few_samples_are_lost": ("evaluation", True),
        "collaboration_pays": ("collaboration_gain", True),
    }


def test_every_asset_and_check_is_described() -> None:
    graph = defs.resolve_asset_graph()
    assert all(graph.get(key).description for key in graph.get_all_asset_keys())
    assert all(graph.get_check_spec(key).description for key in graph.asset_check_keys)


def test_every_asset_has_owner_code_version_and_one_partition_for_each_profile_and_seed() -> None:
    graph = defs.resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.get_all_asset_keys()]
    assert {tuple(node.owners) for node in nodes} == {("team:core-code",)}
    assert all(node.code_version for node in nodes)
    assert {node.partitions_def for node in nodes} == {PARTITIONS}
    keys = PARTITIONS.get_partition_keys()
    assert {f"qwen2.5-coder-7b|{seed}" for seed in range(3)} <= set(keys)
    assert len(keys) == (len(shipped()) + 1) * 11


def test_stages_with_models_queue() -> None:
    ops = {asset.key.to_user_string(): asset.op for asset in defs.assets or []}
    models = {"sft_warmup", "planner_grpo", "coder_grpo", "baselines", "evaluation"}
    assert {name: op.pool for name, op in ops.items() if op.pool} == dict.fromkeys(models, "training")
    # Dagster applies a retry policy to interrupts too: a canceled stage would begin anew (see pipelines.stage).
    assert {op.retry_policy for op in ops.values()} == {None}


def test_the_jobs_run_their_stages_in_order() -> None:
    stages = {
        name: [key for key in _steps(defs.resolve_job_def(name)) if key in STAGES]
        for name in (JOB, "evaluate", "report")
    }
    assert stages == {JOB: list(STAGES), "evaluate": list(STAGES[5:7]), "report": [STAGES[6]]}
    assert "evaluation_few_samples_are_lost" in _steps(defs.resolve_job_def("evaluate"))


def _steps(job: Any) -> list[str]:
    from dagster._core.execution.api import create_execution_plan

    return [step.key for step in create_execution_plan(job).get_all_steps_in_topo_order()]


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
