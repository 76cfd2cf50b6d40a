"""Models that only the comparison needs: the fair single models and the ablation."""

import dagster as dg

from assets.coder_grpo import coder_grpo
from assets.options import TRAINING_POOL, stage_options
from assets.ports import Run
from corecode.stages import baseline_jobs


@dg.asset(deps=[coder_grpo], **stage_options("training", "pytorch", "mlflow", pool=TRAINING_POOL), code_version="1")
def baselines(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """One model with the whole budget of the team, and a team with one phase left out; nothing where no arm of the
    profile asks for them."""
    with run.stage(context) as stage:
        for wave in baseline_jobs(stage.profile, stage.folder):
            stage.launch(wave)
        return dg.MaterializeResult(metadata=stage.metadata(), data_version=dg.DataVersion(stage.data_version()))
