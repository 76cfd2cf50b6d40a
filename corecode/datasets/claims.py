"""Claims about the problem files of a run, checked from the files themselves."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from corecode.datasets.decontaminate import decontaminate
from corecode.evaluation.claims import Claim
from corecode.problems import Problem, read_split

SPLITS = ("sft", "rl", "validation", "test")
MOST_REFUSED = 0.1
"""Share of a source's records above which it is not the data that it was taken for."""


def training_data_is_decontaminated(run: Path) -> Claim:
    """No problem of the warm-up, of reinforcement learning or of validation matches a test problem.

    The files that training reads are compared again; what was removed before comes from ``problems.json``.
    """
    _, found = decontaminate(_splits(run))
    removed = _summary(run)["decontamination"]["removed"]
    compared = sum(found.compared.values())
    if found.removed:
        first = found.removed[0]
        said = f"{first.problem} of {first.split} matches {first.test_problem} ({first.reason})"
        return Claim(False, f"{len(found.removed)} training problems match a test problem: {said}", {})
    reasons = Counter(match["reason"] for match in removed)
    why = f" ({', '.join(f'{count} {reason}' for reason, count in sorted(reasons.items()))})" if reasons else ""
    return Claim(
        True,
        f"none of {compared} training problems matches one of {found.against} test problems; "
        f"{len(removed)} that did were removed{why}",
        {"compared": compared, "against": found.against, "removed": len(removed)},
    )


def problems_are_validated(run: Path) -> Claim:
    """Ids are unique in every split, no problem with a flag earns rewards, and nearly all records of the sources could
    be read."""
    splits = _splits(run)
    validation = _summary(run)["validation"]
    faults: list[str] = []
    for split, problems in splits.items():
        repeated = [name for name, count in Counter(problem.id for problem in problems).items() if count > 1]
        faults += [f"the id {name!r} occurs twice in {split}" for name in repeated[:1]]
    faults += [
        f"{name}: {len(source['refused'])} of {source['records']} records were refused"
        for name, source in validation["sources"].items()
        if len(source["refused"]) > MOST_REFUSED * source["records"]
    ]
    flagged = {split: sum(bool(problem.flags) for problem in problems) for split, problems in splits.items()}
    if splits["rl"] and flagged["rl"] == len(splits["rl"]):
        faults.append("every problem of rl has a flag, so none earns rewards")
    refused = sum(len(source["refused"]) for source in validation["sources"].values())
    broken = sum(len(issues) for issues in validation["broken_tests"].values())
    total = sum(len(problems) for problems in splits.values())
    figures: dict[str, float] = {
        "problems": total,
        "flagged": sum(flagged.values()),
        "refused": refused,
        "broken_tests": broken,
    }
    sound = f"{total} problems are sound; {refused} records refused, {sum(flagged.values())} problems flagged"
    return Claim(not faults, faults[0] if faults else f"{sound}, {broken} of them for broken tests", figures)


def _splits(run: Path) -> dict[str, list[Problem]]:
    return {split: read_split(run / "problems" / f"{split}.jsonl") for split in SPLITS}


def _summary(run: Path) -> dict[str, Any]:
    return json.loads((run / "problems" / "problems.json").read_text(encoding="utf-8"))
