"""A run's figures for MLflow and for the terminal, read from ``summary.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Json = Mapping[str, Any]


def run_metrics(summary: Json) -> dict[str, float]:
    """All figures under names that are the same in every run: ``<measure>/<arm or comparison>/T<temperature>``, and
    ``.../low`` and ``.../high`` for the 95 % interval."""
    found: dict[str, Any] = {}
    for arm, one in summary["arms"].items():
        for temperature, figures in one["temperatures"].items():
            place = f"{arm}/T{temperature}"
            for k, value in figures["pass@k"].items():
                _add(found, f"pass@{k}/{place}", value)
            _add(found, f"apr/{place}", figures["apr"])
            found[f"missing/{place}"] = figures["missing"]["samples"]
            found[f"thought_valid/{place}"] = figures["thoughts"]["validity"]
    for name, one in summary["collaboration_gain"].items():
        for temperature, figures in one["temperatures"].items():
            for measure in _measures(figures):
                _add(found, f"cg/{measure}/{name}/T{temperature}", figures[measure]["cg"])
                _add(found, f"cg_abs/{measure}/{name}/T{temperature}", figures[measure]["cg_abs"])
    for name, one in summary["gains"].items():
        for temperature, figures in one["temperatures"].items():
            for measure in _measures(figures):
                _add(found, f"gain/{measure}/{name}/T{temperature}", figures[measure])
    return {name: value for name, value in found.items() if isinstance(value, int | float)}


def headline(figures: Mapping[str, float]) -> dict[str, float]:
    """What stands on the whole run: pass@1, CG and gains in pass@1, and whether thoughts parse. A page that compares
    runs shows a row for each; the report's stage holds all figures."""
    return {name: value for name, value in figures.items() if "pass@1/" in name or name.startswith("thought_valid/")}


def arm_metrics(summary: Json, arm: str) -> dict[str, float]:
    """The figures of one arm, under names that are the same for every arm: ``<measure>/T<temperature>``. A team has its
    CG too."""
    found: dict[str, float] = {}
    systems = {name: one["system"] for name, one in summary["collaboration_gain"].items()}
    for name, value in run_metrics(summary).items():
        measure, _, rest = name.partition("/")
        if rest.startswith(f"{arm}/T"):
            found[f"{measure}/{rest.removeprefix(arm + '/')}"] = value
        elif measure in ("cg", "cg_abs"):
            of, comparison, place = rest.split("/", 2)
            if systems.get(comparison) == arm:
                found[f"{measure}/{of}/{place}"] = value
    return found


def _measures(figures: Json) -> list[str]:
    return [name for name in figures if name.startswith("pass@") or name == "apr"]


def _add(found: dict[str, Any], name: str, interval: Json | None) -> None:
    if interval is not None:
        found |= {name: interval["value"], f"{name}/low": interval["low"], f"{name}/high": interval["high"]}


WIDE = 110
"""Columns of a terminal in which a figure and its interval fit on one line."""


def results_table(summary: Json, width: int = WIDE) -> Table:
    """The short table at the end of a run: one line an arm and temperature, in percent, with 95 % intervals (below the
    figure where the terminal is narrow); Collaboration Gain in points of pass@1, as in the report's headline."""
    from rich import box
    from rich.table import Table

    deepest = str(max((int(k) for arm in summary["arms"].values() for k in _ks(arm)), default=1))
    columns = ["1"] if deepest == "1" else ["1", deepest]
    narrow = width < WIDE
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0) if narrow else (0, 1))
    for heading in ("arm",) if narrow else ("arm", "T"):
        table.add_column(heading, no_wrap=True)
    for heading in (*(f"pass@{k}" for k in columns), "APR", "CG" if narrow else "CG, points"):
        table.add_column(heading, justify="right", no_wrap=True)
    by_team = {one["system"]: one for one in summary["collaboration_gain"].values()}
    for temperature in summary["temperatures"]:
        for arm, one in summary["arms"].items():
            figures = one["temperatures"].get(str(temperature))
            if figures is None:
                continue
            gain = by_team.get(arm, {"temperatures": {}})["temperatures"].get(str(temperature))
            shown = [percent(figures["pass@k"].get(k)) for k in columns] + [percent(figures["apr"])]
            shown.append(percent(gain["pass@1"]["cg_abs"], sign=True) if gain else "")
            if narrow:
                stacked = [cell.replace(" [", "\n[").replace(", ", ",") for cell in shown]
                table.add_row(f"{arm}\nT {temperature}", *stacked)
            else:
                table.add_row(arm, str(temperature), *shown)
        table.add_section()
    return table


def _ks(arm: Json) -> set[str]:
    return {k for figures in arm["temperatures"].values() for k in figures["pass@k"]}


def percent(interval: Json | None, sign: bool = False) -> str:
    """``41.2 [37.9, 44.6]``, in percent; "undefined" without a value, and an open bound as "?"."""
    if interval is None or interval["value"] is None:
        return "undefined"
    bounds = [f"{100 * interval[bound]:.1f}" if interval[bound] is not None else "?" for bound in ("low", "high")]
    return f"{100 * interval['value']:{'+' if sign else ''}.1f} [{bounds[0]}, {bounds[1]}]"
