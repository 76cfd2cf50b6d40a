"""What stages share as Dagster assets: who owns them and which of them queue."""

from __future__ import annotations

from typing import Any

OWNERS = ["team:core-code"]
TRAINING_POOL = "training"
"""Stages that hold models. A run with such a stage waits in the queue while the pool is full."""


def stage_options(group: str, *kinds: str, pool: str | None = None) -> dict[str, Any]:
    """Arguments of ``dagster.asset`` for a stage of this group and these kinds."""
    return {"group_name": group, "kinds": set(kinds), "owners": OWNERS, "pool": pool}
