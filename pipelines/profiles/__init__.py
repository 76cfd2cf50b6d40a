"""Profiles: named YAML recipes, loaded by name or by path, with overrides from the command line."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from corecode.arms import arm
from corecode.config import Profile
from corecode.errors import UserError
from pipelines.redact import redact

FOLDER = Path(__file__).parent
LONGEST = 80
"""Characters of a refused value that are repeated."""


class _Loader(yaml.SafeLoader):
    """YAML takes the last of two fields with one name without a word; here they are a mistake."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(None, None, f"the field {name!r} stands there twice", key.start_mark)
            seen.add(name)
        return node


def shipped() -> list[str]:
    """Names of the profiles in this folder, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_profile(name: str, overrides: Sequence[str] = (), seed: int | None = None) -> Profile:
    """Load a profile by its name or by the path of a YAML file.

    Args:
        name: A shipped profile, or a path (anything with a slash or ending in ``.yaml``).
        overrides: Each ``field=value`` with dots for sections, e.g. ``planner_grpo.steps=5``; values are YAML.
        seed: Replaces the profile's seed.

    Raises:
        UserError: unknown profile or field (with the nearest name), or a value that the field refuses.
    """
    path = _find(name)
    try:
        values = _Loader(path.read_text(encoding="utf-8")).get_single_data()
    except OSError as error:
        raise UserError(f"cannot read the profile {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"the profile {path} is not UTF-8 text") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"the profile {path} is not valid YAML: {_place(error)}") from error
    if not isinstance(values, dict):
        raise UserError(f"the profile {path} must hold fields such as 'dataset' and 'model'")
    if seed is not None:
        overrides = [*overrides, f"seed={seed}"]
    return changed_profile(path.stem, {"name": path.stem, **values}, overrides)


def changed_profile(name: str, values: Mapping[str, Any], overrides: Sequence[str]) -> Profile:
    """A profile from its fields with some of them changed.

    Args:
        name: what error messages call it.
        overrides: see :func:`load_profile`.

    Raises:
        UserError: unknown field (with the nearest name), a value that the field refuses, or a secret in one.
    """
    fields = _unshared(values)
    for override in overrides:
        _apply(fields, override)
    try:
        profile = Profile.model_validate(fields)
    except ValidationError as error:
        raise UserError(f"profile {name}: {_sentence(error)}") from error
    _refuse_secrets(name, fields)
    for name_of_arm in profile.evaluation.arms:
        arm(name_of_arm)
    return profile


def _unshared(value: Any) -> Any:
    """A copy in which sections that share a YAML anchor are separate ones."""
    if isinstance(value, Mapping):
        return {str(name): _unshared(inner) for name, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _place(error: yaml.YAMLError | RecursionError) -> str:
    """What is wrong with a YAML text, and where."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())


def _find(name: str) -> Path:
    if "/" in name or name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise UserError(
                f"{name} is a folder, not a profile file" if path.is_dir() else f"there is no profile file {name}"
            )
        return path
    path = FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"unknown profile {name!r}{_nearest(name, shipped())} ('corecode profiles' lists all)")
    return path


def _apply(values: dict[str, Any], override: str) -> None:
    field, equals, text = override.partition("=")
    if not equals or not all(field.split(".")):
        raise UserError(f"--set {override}: write field=value, for example planner_grpo.steps=5")
    try:
        value = _Loader(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise UserError(f"--set {override}: the value is not valid YAML ({_place(error)})") from error
    *sections, last = field.split(".")
    for section in sections:
        inner = values.get(section)
        if inner is None:
            inner = values[section] = {}
        if not isinstance(inner, dict):
            raise UserError(f"--set {override}: {section} is a value, not a section")
        values = inner
    values[last] = value


def _refuse_secrets(name: str, value: Any, where: str = "") -> None:
    """A run keeps all fields of its profile, in its folder and in MLflow."""
    if isinstance(value, Mapping):
        for field, inner in value.items():
            _refuse_secrets(name, inner, f"{where}.{field}" if where else field)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            _refuse_secrets(name, inner, where)
    elif isinstance(value, str) and redact(value) != value:
        raise UserError(
            f"profile {name}: {where} holds a password or a token, and a run is recorded with all its fields; "
            "leave it out, and give secrets in environment variables alone"
        )


def _sentence(error: ValidationError) -> str:
    """The first problem of a validation error as half a sentence that names the field."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown field {where}{_nearest(where, list(field_names()))}"
    if first["type"] == "missing":
        return f"the field {where} is missing"
    message = first["msg"].removeprefix("Value error, ")
    reason = f"{message[0].lower()}{message[1:]}"
    if where.endswith("group_size"):
        reason += " (a group of fewer than 2 samples has no advantage to learn from)"
    given = first["input"]
    if not where:
        return reason
    return f"{where}: {reason}" if isinstance(given, dict) else f"{where} = {_cut(repr(given))}: {reason}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def field_names(model: type[BaseModel] = Profile, prefix: str = "") -> Iterator[str]:
    """Dotted names of all fields that a profile may set, sections included."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for section in sections(field.annotation):
            yield from field_names(section, f"{prefix}{name}.")


def sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field of this type may hold; empty for a plain value."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [section for part in get_args(annotation) for section in sections(part)]
    return [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
