"""Numbers and findings in words, the same in the HTML page, in the markdown file and in ``summary.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from corecode.arms import ARMS
from corecode.evaluation.collaboration import CG_PAIRS

Json = dict[str, Any]

LONGEST_REASON = 80
"""Characters of the reason for a missing result that the warning quotes."""
FEW_ARMS = 4
"""Arms whose scores fit into a sentence."""
LABELS = {
    "base/alone": "Coder alone, untrained",
    "base/team": "Planner + Coder, untrained",
    "sft/alone": "Coder alone, after warm-up",
    "sft/team": "Planner + Coder, after warm-up",
    "planner-grpo/team": "Planner + Coder, after Planner GRPO",
    "coder-grpo-only/alone": "Coder alone, Coder GRPO only",
    "coder-grpo-only/team": "Planner + Coder, Coder GRPO only",
    "final/alone": "Coder alone, after both phases",
    "final/team": "Planner + Coder, after both phases",
    "single-direct/sft": "One model, code only, after warm-up",
    "single-direct/final": "One model, code only, whole budget",
    "single-thought/sft": "One model, thought and code, after warm-up",
    "single-thought/final": "One model, thought and code, whole budget",
}


def label(arm: str) -> str:
    """An arm as a reader calls it."""
    known = ARMS.get(arm)
    return LABELS.get(arm) or (known.description if known else arm)


def kind(arm: str) -> str:
    """``team``, ``alone`` (a Coder without its helpers) or ``single`` (one model made to work on its own)."""
    known = ARMS.get(arm)
    if known and len(known.roles) > 1:
        return "team"
    return "single" if arm.startswith("single") else "alone"


def signed(value: float, digits: int = 1) -> str:
    """``+4.2`` or ``−4.2``, with a real minus sign; a rounded zero has no sign."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return f"{'+' if value > 0 else '−'}{text}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share as ``71.4 %``, which no line break tears apart."""
    return "–" if value is None else f"{100 * value:.{digits}f}\N{NO-BREAK SPACE}%"


def count(number: int, thing: str) -> str:
    """``1 problem``, ``1,234 problems``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def points(value: float | None) -> str:
    """A difference of shares in percentage points: ``+4.2``."""
    return "–" if value is None else signed(100 * value)


def bounds(interval: Mapping[str, float | None], sign: bool = False) -> str:
    """An interval of shares in percent: ``[68.0, 74.7]``, with signs for differences; an absent bound is open."""

    def one(value: float | None, open_end: str) -> str:
        if value is None:
            return open_end
        return signed(100 * value) if sign else f"{100 * value:.1f}"

    return f"[{one(interval['low'], '−∞')}, {one(interval['high'], '∞')}]"


def unbroken(text: str) -> str:
    """The text with intervals that no line break tears apart."""
    return re.sub(r"\[[^\[\]]*\]", lambda found: found[0].replace(" ", "\N{NO-BREAK SPACE}"), text)


def p_value(value: float | None) -> str:
    """A p-value with three digits."""
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def direction(interval: Mapping[str, float | None]) -> str:
    """``up`` or ``down`` when the interval lies on one side of 0, else ``unclear``."""
    if interval["low"] is not None and interval["low"] > 0:
        return "up"
    if interval["high"] is not None and interval["high"] < 0:
        return "down"
    return "unclear"


def measure(name: str, protocol: str) -> str:
    """A measure with what it is a measure of."""
    if name == "apr":
        return "APR (macro)"
    given = " (given one thought)" if protocol == "paper" and name != "pass@1" else ""
    return name + given


def temperature_of_headline(figures: Json) -> str:
    """The lowest temperature: closest to how the models would be used."""
    return str(figures["temperatures"][0])


def headline_pair(figures: Json, temperature: str) -> tuple[str, Json] | None:
    """The CG pair of the headline: after the most training among those evaluated."""
    for name in ("final", *(pair.name for pair in reversed(CG_PAIRS))):
        found = figures["collaboration_gain"].get(name)
        if found and temperature in found["temperatures"]:
            return name, found
    return None


def headline(figures: Json) -> Json:
    """The finding in plain sentences.

    Returns:
        ``sentence`` (the finding with its numbers), ``support`` (further sentences), ``temperature``, and ``outage``
        (a warning that belongs before everything else, or None).
    """
    temperature = temperature_of_headline(figures)
    found = headline_pair(figures, temperature)
    support: list[str] = []
    if found is None:
        sentence, support = _without_pair(figures, temperature)
    else:
        sentence, support = _finding(*found, temperature)
    support += _training(figures, temperature) + singles(figures, temperature)
    return {"sentence": sentence, "support": support, "temperature": temperature, "outage": outage(figures)}


def _without_pair(figures: Json, temperature: str) -> tuple[str, list[str]]:
    """What a run without a comparison of a Coder with and without its Planner says: its scores, or nothing."""
    pairs = [pair for pair in CG_PAIRS if pair.system in figures["arms"] and pair.baseline in figures["arms"]]
    reason = (
        "no problem has all results both of a team and of its Coder alone"
        if pairs
        else "no team and its Coder alone were both evaluated"
    )
    scores = [
        f"{label(arm)}: {percent(one['value'])} {bounds(one)} of {count(at['problems'], 'problem')} at the first try"
        for arm, at in at_temperature(figures, temperature)
        if (one := at["pass@k"].get("1"))
    ]
    support = ["; ".join(scores) + "."] if 0 < len(scores) <= FEW_ARMS else []
    prompted = [
        f"{one['meaning']}: {points(at['pass@1']['value'])} points {bounds(at['pass@1'], True)}."
        for name, one in figures["gains"].items()
        if name in figures["arms"] and (at := one["temperatures"].get(temperature))
    ]
    support += prompted if len(prompted) <= FEW_ARMS else []
    return f"No Collaboration Gain can be stated: {reason}.", support


def at_temperature(figures: Json, temperature: str) -> list[tuple[str, Json]]:
    """Arms with their figures at one temperature, those that were evaluated there."""
    found = [(arm, one["temperatures"].get(temperature)) for arm, one in figures["arms"].items()]
    return [(arm, at) for arm, at in found if at is not None]


def _finding(name: str, found: Json, temperature: str) -> tuple[str, list[str]]:
    at = found["temperatures"][temperature]
    one, gain = at["pass@1"], at["pass@1"]["cg_abs"]
    who = "After training, the Coder with its Planner" if name == "final" else "With its Planner, the Coder"
    sentence = (
        f"{who} solves {percent(one['team'])} of {count(at['problems'], 'unseen problem')} at the first try. Alone, the"
        f" same Coder solves {percent(one['alone'])}."
    )
    verdict = {
        "up": "Working together pays for this Coder",
        "down": "The Planner hurts this Coder",
        "unclear": "Chance alone could explain this difference",
    }[direction(gain)]
    relative = one["cg"]
    ratio = (
        "undefined in relative terms, since the Coder alone solves nothing"
        if relative is None
        else f"{signed(100 * relative['value'], 0)}\N{NO-BREAK SPACE}% relative to the Coder alone"
    )
    text = f"{verdict}: Collaboration Gain {points(gain['value'])} points, 95 % interval {bounds(gain, True)}, {ratio}."
    if name != "final":
        text += f" (Measured {found['meaning']}.)"
    return sentence, [text]


def _training(figures: Json, temperature: str) -> list[str]:
    total = _gain(figures, "total", temperature)
    if total is None:
        return []
    text = (
        f"Reinforcement learning moved the team from {percent(total['baseline'])} to {percent(total['system'])}"
        f" ({points(total['value'])} points {bounds(total, True)})"
    )
    phases = [
        f"{title} {points(one['value'])} {bounds(one, True)}"
        for title, one in (
            ("Planner GRPO", _gain(figures, "planner_phase", temperature)),
            ("Coder GRPO", _gain(figures, "coder_phase", temperature)),
        )
        if one is not None
    ]
    return [text + (": " + ", ".join(phases) if phases else "") + "."]


def singles(figures: Json, temperature: str) -> list[str]:
    """The team against one model with the same budget, a sentence for each such model."""
    sentences: list[str] = []
    for name, who in (
        ("over_single_direct", "one model that writes code directly"),
        ("over_single_thought", "one model that writes thought and code itself"),
    ):
        gain = _gain(figures, name, temperature)
        if gain is None:
            continue
        word = {"up": "beats", "down": "loses to", "unclear": "is not clearly different from"}[direction(gain)]
        sentences.append(
            f"With the same budget, the team {word} {who} ({percent(gain['baseline'])}): {points(gain['value'])} points"
            f" {bounds(gain, True)}."
        )
    return sentences


def at_other_temperatures(figures: Json, temperature: str) -> str | None:
    """The Collaboration Gain of the headline at the temperatures that the headline is not about."""
    pair = headline_pair(figures, temperature)
    others = [] if pair is None else [(t, at) for t, at in pair[1]["temperatures"].items() if t != temperature]
    parts = [
        f"{points(at['pass@1']['cg_abs']['value'])} points {bounds(at['pass@1']['cg_abs'], True)} at temperature {t}"
        for t, at in others
    ]
    return f"The gain is {', '.join(parts)}." if parts else None


def _gain(figures: Json, name: str, temperature: str) -> Json | None:
    gain = figures["gains"].get(name)
    if not gain or temperature not in gain["temperatures"]:
        return None
    return gain["temperatures"][temperature]["pass@1"]


def outage(figures: Json) -> str | None:
    """The warning that results are missing because infrastructure failed; None when nothing is missing."""
    cells = [(arm, t, at) for arm, one in figures["arms"].items() for t, at in one["temperatures"].items()]
    missing = sum(at["missing"]["samples"] for _, _, at in cells)
    absent = figures["not_evaluated"]
    if not missing and not absent:
        return None
    parts: list[str] = []
    if missing:
        everything = missing + sum(at["samples"] for _, _, at in cells)
        reasons: dict[str, int] = {}
        for _, _, at in cells:
            for reason, count in at["missing"]["reasons"].items():
                short = reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + "…"
                reasons[short] = reasons.get(short, 0) + count
        why = ", ".join(f"{r}: {c}" for r, c in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:4])
        arms = sum(1 for _, _, at in cells if at["missing"]["samples"])
        parts.append(
            f"{missing:,} of {everything:,} samples ({100 * missing / everything:.1f} %) have no result, because"
            f" infrastructure failed ({why}). They count neither as solved nor as failed. {arms} of {len(cells)} rows"
            " of the table below are affected; their problems with a missing sample are left out, on both sides of"
            " every comparison."
        )
        parts += _with_everything(figures)
    if absent:
        parts.append(f"Not evaluated at all: {', '.join(absent)}.")
    return " ".join(parts)


def _with_everything(figures: Json) -> list[str]:
    """What pass@1 would be with every missing sample counted: leaving problems out can raise a mean."""
    found = [
        f"{arm} between {percent(span['missing_failed'])} and {percent(span['missing_passed'])}"
        f" (shown: {percent(at['pass@k']['1']['value'])})"
        for arm, at in at_temperature(figures, temperature_of_headline(figures))
        if at["missing"]["samples"] and (span := at["pass@1_bounds"])
    ]
    if not found:
        return []
    more = f", and {count(len(found) - FEW_ARMS, 'further arm')}" if len(found) > FEW_ARMS else ""
    listed = "; ".join(found[:FEW_ARMS])
    return [
        f"With every missing sample counted, as failed or as solved, pass@1 is {listed}{more}.",
        *_gain_span(figures),
    ]


def _gain_span(figures: Json) -> list[str]:
    """The Collaboration Gain of the headline in the worst and in the best case of what is missing."""
    temperature = temperature_of_headline(figures)
    pair = headline_pair(figures, temperature)
    if pair is None:
        return []
    team, alone = (
        figures["arms"][pair[1][side]]["temperatures"][temperature]["pass@1_bounds"] for side in ("system", "baseline")
    )
    least, most = team["missing_failed"] - alone["missing_passed"], team["missing_passed"] - alone["missing_failed"]
    if least == most:
        return []
    shown = pair[1]["temperatures"][temperature]["pass@1"]["cg_abs"]["value"]
    return [
        f"So the Collaboration Gain in pass@1 is between {points(least)} and {points(most)} points"
        f" (shown: {points(shown)})."
    ]
