"""Problems that were written, not made: your own folder, MBPP with its authors' splits, and CodeContests.

A folder has a file for each split (``sft``, ``rl``, ``validation``, ``test``), or ``train`` and ``test``; splits
without a file of their own are dealt from ``train``: validation first, then the rest to ``rl`` and, where there is a
reference program, to ``sft`` (which may share problems). Each file may have any format of
:mod:`corecode.datasets.formats`.

Training problems that match a test problem are taken out before anything is chosen (see
:mod:`corecode.datasets.decontaminate`). Warm-up problems need a reference program; a missing thought is derived from
it. Problems with flags (such as ``several_answers`` without a checker) are left out of ``rl``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from corecode.config import DatasetConfig
from corecode.datasets import records
from corecode.datasets.decontaminate import Decontamination, decontaminate
from corecode.datasets.derive import thought_from_program
from corecode.datasets.reading import ImportSummary, read
from corecode.errors import UserError
from corecode.problems import Problem, Reference, Split

TRAIN = "train"
WARM_UP = "deepmind/code_contests"
"""Where CodeContests from the hub takes reference programs from."""
SPARE = 4
"""Records that are read there for each warm-up problem: not all have a reference in Python, or stay."""

_DEALT: tuple[Split, ...] = ("validation", "rl", "sft")


@dataclass(frozen=True)
class Chosen:
    """The problems of a run, and how they were come by."""

    splits: dict[Split, list[Problem]]
    decontamination: Decontamination
    imports: dict[str, ImportSummary]
    """By split, or ``train``: what became of the records of its source."""


def choose(config: DatasetConfig) -> Chosen:
    """Read, decontaminate, and choose: of more problems than the profile asks for, ``dataset.seed`` picks.

    Raises:
        UserError: for a missing folder or file, a malformed line, too few problems, or a warm-up problem that no
            thought and program can be had for.
        InfrastructureError: when the hub does not answer.
    """
    read_by_name = _sources(config)
    imports = {name: summary for name, (_, summary) in read_by_name.items()}
    pools, found = decontaminate({name: problems for name, (problems, _) in read_by_name.items()})
    rest = list(pools.pop(TRAIN, []))
    random.Random(f"{config.seed} {TRAIN}").shuffle(rest)
    splits: dict[Split, list[Problem]] = {}
    for split in (*_DEALT, "test"):
        source = imports[split if split in pools else TRAIN].source
        pool = pools.get(split, rest)
        splits[split] = _choose(split, pool, config, source, found)
        if split == "validation" and split not in pools:  # what it takes from train, nobody else may have
            others = {name: pool for name, pool in pools.items() if name != "test"}
            without, _ = decontaminate({**others, TRAIN: rest, "test": splits[split]})
            rest, pools = without.pop(TRAIN), {**pools, **without, "test": pools["test"]}
    return Chosen({split: splits[split] for split in get_args(Split)}, found, imports)


def _sources(config: DatasetConfig) -> dict[str, tuple[list[Problem], ImportSummary]]:
    if config.path is not None and config.name != "mbpp":
        return _folder(Path(config.path).expanduser())
    if config.name == "mbpp":
        source = config.path or "mbpp"
        return {split: read(source, split=split) for split in (TRAIN, "validation", "test")}
    hub = {TRAIN: read("codecontests-train"), "test": read("codecontests")}
    return hub | ({"sft": read(WARM_UP, SPARE * config.sft, TRAIN)} if config.sft else {})


def _folder(folder: Path) -> dict[str, tuple[list[Problem], ImportSummary]]:
    if not folder.is_dir():
        raise UserError(
            f"dataset.path {str(folder)!r} is not a folder; give one with sft, rl, validation and test.jsonl,"
            " or with train and test.jsonl"
        )
    found = {records.stem(path): path for path in records.data_files(folder)}
    names = [split for split in get_args(Split) if split in found]
    missing = [split for split in get_args(Split) if split not in found]
    if "test" in missing or (missing and TRAIN not in found):
        absent = folder / f"{missing[-1] if 'test' in missing else missing[0]}.jsonl"
        raise UserError(
            f"cannot read the problem file {absent}: it is not there, nor another of {', '.join(records.ENDINGS)};"
            " splits other than test may come from train.jsonl"
        )
    return {name: read(found[name]) for name in [*names, *([TRAIN] if missing else [])]}


def _choose(
    split: Split, pool: list[Problem], config: DatasetConfig, source: str, found: Decontamination
) -> list[Problem]:
    wanted: int = getattr(config, split)
    usable = [problem for problem in pool if split != "rl" or not problem.flags]
    if split == "sft" and any(problem.references for problem in pool):
        usable = [problem for problem in pool if problem.references]
    if wanted > len(usable):
        flagged = len(pool) - len(usable)
        matching = len([match for match in found.removed if match.split in (split, TRAIN)])
        more = [f"{flagged} more are flagged"] if flagged and split == "rl" else []
        more += [f"{flagged} more have no reference program"] if flagged and split == "sft" else []
        more += [f"{matching} more match a test problem"] if matching and split != "test" else []
        left_out = f" ({', '.join(more)})" if more else ""
        raise UserError(
            f"{source} holds {len(usable)} usable problems{left_out}, but"
            f" dataset.{split} asks for {wanted}; set dataset.{split} to {len(usable)} or less"
        )
    chosen = usable if wanted == len(usable) else random.Random(f"{config.seed} {split}").sample(usable, wanted)
    own = [problem.model_copy(update={"split": split}) for problem in chosen]
    return [_with_thoughts(problem, source) for problem in own] if split == "sft" else own


def _with_thoughts(problem: Problem, source: str) -> Problem:
    if not problem.references:
        raise UserError(f"{source}: problem {problem.id!r} has no reference program, which the warm-up needs; add one")
    entry = None if problem.kind == "stdio" else problem.entry_point or problem.tests[0].call or None
    return problem.model_copy(
        update={"references": [_with_thought(r, entry, problem, source) for r in problem.references]}
    )


def _with_thought(reference: Reference, entry: str | None, problem: Problem, source: str) -> Reference:
    if reference.thought is not None:
        return reference
    try:
        thought = thought_from_program(reference.program, entry)
    except ValueError as error:
        raise UserError(f"{source}: no thought can be derived for problem {problem.id!r}: {error}; add one") from error
    return reference.model_copy(update={"thought": thought.render()})
