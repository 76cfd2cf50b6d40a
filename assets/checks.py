"""Asset checks: the claims of each stage (``corecode.evaluation.claims``), as Dagster shows them."""

from typing import Any

import dagster as dg

from assets.collaboration_gain import collaboration_gain
from assets.evaluation import evaluation
from assets.planner_grpo import planner_grpo
from assets.ports import Run
from assets.problems import problems
from assets.sft_warmup import sft_warmup
from corecode.datasets.claims import problems_are_validated, training_data_is_decontaminated
from corecode.evaluation import claims


def _result(
    context: dg.AssetCheckExecutionContext,
    run: Run,
    claim: claims.Claim,
    severity: dg.AssetCheckSeverity | None = None,
) -> dg.AssetCheckResult:
    """A claim as Dagster shows it: a warning where it is not shown; where the figures refute it an error, which ends
    the run if the check blocks."""
    severity = severity or (dg.AssetCheckSeverity.ERROR if claim.refuted else dg.AssetCheckSeverity.WARN)
    if not claim.holds and severity is dg.AssetCheckSeverity.ERROR:
        run.fail(context)
    metadata: dict[str, Any] = dict(claim.figures)
    return dg.AssetCheckResult(passed=claim.holds, severity=severity, description=claim.sentence, metadata=metadata)


@dg.asset_check(asset=problems, blocking=True)
def training_data_decontaminated(
    context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]
) -> dg.AssetCheckResult:
    """No problem that training sees is a test problem, by id, statement, n-grams or tests."""
    _, folder = run.open_folder(context)
    return _result(context, run, training_data_is_decontaminated(folder), dg.AssetCheckSeverity.ERROR)


@dg.asset_check(asset=problems, blocking=True)
def problems_validated(context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]) -> dg.AssetCheckResult:
    """Ids are unique, what is flagged earns no rewards, and at most 10 % of a source's records were refused."""
    _, folder = run.open_folder(context)
    return _result(context, run, problems_are_validated(folder), dg.AssetCheckSeverity.ERROR)


# The first validation point of Planner GRPO is taken before its first step: it measures the warm-up.
@dg.asset_check(asset=sft_warmup, additional_deps=[planner_grpo])
def warm_up_teaches_the_format(
    context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]
) -> dg.AssetCheckResult:
    """At least 90 % of the thoughts parse into their four parts after the warm-up."""
    _, folder = run.open_folder(context)
    return _result(context, run, claims.warm_up_teaches_format(folder))


# Both models, trained and untrained, answer the same problems in the evaluation.
@dg.asset_check(asset=sft_warmup, additional_deps=[evaluation])
def warm_up_beats_the_base_model(
    context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]
) -> dg.AssetCheckResult:
    """The warm-up is better than the base model: in pass@1 where an untrained arm is evaluated, else in its loss."""
    profile, folder = run.open_folder(context)
    return _result(context, run, claims.warm_up_beats_base(folder, profile))


@dg.asset_check(asset=planner_grpo, blocking=True)
def planner_grpo_does_no_harm(
    context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]
) -> dg.AssetCheckResult:
    """On validation problems the team is not worse after Planner GRPO than before; worse beyond chance, and the Coder
    is not trained with that Planner."""
    profile, folder = run.open_folder(context)
    return _result(context, run, claims.planner_grpo_does_no_harm(folder, profile))


@dg.asset_check(asset=evaluation, blocking=True)
def few_samples_are_lost(context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]) -> dg.AssetCheckResult:
    """Infrastructure lost at most 5 % of the samples of every arm; more, and no figure is made of them."""
    profile, folder = run.open_folder(context)
    return _result(context, run, claims.few_samples_are_lost(folder, profile), dg.AssetCheckSeverity.ERROR)


@dg.asset_check(asset=collaboration_gain, blocking=True)
def collaboration_pays(context: dg.AssetCheckExecutionContext, run: dg.ResourceParam[Run]) -> dg.AssetCheckResult:
    """The final Collaboration Gain in pass@1 is above 0 with its whole interval; below 0 with all of it, and the team
    does not stand for champion."""
    _, folder = run.open_folder(context)
    return _result(context, run, claims.collaboration_pays(folder))
