"""*How far to trust this*: the limits of a report, as sentences with their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corecode.arms import ARMS
from corecode.evaluation.report.words import at_temperature, count, headline_pair, percent

Json = dict[str, Any]


@dataclass(frozen=True)
class Limit:
    """One limit: what it is about, what holds here, and whether it asks for attention."""

    title: str
    text: str
    warning: bool = False


def trust(summary: Json, temperature: str) -> list[Limit]:
    """All limits of a run, the ones that every report states and the ones that hold here."""
    return [
        _counts(summary),
        _detectable(summary, temperature),
        _protocol(summary),
        _intervals(summary),
        _seeds(summary),
        _missing(summary),
        _lost_in_training(summary),
        _truncated(summary, temperature),
        _flagged(summary),
        Limit(
            "What Collaboration Gain alone says",
            "It measures how much this Coder depends on its helpers. It grows when the helpers get better, and also"
            " when the Coder gets worse on its own. Only a single model that was trained with the team's whole budget"
            " says whether two models pay more than one"
            + (
                "; those rows stand in the table above."
                if any(arm.startswith("single") for arm in summary["arms"])
                else ". This run did not train one."
            ),
            warning=not any(arm.startswith("single") for arm in summary["arms"]),
        ),
    ]


def _counts(summary: Json) -> Limit:
    problems = summary["problems"]
    text = (
        f"{count(problems['evaluated'], 'test problem')} with {count(problems['tests'], 'test')},"
        f" {count(summary['samples_per_problem'], 'sample')} each, {count(len(summary['arms']), 'arm')},"
        f" {count(len(summary['temperatures']), 'temperature')}. Training never saw"
        " these problems."
    )
    skipped = problems["test"] - problems["evaluated"]
    if skipped:
        text += f" {skipped:,} further test problems were not evaluated in any arm."
    return Limit("Problems", text, warning=bool(skipped))


def _detectable(summary: Json, temperature: str) -> Limit:
    title = "Smallest difference this could show"
    pair = headline_pair(summary, temperature)
    if pair is None:
        return Limit(title, "No pair of arms was compared.", warning=True)
    at = pair[1]["temperatures"][temperature]
    gain = at["pass@1"]["cg_abs"]
    if gain["detectable"] is None:
        return Limit(title, "One problem alone shows no difference.", warning=True)
    if gain["detectable"] == 0:
        text = "The two arms differ alike on every problem, so these problems do not say how much a difference varies."
        return Limit(title, text, warning=True)
    small = abs(gain["value"]) < gain["detectable"]
    text = (
        f"With {count(at['problems'], 'problem')}, a true Collaboration Gain in pass@1 of"
        f" {100 * gain['detectable']:.1f} points is found with 80 % power (two-sided test at 5 %). Smaller ones are"
        " mostly missed."
    )
    if small:
        text += " The gain measured here is smaller than that."
    return Limit(title, text, warning=small)


def _protocol(summary: Json) -> Limit:
    if summary["protocol"] == "paper":
        text = (
            "Protocol “paper”: one thought a problem, several programs for it. pass@k with k > 1 is therefore the"
            " chance of one right program in k given that one thought, and not comparable with k independent attempts."
        )
    else:
        text = "Protocol “independent”: every sample has a thought and a program of its own."
    if any(arm in ARMS and ARMS[arm].prompted for arm in summary["arms"]):
        text += " Prompt-only teams make every attempt from the beginning."
    return Limit("What pass@k means here", text)


def _intervals(summary: Json) -> Limit:
    return Limit(
        "Intervals",
        f"95 % percentile bootstrap over problems, all samples of a problem and both compared arms drawn together,"
        f" {summary['bootstrap_resamples']:,} resamples. An interval that holds 0 means: not distinguishable from no"
        " difference with these problems. p-values are adjusted by Holm's method over all gains of a temperature.",
    )


def _seeds(summary: Json) -> Limit:
    return Limit(
        "Seeds",
        f"One training run, seed {summary['seed']}. The intervals cover the choice of problems, not the luck of"
        " training: another seed trains other models. Pool several runs before a general claim.",
        warning=True,
    )


def _missing(summary: Json) -> Limit:
    lines: list[str] = []
    for arm, one in summary["arms"].items():
        for temperature, at in one["temperatures"].items():
            if at["missing"]["samples"]:
                bounds = at["pass@1_bounds"]
                span = (
                    f", pass@1 lies between {percent(bounds['missing_failed'])} and {percent(bounds['missing_passed'])}"
                    if bounds
                    else ""
                )
                lines.append(f"{arm} at {temperature}: {at['missing']['samples']} missing{span}")
    if not lines:
        return Limit("Missing results", "None: every sample that was asked for has a verdict.")
    return Limit(
        "Missing results",
        "A missing sample counts neither as solved nor as failed. If all of them had failed, or all had passed: "
        + "; ".join(lines)
        + ".",
        warning=True,
    )


def _lost_in_training(summary: Json) -> Limit:
    lost = sum(
        int(value)
        for phase in summary["training"].values()
        for name, points in phase["series"].items()
        if name == "infrastructure/lost"
        for _, value in points
    )
    if not lost:
        return Limit("Losses in training", "None: every training sample got its reward from an execution.")
    return Limit(
        "Losses in training",
        f"{lost:,} training samples had no verdict, because infrastructure failed; they got no reward and were masked.",
        warning=True,
    )


def _truncated(summary: Json, temperature: str) -> Limit:
    shares = {arm: at["truncated"] / at["samples"] for arm, at in at_temperature(summary, temperature) if at["samples"]}
    worst = max(shares, key=lambda arm: shares[arm], default=None)
    if worst is None or shares[worst] == 0:
        return Limit("Cut completions", "No completion reached its token limit.")
    return Limit(
        "Cut completions",
        f"Up to {percent(shares[worst])} of the samples of an arm ({worst}) were cut at the token limit. They are"
        " judged as they are and counted in the table.",
        warning=shares[worst] > 0.02,
    )


def _flagged(summary: Json) -> Limit:
    flagged: dict[str, list[str]] = summary["problems"]["flagged"]
    if not flagged:
        return Limit("Flagged problems", "None.")
    first = ", ".join(f"{problem} ({', '.join(flags)})" for problem, flags in list(flagged.items())[:8])
    more = f" and {len(flagged) - 8} more" if len(flagged) > 8 else ""
    return Limit(
        "Flagged problems",
        f"{len(flagged)} problems carry a flag and count like the others; on a problem with several answers and no"
        f" checker a right program can be judged wrong: {first}{more}.",
        warning=True,
    )
