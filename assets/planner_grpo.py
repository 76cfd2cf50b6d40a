"""Stage 1: GRPO of the Planner, with the Coder frozen."""

import dagster as dg

from assets.options import TRAINING_POOL, stage_options
from assets.ports import Run
from assets.sft_warmup import sft_warmup
from corecode.stages import TEAM, grpo_job


@dg.asset(deps=[sft_warmup], **stage_options("training", "pytorch", "mlflow", pool=TRAINING_POOL), code_version="1")
def planner_grpo(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """The Planner, rewarded by what the programs do that the frozen Coder writes after its thoughts.

    With several rounds, the other roles' phases before the last Planner phase run in here too.
    """
    with run.stage(context) as stage:
        for number in range(1, stage.profile.rounds + 1):
            for role in TEAM if number < stage.profile.rounds else TEAM[:1]:
                job = grpo_job(stage.profile, stage.folder, role, number)
                stage.launch([job] if job is not None else [])
        return dg.MaterializeResult(metadata=stage.metadata(), data_version=dg.DataVersion(stage.data_version()))
