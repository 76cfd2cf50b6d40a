"""Checks of a resolved profile before anything expensive: what it names must exist, and there must be room."""

from __future__ import annotations

import re
from pathlib import Path

from corecode.config import Profile
from corecode.errors import UserError
from corecode.models import check_model
from pipelines.home import GIB, folder_bytes

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def is_hub_id(path: str) -> bool:
    """Whether a model path names a model on the Hugging Face hub (``owner/name``) rather than a folder here."""
    if Path(path).expanduser().exists() or not _HUB_ID.fullmatch(path):
        return False
    owner = path.partition("/")[0]
    return owner not in (".", "..") and not Path(owner).is_dir()


def check_inputs(profile: Profile, problems: bool = True) -> None:
    """Check what the profile names: the model, and unless ``problems`` is False the problem files.

    Raises:
        UserError: naming the file or field.
    """
    if problems and profile.dataset.path is not None:
        from corecode.datasets import load

        load(profile.dataset, profile.seed)
    path = profile.model.path
    if path is not None and not is_hub_id(path) and not Path(path).expanduser().is_dir():
        raise UserError(f"model.path: there is no model folder {path} (and it is not a hub id such as owner/name)")
    check_model(profile.model)


def needed_bytes(profile: Profile) -> int:
    """Free space that a run needs, generously: each stage keeps one copy of a model, and stores keep their records."""
    path = profile.model.path
    model = folder_bytes(Path(path).expanduser()) if path is not None and not is_hub_id(path) else 0
    if profile.model.package is not None:
        model = GIB // 4
    return GIB // 4 + 6 * model
