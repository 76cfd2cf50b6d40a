"""Stage 2: GRPO of the Coder, with the trained Planner frozen."""

import dagster as dg

from assets.options import TRAINING_POOL, stage_options
from assets.planner_grpo import planner_grpo
from assets.ports import Run
from corecode.stages import grpo_job


@dg.asset(deps=[planner_grpo], **stage_options("training", "pytorch", "mlflow", pool=TRAINING_POOL), code_version="1")
def coder_grpo(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """The Coder, rewarded by what its programs do, after thoughts of the Planner that was trained before."""
    with run.stage(context) as stage:
        job = grpo_job(stage.profile, stage.folder, "coder", stage.profile.rounds)
        stage.launch([job] if job is not None else [])
        return dg.MaterializeResult(metadata=stage.metadata(), data_version=dg.DataVersion(stage.data_version()))
