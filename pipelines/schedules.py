"""Schedules: both are off until they are switched on, on Dagster's page (Automation) or by ``dagster schedule start``.

| schedule | cron, in UTC | what it runs | profile from |
|---|---|---|---|
| ``nightly`` | ``0 1 * * *``, every day at 01:00 | one run; the seed follows from the date | CORECODE_NIGHTLY_PROFILE |
| ``weekly`` | ``0 2 * * 6``, Saturdays at 02:00 | three runs, seeds 0, 1 and 2 | CORECODE_WEEKLY_PROFILE |

The environment of ``corecode up`` counts; without the variable it is the quickstart. A profile may also be the path of
a YAML file.
"""

from __future__ import annotations

import os

import dagster as dg

from pipelines.jobs import train
from pipelines.partitions import SEEDS, partition_key
from pipelines.profiles import load_profile
from pipelines.settings import RunSettings

DEFAULT_PROFILE = "quickstart"
WEEKLY_SEEDS = (0, 1, 2)


def run_request(profile: str, seed: int, run_key: str) -> dg.RunRequest:
    """Ask for the whole chain once.

    Raises:
        UserError: the profile is unknown or wrong; the tick then fails and says so.
    """
    load_profile(profile, seed=seed)
    return dg.RunRequest(
        run_key=run_key,
        partition_key=partition_key(profile, seed),
        run_config=RunSettings(profile=profile, seed=seed).run_config(),
    )


@dg.schedule(
    job=train, cron_schedule="0 1 * * *", execution_timezone="UTC", default_status=dg.DefaultScheduleStatus.STOPPED
)
def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """One run a night: the seeds take turns, so that ten nights are all of them."""
    date = context.scheduled_execution_time.date()
    profile = os.environ.get("CORECODE_NIGHTLY_PROFILE") or DEFAULT_PROFILE
    return run_request(profile, date.toordinal() % len(SEEDS), f"{profile} {date}")


@dg.schedule(
    job=train, cron_schedule="0 2 * * 6", execution_timezone="UTC", default_status=dg.DefaultScheduleStatus.STOPPED
)
def weekly(context: dg.ScheduleEvaluationContext) -> list[dg.RunRequest]:
    """Three seeds a week, the same each time: what differs from the week before is the code, the data or the
    machine."""
    date = context.scheduled_execution_time.date()
    profile = os.environ.get("CORECODE_WEEKLY_PROFILE") or DEFAULT_PROFILE
    return [run_request(profile, seed, f"{profile} {date} seed {seed}") for seed in WEEKLY_SEEDS]
