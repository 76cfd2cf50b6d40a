"""The problems of a run, in four splits."""

import dagster as dg

from assets.options import stage_options
from assets.ports import Run
from corecode.stages import make_problems


@dg.asset(**stage_options("data", "python"), code_version="1")
def problems(context: dg.AssetExecutionContext, run: dg.ResourceParam[Run]) -> dg.MaterializeResult:
    """Problems for the warm-up, for both GRPO phases, for validation and for the final test, which no training sees."""
    with run.stage(context) as stage:
        made = make_problems(stage.profile, stage.folder)
        stage.datasets()
        return dg.MaterializeResult(
            metadata={**stage.metadata(), **{f"{split} problems": n for split, n in made["counts"].items()}},
            data_version=dg.DataVersion(stage.data_version()),
        )
