"""Promote several runs at the same moment, each in a process of its own: ``python at_once.py HOME/runs/NAME ...``.

Each process writes its decision, or the error, to ``decision.json`` of its run. MLFLOW_TRACKING_URI counts as usual.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any


def one(run: Path, barrier: Any) -> None:
    from pipelines.registry.promotion import promote
    from pipelines.tracking import Tracking

    home = run.parent.parent
    profile = Profile.model_validate_json((run / "profile.json").read_text(encoding="utf-8"))
    barrier.wait()
    try:
        answer = asdict(promote(profile, run, home, Tracking(home)))
    except Exception as error:  # it is the test's business
        answer = {"error": f"{type(error).__name__}: {error}"}
    (run / "decision.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    # Imported once here; no store is open yet when the processes part.
    import mlflow.pyfunc  # noqa: F401

    import corecode.stages  # noqa: F401
    from corecode.config import Profile

    fork = multiprocessing.get_context("fork")
    runs = [Path(argument) for argument in sys.argv[1:]]
    barrier = fork.Barrier(len(runs))
    processes = [fork.Process(target=one, args=(run, barrier)) for run in runs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
