"""One partition for each profile and seed, so that three seeds of a profile are one backfill.

A partition's key is ``<profile>|<seed>``. Two values stand for all that no list can hold: the profile ``custom`` (a
YAML file of yours, named in the run's configuration) and the seed ``other`` (a larger one, likewise).
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

from pipelines.profiles import shipped

CUSTOM, OTHER = "custom", "other"
SEEDS = tuple(str(seed) for seed in range(10))
PARTITIONS = dg.MultiPartitionsDefinition(
    {
        "profile": dg.StaticPartitionsDefinition([*shipped(), CUSTOM]),
        "seed": dg.StaticPartitionsDefinition([*SEEDS, OTHER]),
    }
)
_TAG = "dagster/partition"


def partition_key(profile: str, seed: int) -> dg.MultiPartitionKey:
    """The partition of a run; ``profile`` is a shipped one's name or anything else that the command line takes."""
    known = profile if profile in shipped() else CUSTOM
    return dg.MultiPartitionKey({"profile": known, "seed": str(seed) if str(seed) in SEEDS else OTHER})


def partition_of(tags: Mapping[str, str]) -> tuple[str | None, int | None] | None:
    """Profile and seed of the partition that a Dagster run's tags name, None for what it leaves to the configuration;
    None when the run has no partition."""
    profile, seed = tags.get(f"{_TAG}/profile"), tags.get(f"{_TAG}/seed")
    if profile is None or seed is None:
        return None
    return None if profile == CUSTOM else profile, None if seed == OTHER else int(seed)
