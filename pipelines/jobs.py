"""Jobs: which stages run together."""

from __future__ import annotations

import dagster as dg

JOB = "train"
"""The whole chain."""

train = dg.define_asset_job(
    JOB,
    selection=dg.AssetSelection.all(),
    description="The whole chain: problems, both trainings, evaluation, report and champion.",
)
evaluate = dg.define_asset_job(
    "evaluate",
    selection=dg.AssetSelection.assets("evaluation", "collaboration_gain"),
    description="Evaluation and report of a run that was trained before: the partition's newest, or the named one.",
)
report = dg.define_asset_job(
    "report",
    selection=dg.AssetSelection.assets("collaboration_gain"),
    description="The report alone, from the samples of a run that was evaluated before.",
)
