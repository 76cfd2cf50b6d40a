"""Your own problems: a folder with ``sft.jsonl``, ``rl.jsonl``, ``validation.jsonl`` and ``test.jsonl``.

Each line is a :class:`corecode.problems.Problem`. Warm-up problems need a reference program; a missing thought is
derived from it. Problems with flags (such as ``several_answers`` without a checker) are left out of ``rl``.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import get_args

from corecode.config import DatasetConfig
from corecode.datasets.derive import thought_from_program
from corecode.errors import UserError
from corecode.problems import Problem, Reference, Split, read_problems


def datasets(config: DatasetConfig, seed: int) -> dict[Split, list[Problem]]:
    """Read the four files; where the profile asks for fewer problems than a file holds, the seed chooses them.

    Raises:
        UserError: for a missing folder or file, a malformed line, too few problems, or a warm-up problem that no
            thought and program can be had for.
    """
    folder = Path(str(config.path)).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"dataset.path {config.path!r} is not a folder; give one with sft, rl, validation and test.jsonl"
        )
    return {split: _read(folder / f"{split}.jsonl", split, getattr(config, split), seed) for split in get_args(Split)}


def _read(path: Path, split: Split, wanted: int, seed: int) -> list[Problem]:
    problems = [problem.model_copy(update={"split": split}) for problem in read_problems(path)]
    usable = [problem for problem in problems if split != "rl" or not problem.flags]
    if wanted > len(usable):
        flagged = f" ({len(problems) - len(usable)} more are flagged)" if len(usable) < len(problems) else ""
        raise UserError(
            f"{path} holds {len(usable)} usable problems{flagged}, but dataset.{split} asks for {wanted};"
            f" set dataset.{split} to {len(usable)} or less"
        )
    chosen = usable if wanted == len(usable) else random.Random(f"{seed} {split}").sample(usable, wanted)
    return [_with_thoughts(problem, path) for problem in chosen] if split == "sft" else chosen


def _with_thoughts(problem: Problem, path: Path) -> Problem:
    if not problem.references:
        raise UserError(f"{path}: problem {problem.id!r} has no reference program, which the warm-up needs; add one")
    entry = None if problem.kind == "stdio" else problem.entry_point or problem.tests[0].call or None
    return problem.model_copy(
        update={"references": [_with_thought(r, entry, problem, path) for r in problem.references]}
    )


def _with_thought(reference: Reference, entry: str | None, problem: Problem, path: Path) -> Reference:
    if reference.thought is not None:
        return reference
    try:
        thought = thought_from_program(reference.program, entry)
    except ValueError as error:
        raise UserError(f"{path}: no thought can be derived for problem {problem.id!r}: {error}; add one") from error
    return reference.model_copy(update={"thought": thought.render()})
