"""Stage 5: the team becomes champion if it earned it."""

import dagster as dg

from assets.collaboration_gain import collaboration_gain
from assets.options import stage_options
from assets.ports import Run


@dg.asset(deps=[collaboration_gain], **stage_options("registry", "mlflow"), code_version="1")
def champion(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """The best team on one fixed evaluation; this run's team takes its place only when it is better beyond chance."""
    with run.stage(context) as stage:
        decision = stage.promote()
        return dg.MaterializeResult(
            metadata={**stage.metadata(), **{name: value for name, value in decision.items() if value is not None}},
            data_version=dg.DataVersion(stage.data_version()),
        )
