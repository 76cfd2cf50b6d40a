"""Charts of the page as plotly figures in plain data.

A colour is a token such as ``$team``; the page replaces it by the light or dark value of its style sheet (the
colour-blind safe palette of Okabe and Ito), so that one figure serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corecode.evaluation.curves import Phase
from corecode.evaluation.failures import PASSED, in_words
from corecode.evaluation.metrics import RATIO_BINS
from corecode.evaluation.report.cases import PlanningEffect
from corecode.evaluation.report.words import at_temperature, label

Json = dict[str, Any]

PHASE_NAMES = {"planner_grpo": "Planner GRPO", "coder_grpo": "Coder GRPO"}
LINES = ("$team", "$vermillion", "$green", "$alone", "$single", "$sky", "$muted")
SEQUENCE = ("$scale0", "$scale1", "$scale2", "$scale3", "$scale4", "$scale5")
KINDS_SHOWN = 6
"""Failure kinds with a colour of their own; the rest is one kind."""
SMOOTHING = 5
"""Steps of the running mean of a reward curve."""
SPREAD = "reward/std"
"""Spread of the rewards within a group: no term of the reward."""


def charts(figures: Json, temperature: str, phases: Sequence[Phase], effect: PlanningEffect | None) -> dict[str, Json]:
    """Every chart that this run has data for, by name."""
    found = {
        "cg": gain_over_training(phases),
        "rewards": reward_curves(phases),
        "format": format_over_training(phases),
        "ratios": pass_ratios(figures, temperature),
        "failures": failure_kinds(figures, temperature),
        "effect": None if effect is None else effect_table(effect),
    }
    return {name: chart for name, chart in found.items() if chart is not None}


def gain_over_training(phases: Sequence[Phase]) -> Json | None:
    """Validation pass@1 of the team and of the Coder alone, and CG below, over both phases."""
    # One line over both phases: the second starts with the models that the first ended with.
    team = _joined(phases, "validation/pass@1/team", gaps=False)
    alone = _joined(phases, "validation/pass@1/alone", gaps=False)
    gain = _joined(phases, "validation/cg", gaps=False)
    if not team or not alone:
        return None
    data = [
        _line("Coder alone", alone, "$alone", axis="y", scale=100, markers=True),
        _line("Planner + Coder", team, "$team", axis="y", scale=100, markers=True, fill="tonexty"),
    ]
    layout: Json = {
        "xaxis": _steps_axis(),
        "yaxis": {"title": {"text": "pass@1, %"}, "rangemode": "tozero", "domain": [0.42, 1] if gain else [0, 1]},
        "height": 520 if gain else 360,
    }
    if gain:
        data.append(_line("CG, relative", gain, "$green", axis="y2", scale=100, markers=True, showlegend=False))
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis2"] = {"title": {"text": "CG, %"}, "domain": [0, 0.3], "rangemode": "tozero", "anchor": "x"}
    return _figure(data, layout, phases)


def reward_curves(phases: Sequence[Phase]) -> Json | None:
    """Every reward term over both phases, as a running mean; the single steps as faint points behind the mean."""
    names = sorted({name for phase in phases for name in phase.series if name.startswith("reward/")} - {SPREAD})
    if not names:
        return None
    names.sort(key=lambda name: (name != "reward/mean", name))
    data: list[Json] = []
    for place, name in enumerate(names[: len(LINES)]):
        colour = LINES[place]
        title = name.removeprefix("reward/")
        if name == "reward/mean":
            raw = _line(title, _joined(phases, name), colour, showlegend=False)
            data.append(
                raw | {"mode": "markers", "marker": {"color": colour, "size": 5, "opacity": 0.3}, "hoverinfo": "skip"}
            )
        line = _line(title, _joined(phases, name, smooth=SMOOTHING), colour)
        line["line"]["width"] = 3 if name == "reward/mean" else 1.5
        data.append(line)
    return _figure(data, {"xaxis": _steps_axis(), "yaxis": {"title": {"text": "reward"}}, "height": 400}, phases)


def format_over_training(phases: Sequence[Phase]) -> Json | None:
    """Share of thoughts that parse into their four parts: greedy ones on validation problems, and those of training."""
    greedy, sampled = _joined(phases, "validation/thought_valid"), _joined(phases, "thought/valid")
    data: list[Json] = []
    if sampled:
        data.append(_line("sampled in training", sampled, "$sky", scale=100))
    if greedy:
        data.append(_line("on validation problems", greedy, "$green", scale=100, markers=True))
    if not data:
        return None
    layout = {
        "xaxis": _steps_axis(),
        "yaxis": {"title": {"text": "valid thoughts, %"}, "range": [0, 104]},
        "height": 280,
    }
    return _figure(data, layout, phases)


def pass_ratios(figures: Json, temperature: str) -> Json | None:
    """Shares of programs by how many of their tests they pass, one bar an arm."""
    bars = _arms_at(figures, temperature)
    if not bars:
        return None
    data: list[Json] = []
    for place, name in enumerate(RATIO_BINS):
        shares = [100 * at["pass_ratio_bins"][place] / max(1, at["samples"]) for _, at in bars]
        data.append(_stacked(name, bars, shares, SEQUENCE[place]))
    return _figure(data, _stacked_layout(bars))


def failure_kinds(figures: Json, temperature: str) -> Json | None:
    """Shares of samples that failed, by kind, one bar an arm."""
    bars = _arms_at(figures, temperature)
    totals: dict[str, int] = {}
    for _, at in bars:
        for name, count in at["outcomes"].items():
            if name != PASSED:
                totals[name] = totals.get(name, 0) + count
    if not totals:
        return None
    ordered = sorted(totals, key=lambda name: (-totals[name], name))
    shown, rest = ordered[:KINDS_SHOWN], ordered[KINDS_SHOWN:]
    groups = [(in_words(name), [name]) for name in shown] + ([("other", rest)] if rest else [])
    data: list[Json] = []
    for (title, names), colour in zip(groups, LINES, strict=False):
        counts = [sum(at["outcomes"].get(name, 0) for name in names) for _, at in bars]
        shares = [100 * count / max(1, at["samples"]) for count, (_, at) in zip(counts, bars, strict=True)]
        data.append(_stacked(title, bars, shares, colour))
    return _figure(data, _stacked_layout(bars))


def effect_table(effect: PlanningEffect) -> Json:
    """Problems by right samples alone (across) and with the Planner (up), coloured by who was better."""
    n = len(effect.table) - 1
    axis = list(range(n + 1))
    counts = [[effect.table[alone][team] for alone in axis] for team in axis]
    # The root keeps small counts visible beside large ones; the sign is the direction of the effect.
    depth = [[((team > alone) - (team < alone)) * counts[team][alone] ** 0.5 for alone in axis] for team in axis]
    strongest = max(1.0, *(abs(value) for row in depth for value in row))
    data: Json = {
        "type": "heatmap",
        "x": axis,
        "y": axis,
        "z": [[round(value, 4) for value in row] for row in depth],
        "zmin": -strongest,
        "zmax": strongest,
        "text": [[str(count) if count else "" for count in row] for row in counts],
        "texttemplate": "%{text}" if n <= 10 else "",
        "hovertemplate": "alone %{x}, with Planner %{y}: %{text} problems<extra></extra>",
        "colorscale": [[0, "$vermillion"], [0.5, "$surface"], [1, "$team"]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    ticks: Json = {"dtick": 1} if n <= 10 else {}
    layout = {
        "xaxis": {"title": {"text": f"right of {n}, Coder alone"}, "showgrid": False, **ticks},
        "yaxis": {"title": {"text": f"right of {n}, with Planner"}, "showgrid": False, **ticks},
        "height": 400,
    }
    return _figure([data], layout)


def _arms_at(figures: Json, temperature: str) -> list[tuple[str, Json]]:
    """Arms with a result, the last first: a plot counts its bars from below."""
    return [(arm, at) for arm, at in reversed(at_temperature(figures, temperature)) if at["samples"]]


def _stacked(name: str, bars: Sequence[tuple[str, Json]], shares: Sequence[float], colour: str) -> Json:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": [round(share, 3) for share in shares],
        "y": list(range(len(bars))),
        "marker": {"color": colour, "line": {"color": "$paper", "width": 1}},
        "hovertemplate": f"{name}: %{{x:.1f}} %<extra></extra>",
    }


def _stacked_layout(bars: Sequence[tuple[str, Json]]) -> Json:
    """Names stand above their bars, where a narrow screen has room for them."""
    names = [
        {
            "x": 0,
            "xanchor": "left",
            "y": place,
            "yshift": 19,
            "showarrow": False,
            "text": label(arm),
        }
        for place, (arm, _) in enumerate(bars)
    ]
    return {
        "barmode": "stack",
        "bargap": 0.6,
        "xaxis": {"title": {"text": "share of all samples, %"}, "range": [0, 100]},
        "yaxis": {"showticklabels": False, "showgrid": False, "zeroline": False, "range": [-0.5, len(bars) - 0.35]},
        "annotations": names,
        "margin": {"l": 8, "r": 14, "t": 10, "b": 100},
        "height": 120 + 54 * len(bars),
    }


def _steps_axis() -> Json:
    return {"title": {"text": "optimizer step"}, "rangemode": "tozero"}


def _joined(phases: Sequence[Phase], name: str, smooth: int = 1, gaps: bool = True) -> list[tuple[float, float] | None]:
    """Points of all phases on one axis of steps; with ``gaps`` a None between two phases parts their lines."""
    joined: list[tuple[float, float] | None] = []
    offset = 0
    for phase in phases:
        values = phase.get(name)
        if values:
            if joined and gaps:
                joined.append(None)
            for place, (step, _) in enumerate(values):
                window = [value for _, value in values[max(0, place - smooth + 1) : place + 1]]
                joined.append((offset + step, sum(window) / len(window)))
        offset += phase.steps
    return joined


def _line(
    name: str,
    points: Sequence[tuple[float, float] | None],
    colour: str,
    axis: str = "y",
    scale: float = 1,
    markers: bool = False,
    fill: str = "none",
    showlegend: bool = True,
) -> Json:
    return {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "x": [None if point is None else point[0] for point in points],
        "y": [None if point is None else round(point[1] * scale, 6) for point in points],
        "yaxis": axis,
        "line": {"color": colour, "width": 2.5},
        "marker": {"color": colour, "size": 7},
        "fill": fill,
        "fillcolor": "$wash",
        "showlegend": showlegend,
        "hovertemplate": f"{name}: %{{y:.3g}}<extra></extra>",
    }


def _figure(data: list[Json], layout: Json, phases: Sequence[Phase] = ()) -> Json:
    """Add what all charts share, and where one phase ends and the next begins."""
    shapes: list[Json] = list(layout.get("shapes", []))
    notes: list[Json] = list(layout.get("annotations", []))
    offset = 0
    for place, phase in enumerate(phases):
        if place:
            shapes.append(
                {
                    "type": "line",
                    "yref": "paper",
                    "x0": offset,
                    "x1": offset,
                    "y0": 0,
                    "y1": 1,
                    "line": {"color": "$muted", "dash": "dash", "width": 1.5},
                }
            )
        notes.append(
            {
                "x": offset + phase.steps / 2,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
                "text": f"<b>{PHASE_NAMES.get(phase.name, phase.name)}</b>",
            }
        )
        offset += phase.steps
    legend = any(trace.get("showlegend", True) and "name" in trace for trace in data)
    top, bottom = (30 if phases else 10), (100 if legend else 56)
    shared: Json = {
        "margin": {"l": 58, "r": 14, "t": top, "b": bottom},
        # Below the title of the axis, whatever the height: positions are in shares of the plot.
        "legend": {
            "orientation": "h",
            "y": -52 / (layout["height"] - top - bottom),
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
    }
    return {"data": data, "layout": shared | layout | {"shapes": shapes, "annotations": notes}}
