"""What MLflow could not be told when a run ended: its last metrics and how it ended. It waits in a file in the home
folder; the next start sends it, or Dagster's sensors do while its daemon runs.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.home import one_at_a_time, write_text

if TYPE_CHECKING:
    from pipelines.tracking import Status, Tracking

Metric = tuple[str, float, int, int]
"""Name, value, time in milliseconds since 1970, step."""
BATCH = 900
log = logging.getLogger(__name__)

_REFUSED = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "INVALID_STATE")
"""What the store says of a run that somebody has deleted."""


def keep(store: Tracking, run_id: str, status: Status, metrics: Sequence[Metric]) -> Path:
    """Keep a run's status and metrics, together with what was kept of it before; the file."""
    path = _folder(store) / f"{run_id}.json"
    before = json.loads(path.read_text(encoding="utf-8"))["metrics"] if path.is_file() else []
    write_text(path, json.dumps({"status": status, "metrics": [*before, *metrics]}))
    return path


def waits(store: Tracking) -> bool:
    """Whether there is something to tell this store, which is not asked."""
    return reminder(store).exists() or any(_folder(store).glob("*.json"))


def reminder(store: Tracking) -> Path:
    """A file that is there while a look for runs that were left open is still owed to this store."""
    return _folder(store) / "look-again"


def deliver(store: Tracking) -> None:
    """Send what waits for this store.

    Raises:
        InfrastructureError: the store does not answer. What was not sent goes on waiting.
    """
    folder = _folder(store)
    if not folder.is_dir():
        return
    from mlflow.entities import Metric as MlflowMetric
    from mlflow.exceptions import MlflowException

    with one_at_a_time(folder), store.answers():
        for path in sorted(folder.glob("*.json")):
            kept = json.loads(path.read_text(encoding="utf-8"))
            metrics = [MlflowMetric(*metric) for metric in kept["metrics"]]
            try:
                for start in range(0, len(metrics), BATCH):
                    store.client.log_batch(path.stem, metrics=metrics[start : start + BATCH])
                store.client.set_terminated(path.stem, kept["status"])
            except MlflowException as error:
                if error.error_code not in _REFUSED:
                    raise
                log.warning("MLflow no longer takes run %s, which was ended while it did not answer", path.stem)
            path.unlink()


def _folder(store: Tracking) -> Path:
    # The address may hold a password, and runs of another store are not for this one.
    return store.folder / "unsent" / hashlib.sha256(store.uri.encode()).hexdigest()[:16]
