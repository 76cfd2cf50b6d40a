"""Where problems come from: :func:`load` gives the splits of a run, :func:`read` a benchmark or a file by itself."""

from __future__ import annotations

from corecode.config import DatasetConfig
from corecode.datasets.reading import ImportSummary, read
from corecode.errors import UserError
from corecode.problems import Problem, Split

__all__ = ["ImportSummary", "load", "read"]


def load(config: DatasetConfig, seed: int) -> dict[Split, list[Problem]]:
    """The problems of each split; the same seed gives the same problems in the same order.

    Raises:
        UserError: for data that is missing, malformed or too small, or when a problem of the test or validation
            split is also trained on (by id or by statement).
    """
    match config.name:
        case "dials":
            from corecode.datasets import dials as source
        case "humaneval":
            from corecode.datasets import humaneval as source
        case "file":
            from corecode.datasets import files as source
    splits = source.datasets(config, seed)
    _refuse_overlap(splits)
    return splits


def _refuse_overlap(splits: dict[Split, list[Problem]]) -> None:
    """Evaluation problems are never trained on, and the test split is not looked at before the end."""
    seen: dict[str, Split] = {}
    for split in ("sft", "rl", "validation", "test"):
        keys = {key: problem for problem in splits[split] for key in (problem.id, " ".join(problem.statement.split()))}
        for key, problem in keys.items():
            if split in ("validation", "test") and key in seen:
                raise UserError(f"problem {problem.id!r} of split {split!r} is also in split {seen[key]!r}; remove one")
        seen.update(dict.fromkeys(keys, split))
