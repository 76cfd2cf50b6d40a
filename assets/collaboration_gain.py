"""Stage 4: what collaboration brings, with intervals, and the report."""

import dagster as dg

from assets.evaluation import evaluation
from assets.options import stage_options
from assets.ports import Run


@dg.asset(deps=[evaluation], **stage_options("evaluation", "python", "mlflow"), code_version="1")
def collaboration_gain(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """pass@k, APR and Collaboration Gain of every arm with 95 % intervals, as figures and as a report with plots."""
    with run.stage(context) as stage:
        summary = stage.build_report()
        return dg.MaterializeResult(
            metadata={
                **stage.metadata(),
                "summary": dg.MetadataValue.path(str(summary)),
                "report": dg.MetadataValue.path(str(summary.with_name("report.html"))),
                "table": dg.MetadataValue.md(summary.with_name("report.md").read_text(encoding="utf-8")),
            },
            data_version=dg.DataVersion(stage.data_version()),
        )
