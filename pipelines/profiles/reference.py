"""The page ``docs/profiles.md``, made from the models of ``corecode.config`` and the shipped profiles.

python -m pipelines.profiles.reference [FILE]     writes docs/profiles.md, or another file
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from corecode.config import Profile
from pipelines.profiles import FOLDER, load_profile, sections, shipped

PAGE = Path(__file__).parents[2] / "docs" / "profiles.md"
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}

_HEAD = """\
<!-- Made by `make docs` from corecode/config.py and pipelines/profiles; change those. -->

# Profiles

A profile is a YAML file that decides everything a run does, except the code. `corecode run` takes a name of the list
below or the path of your own file:

```console
$ corecode profiles
$ corecode run smoke --seed 3 --set planner_grpo.steps=60 --dry-run
```

`--set FIELD=VALUE` changes one field, with dots between section and field and a YAML value; it may be repeated.
`--dry-run` prints the resolved profile with every default. A misspelt field is an error that names the nearest one.
Each run keeps its resolved profile in `profile.json`.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## Shipped profiles\n", _overview()]
    parts += [
        f"### {name}\n\n```yaml\n{(FOLDER / f'{name}.yaml').read_text(encoding='utf-8')}```\n" for name in shipped()
    ]
    parts += ["## Fields\n"]
    parts += list(_tables(Profile, ""))
    return "\n".join(parts)


def _overview() -> str:
    rows = ["| profile | minutes | hardware | what it is |", "|---|---|---|---|"]
    for name in shipped():
        profile = load_profile(name)
        cells = [
            f"[`{name}`](#{_anchor(name)})",
            f"{profile.expected_minutes or 0:g}",
            profile.hardware,
            profile.description,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _anchor(heading: str) -> str:
    return "".join(sign for sign in heading.lower() if sign.isalnum() or sign in "-_")


def _tables(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """A table of a section's own values, then those of the sections inside it."""
    inner: list[tuple[str, type[BaseModel]]] = []
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        found = sections(field.annotation)
        inner += [(f"{prefix}{name}.", section) for section in found]
        kind = "section" if found else _kind(field)
        meaning = " ".join((field.description or "").split()).replace("``", "`").replace("|", "\\|")
        rows.append(f"| `{prefix}{name}` | {kind} | {_default(field, bool(found))} | {meaning} |")
    title = f"### {prefix.rstrip('.')}\n" if prefix else "### The profile itself\n"
    yield f"{title}\n" + (f"{_said(model)}\n\n" if prefix and _said(model) else "") + "\n".join(rows) + "\n"
    for place, section in inner:
        yield from _tables(section, place)


def _said(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split()).replace("``", "`")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _kind(field: FieldInfo) -> str:
    limits = [
        f"{sign} {_number(getattr(one, name))}"
        for one in field.metadata
        for name, sign in _SIGNS.items()
        if hasattr(one, name)
    ]
    return ", ".join([_type(field.annotation), *limits])


def _type(annotation: Any) -> str:
    if annotation is type(None):
        return "null"
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_type(part) for part in get_args(annotation))
    if get_origin(annotation) is list:
        return f"list of {_type(get_args(annotation)[0])}"
    return {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}.get(
        annotation.__name__, annotation.__name__
    )


def _default(field: FieldInfo, section: bool) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, BaseModel):
        changed = value.model_dump(exclude_defaults=True)
        return f"`{yaml.safe_dump(changed, default_flow_style=True, sort_keys=False).strip()}`" if changed else ""
    if section and value is None:
        return "none"
    return f"`{yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix('...' + chr(10)).strip()}`"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.write_text(page(), encoding="utf-8")
