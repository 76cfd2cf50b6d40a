"""Stage 3: every arm on the test problems."""

import dagster as dg

from assets.baselines import baselines
from assets.options import TRAINING_POOL, stage_options
from assets.ports import Run
from corecode.stages import evaluation_jobs


@dg.asset(deps=[baselines], **stage_options("evaluation", "python", "mlflow", pool=TRAINING_POOL), code_version="1")
def evaluation(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """Samples of every arm on the held-out test problems, each executed in the sandbox."""
    with run.stage(context) as stage:
        stage.launch(evaluation_jobs(stage.profile, stage.folder))
        return dg.MaterializeResult(
            metadata={**stage.metadata(), "arms": list(stage.profile.evaluation.arms)},
            data_version=dg.DataVersion(stage.data_version()),
        )
