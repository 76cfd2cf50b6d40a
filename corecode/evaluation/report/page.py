"""Render the HTML page and the markdown file. Every text is escaped by the template engine.

The page is one file that reaches no network: styles, scripts, the plotting library and the data are inside, and its
content policy allows no other script to run, so that a hostile program text stays text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from corecode.arms import ARMS
from corecode.evaluation.collaboration import CG_PAIRS, GAINS
from corecode.evaluation.report import reference, words
from corecode.evaluation.report.cases import Case, PlanningEffect
from corecode.evaluation.report.trust import trust

if TYPE_CHECKING:
    from jinja2 import Environment

Json = dict[str, Any]

GROUPS = (
    ("Before training", ("base/alone", "base/team")),
    ("After the supervised warm‑up", ("sft/alone", "sft/team", "single-direct/sft", "single-thought/sft")),
    ("Planner trained by GRPO", ("sft/alone", "planner-grpo/team")),
    ("Only the Coder trained by GRPO", ("coder-grpo-only/alone", "coder-grpo-only/team")),
    ("Both trained by GRPO", ("final/alone", "final/team")),
    ("One model, whole budget", ("single-direct/final", "single-thought/final")),
)
"""Arms of the first picture, as a story."""
TILES = (
    ("total", "Reinforcement learning, in all", "the team after the warm-up and after both phases"),
    ("planner_phase", "Planner GRPO", "the team before and after it"),
    ("coder_phase", "Coder GRPO", "the team before and after it"),
    ("over_single_direct", "Team against one model", "one model that writes code, same budget, and the team"),
    ("over_single_thought", "Team against one that plans", "one model that writes thought and code, and the team"),
)
"""Gains that the page shows in large type."""
OTHERS = "Prompts alone, and others"
"""Title of the group for arms that are in no other."""
MANY_BARS = 8
"""Bars of a group that the page shows without being asked."""
REPEATED = ("Planner trained by GRPO", "sft/alone")
"""The Planner phase does not touch the Coder: its bar is drawn again beside the team's."""
BAR_NAMES = {
    "alone": "Coder alone",
    "team": "Planner + Coder",
    "single-direct/sft": "One model, code only",
    "single-direct/final": "Writes code only",
    "single-thought/sft": "One model, thought + code",
    "single-thought/final": "Writes thought + code",
}


@dataclass(frozen=True)
class Page:
    """What the report shows."""

    summary: Json
    temperature: str
    """Temperature of the headline and of the charts."""
    charts: dict[str, Json]
    effect: PlanningEffect | None
    thoughts: Sequence[Case]


def render_html(page: Page) -> str:
    """The page, as one self-contained file."""
    environment = _environment()
    script, style = _resource("report.js"), _resource("report.css")
    library = _plotly() if page.charts else ""
    return environment.get_template("report.html").render(
        **_context(page),
        style=style,
        script=script,
        library=library,
        policy=_policy([script, library]),
        charts_json=_script_json(page.charts),
        chart_names=sorted(page.charts),
    )


def render_markdown(page: Page) -> str:
    """The short form: headline, tables, how far to trust it. It holds no text that a model wrote."""
    return _environment().get_template("report.md").render(**_context(page))


def bars(summary: Json, temperature: str) -> list[tuple[str, list[Json]]]:
    """Groups of the first picture: title, and bars with score (None where no problem is complete) and, for a team, its
    Collaboration Gain."""
    gains = {
        pair["system"]: pair["temperatures"][temperature]["pass@1"]["cg_abs"]
        for pair in summary["collaboration_gain"].values()
        if temperature in pair["temperatures"]
    }
    known = {arm for _, arms in GROUPS for arm in arms}
    groups = [*GROUPS, (OTHERS, tuple(arm for arm in summary["arms"] if arm not in known))]
    result: list[tuple[str, list[Json]]] = []
    for title, arms in groups:
        rows: list[Json] = []
        for arm in arms:
            if (title, arm) == REPEATED and arms[-1] not in summary["arms"]:
                continue
            at = summary["arms"].get(arm, {"temperatures": {}})["temperatures"].get(temperature)
            if at is None:
                continue
            rows.append(
                {
                    "arm": arm,
                    "name": _bar_name(title, arm),
                    "kind": words.kind(arm),
                    "score": at["pass@k"].get("1"),
                    "gain": gains.get(arm),
                }
            )
        if rows:
            result.append((title, rows))
    return result


def _findings(summary: Json, temperature: str) -> list[str]:
    """What stands above the first picture: the gain, and beside it the fair comparison with one model."""
    support: list[str] = summary["headline"]["support"]
    if words.headline_pair(summary, temperature) is None:
        return support[:3]
    return [*support[:1], *words.singles(summary, temperature)[-1:]]


def _bar_name(group: str, arm: str) -> str:
    if group == OTHERS:
        return words.label(arm)
    name = BAR_NAMES.get(arm) or BAR_NAMES.get(arm.split("/")[-1], arm)
    return f"{name}, unchanged" if (group, arm) == REPEATED else name


def _context(page: Page) -> Json:
    summary = page.summary
    return {
        "page": page,
        "summary": summary,
        "headline": summary["headline"],
        "temperature": page.temperature,
        "n": summary["samples_per_problem"],
        "bars": bars(summary, page.temperature),
        "kinds": {words.kind(arm) for arm, _ in words.at_temperature(summary, page.temperature)},
        "other_roles": any(ARMS[arm].prompted and words.kind(arm) == "team" for arm in summary["arms"] if arm in ARMS),
        "findings": _findings(summary, page.temperature),
        "elsewhere": words.at_other_temperatures(summary, page.temperature),
        "many": MANY_BARS,
        "tiles": _tiles(summary, page.temperature),
        "measures": _measures(summary),
        "effect": page.effect,
        "thoughts": page.thoughts,
        "trust": trust(summary, page.temperature),
        "order": [pair.name for pair in CG_PAIRS],
        "gain_order": [gain.name for gain in GAINS],
        "reference": reference,
        "words": words,
        "ours": _our_ablation(summary, page.temperature),
    }


def _tiles(summary: Json, temperature: str) -> list[Json]:
    """The key differences in pass@1: what is compared, both values, the difference with its interval, its direction."""
    tiles: list[Json] = []
    pair = words.headline_pair(summary, temperature)
    if pair is not None:
        one = pair[1]["temperatures"][temperature]["pass@1"]
        tiles.append(
            _tile(
                "Collaboration Gain", "the Coder without and with its Planner", one["alone"], one["team"], one["cg_abs"]
            )
        )
    for name, title, meaning in TILES:
        gain = summary["gains"].get(name, {"temperatures": {}})["temperatures"].get(temperature)
        if gain is not None:
            figure = gain["pass@1"]
            tiles.append(_tile(title, meaning, figure["baseline"], figure["system"], figure))
    return tiles


def _tile(title: str, meaning: str, before: float, after: float, figure: Json) -> Json:
    return {
        "title": title,
        "meaning": meaning,
        "before": before,
        "after": after,
        "figure": figure,
        "direction": words.direction(figure),
    }


def _measures(summary: Json) -> list[str]:
    """Names of the compared measures, taken from the first comparison."""
    for group in (summary["collaboration_gain"], summary["gains"]):
        for one in group.values():
            for figures in one["temperatures"].values():
                return [name for name in figures if name == "apr" or name.startswith("pass@")]
    return []


def _our_ablation(summary: Json, temperature: str) -> dict[str, Json]:
    """Our pass@1 of the arms of the paper's ablation."""
    found: dict[str, Json] = {}
    for _, _, arm in reference.ABLATION_7B:
        at = summary["arms"].get(arm, {"temperatures": {}})["temperatures"].get(temperature)
        if at and at["problems"]:
            found[arm] = at["pass@k"]["1"]
    return found


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("corecode.evaluation.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "percent": words.percent,
        "points": words.points,
        "bounds": words.bounds,
        "p_value": words.p_value,
        "label": words.label,
        "unbroken": words.unbroken,
        "in_cell": lambda text: str(text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;"),
    }
    return environment


def _resource(name: str) -> str:
    return files("corecode.evaluation.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """The plotting library that the package ``plotly`` ships."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _script_json(value: Json) -> str:
    """JSON for a script element: without ``<``, no text in it can end the element."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _policy(scripts: Sequence[str]) -> str:
    """Content security policy: no network at all, and only these scripts."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts if text]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; script-src {allowed}"
