"""Where a job's models come from: the untrained model, or what an earlier job of the run saved."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.errors import InfrastructureError
from corecode.generation.generator import derive_seed
from corecode.models import load_model, load_tokenizer, new_model, train_tokenizer
from corecode.problems import Problem
from corecode.roles.roles import ROLES, role
from corecode.training.records import MODEL, publish

TOKENIZER = "tokenizer"
"""Folder of the tokenizer that all roles of a model from scratch share."""
BASE = "base/"
"""Prefix of the weights of an untrained role."""


def learn_tokenizer(profile: Profile, problems: Sequence[Problem], run: Path) -> None:
    """Learn the run's tokenizer from the warm-up's prompts and answers and save it as ``run/tokenizer``.

    Raises:
        ValueError: for a profile whose model is not made from nothing.
    """
    if profile.model.scratch is None:
        raise ValueError("only a model from scratch learns a tokenizer")
    texts: list[str] = []
    for problem in problems:
        for reference in problem.references:
            for name in ROLES:
                player = role(name, profile.prompts)
                if name != "coder" and reference.thought is None:
                    continue
                chat = player.messages(problem, reference.thought if player.reads_thought else None)
                texts.append(chat[0]["content"] + player.target(reference))
    tokenizer = train_tokenizer(texts, profile.model.scratch.vocabulary)
    partial = run / f"{TOKENIZER}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    tokenizer.save_pretrained(partial)
    publish(partial, run / TOKENIZER)


def saved_model(run: Path, folder: str) -> Path:
    """The model folder that a job of the run has saved.

    Raises:
        InfrastructureError: when it is not there.
    """
    saved = run / folder / MODEL
    if not saved.is_dir():
        raise InfrastructureError(f"{saved} is not there: the job {folder} has to be run first")
    return saved


def load(profile: Profile, run: Path, folder: str) -> tuple[Any, Any]:
    """Model and tokenizer of a role.

    Args:
        folder: a job's folder relative to ``run``, or ``base/<role>`` for the untrained model. Untrained roles of a
            model from scratch differ: each has its own random weights.

    Raises:
        UserError: when the model cannot be had.
        InfrastructureError: when the job that should have saved it is not complete.
    """
    if not folder.startswith(BASE):
        saved = saved_model(run, folder)
        model = load_model(profile.model, saved, profile.execution.device)
        return model, load_tokenizer(profile.model, saved)
    if profile.model.scratch is None:
        return load_model(profile.model, None, profile.execution.device), load_tokenizer(profile.model)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(run / TOKENIZER)
    model = new_model(profile.model.scratch, tokenizer, derive_seed(profile.seed, "base", folder.removeprefix(BASE)))
    return model.to(profile.execution.device), tokenizer
