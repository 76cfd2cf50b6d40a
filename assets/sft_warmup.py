"""Stage 0: the supervised warm-up of both roles."""

import dagster as dg

from assets.options import TRAINING_POOL, stage_options
from assets.ports import Run
from assets.problems import problems
from corecode.stages import sft_jobs


@dg.asset(deps=[problems], **stage_options("training", "pytorch", "mlflow", pool=TRAINING_POOL), code_version="1")
def sft_warmup(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """Planner and Coder after the supervised warm-up on thoughts and on programs that pass all their tests."""
    with run.stage(context) as stage:
        stage.launch(sft_jobs(stage.profile, stage.folder))
        return dg.MaterializeResult(metadata=stage.metadata(), data_version=dg.DataVersion(stage.data_version()))
