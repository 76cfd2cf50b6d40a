"""Where problems come from: :func:`load` gives the splits of a run, :func:`read` a benchmark or a file by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from corecode.config import DatasetConfig
from corecode.datasets.decontaminate import decontaminate
from corecode.datasets.files import Chosen
from corecode.datasets.files import choose as choose_written
from corecode.datasets.reading import ImportSummary, read
from corecode.errors import UserError
from corecode.problems import Problem, Split

__all__ = ["Chosen", "ImportSummary", "choose", "load", "read"]


def load(config: DatasetConfig) -> dict[Split, list[Problem]]:
    """The problems of each split; the same section gives the same problems in the same order (see :func:`choose`)."""
    return choose(config).splits


def choose(config: DatasetConfig) -> Chosen:
    """The problems of each split without the training problems that match a test problem, and what was found.

    Raises:
        UserError: for data that is missing, malformed or too small, or when a validation problem is also trained on
            (by id or by statement).
        InfrastructureError: when the Hugging Face hub is needed and does not answer.
    """
    match config.name:
        case "dials":
            from corecode.datasets import dials as source
        case "humaneval":
            from corecode.datasets import humaneval as source
        case _:
            chosen = choose_written(config)
            _refuse_overlap(chosen.splits)
            return chosen
    splits, found = decontaminate(source.datasets(config))
    emptied = [split for split, problems in splits.items() if not problems and getattr(config, split)]
    if emptied:
        raise UserError(
            f"every problem of split {emptied[0]!r} matches a test problem; set dataset.{emptied[0]} higher"
        )
    _refuse_overlap(splits)
    return Chosen(splits, found, {})


def _refuse_overlap(splits: Mapping[Split, Sequence[Problem]]) -> None:
    """Validation problems draw the curves of training: they are never trained on."""
    trained = {key: split for split in ("sft", "rl") for problem in splits[split] for key in _keys(problem)}
    for problem in splits["validation"]:
        for key in _keys(problem):
            if key in trained:
                raise UserError(
                    f"problem {problem.id!r} of split 'validation' is also in split {trained[key]!r}; remove one"
                )


def _keys(problem: Problem) -> tuple[str, str]:
    return problem.id, " ".join(problem.statement.split())
