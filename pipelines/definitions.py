"""Everything that Dagster knows of this project. Importing this module imports no training or tracking library."""

from __future__ import annotations

from typing import Any

import dagster as dg

from assets import checks
from assets.baselines import baselines
from assets.champion import champion
from assets.coder_grpo import coder_grpo
from assets.collaboration_gain import collaboration_gain
from assets.evaluation import evaluation
from assets.planner_grpo import planner_grpo
from assets.problems import problems
from assets.sft_warmup import sft_warmup
from pipelines.jobs import evaluate, report, train
from pipelines.partitions import PARTITIONS
from pipelines.schedules import nightly, weekly
from pipelines.sensors import SENSORS
from pipelines.settings import RESOURCE, RunSettings


@dg.logger(config_schema={"path": str}, description="Dagster's own log as a file.")
def file_logger(context: dg.InitLoggerContext) -> Any:
    """One handler on a file, so that a terminal stays with the progress display."""
    import logging

    handler = logging.FileHandler(context.logger_config["path"], encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("corecode.dagster")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    return logger


_STAGES = [problems, sft_warmup, planner_grpo, coder_grpo, baselines, evaluation, collaboration_gain, champion]

defs = dg.Definitions(
    assets=dg.map_asset_specs(lambda spec: spec.replace_attributes(partitions_def=PARTITIONS), _STAGES),
    asset_checks=dg.load_asset_checks_from_modules([checks]),
    jobs=[train, evaluate, report],
    schedules=[nightly, weekly],
    sensors=SENSORS,
    resources={RESOURCE: RunSettings()},
    loggers={"console": dg.colored_console_logger, "file": file_logger},
    # Stages follow one another and their work runs in processes of its own, which the launcher owns.
    executor=dg.in_process_executor,
)
