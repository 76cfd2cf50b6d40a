"""``corecode rerun``: a past run again, from its record in MLflow alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.errors import UserError
from pipelines.cli_run import execute, say
from pipelines.tracking import Tracking, past_store

SHOWN = 5
"""Figures that are listed when a digest differs."""
_NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Past:
    """What MLflow holds of a run."""

    name: str
    profile: Profile
    environment: Mapping[str, Any]
    problems: Mapping[str, str]
    """Digests of its problem files, by the name of the data set."""
    figures: Mapping[str, Any] | None
    """``metrics.json`` of its report; None when it never came to one."""
    digest: str | None
    """The digest of its figures."""


def repeat(run: str, force: bool) -> int:
    """Run it again; 0 when its digest came out again (or it has none), 1 when another did.

    Raises:
        UserError: there is no such run, or its record is not enough.
        InfrastructureError: MLflow does not answer.
    """
    from pipelines import provenance
    from pipelines.preflight import check_inputs

    past = recall(past_store(), run)
    say(f"again: {past.name}")
    check_inputs(past.profile)
    for difference in differences(past.environment, provenance.environment(past.profile.model)):
        say(f"warning: {difference}")
    code, folder = execute(past.profile, None, force)
    return code or _verdict(past, folder)


def recall(tracking: Tracking, run: str) -> Past:
    """The record of a run, by its id or its name.

    Raises:
        UserError: there is no such run, or it left no profile.
        InfrastructureError: MLflow does not answer.
    """
    found = _find(tracking, run)
    stored = _artifact(tracking, found.info.run_id, "profile.json")
    if stored is None:
        raise UserError(
            f"run {found.info.run_name} cannot be repeated: MLflow holds no profile.json of it; use corecode run"
        )
    try:
        profile = Profile.model_validate(stored)
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"run {found.info.run_name} cannot be repeated: its profile is of another version ({reason})"
        ) from error
    prefix = "corecode.dataset/"
    summary = _artifact(tracking, found.info.run_id, "report/summary.json") or {}
    return Past(
        found.info.run_name,
        profile,
        _artifact(tracking, found.info.run_id, "environment.json") or {},
        {name.removeprefix(prefix): value for name, value in found.data.tags.items() if name.startswith(prefix)},
        _artifact(tracking, found.info.run_id, "report/metrics.json"),
        summary.get("digests", {}).get("metrics"),
    )


def _find(tracking: Tracking, run: str) -> Any:
    missing = UserError(f"there is no run {run} in MLflow at {tracking.shown}; 'corecode runs' lists all")
    if not _NAME.fullmatch(run) or not tracking.exists:
        raise missing
    for field in ("run_id", "run_name"):
        wanted = f"attributes.{field} = '{run}' AND tags.`corecode.kind` = 'run'"
        with tracking.answers():
            found = tracking.client.search_runs([tracking.experiment], wanted, max_results=1)
        if found:
            return found[0]
    raise missing


def _artifact(tracking: Tracking, run_id: str, name: str) -> dict[str, Any] | None:
    """A JSON artifact of a run; None when there is none.

    Raises:
        UserError: it is damaged.
        InfrastructureError: MLflow does not answer.
    """
    folder, _, _ = name.rpartition("/")
    with tracking.answers():
        if name not in {one.path for one in tracking.client.list_artifacts(run_id, folder or None)}:
            return None
        text = Path(tracking.client.download_artifacts(run_id, name)).read_bytes()
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise UserError(f"the file {name} that MLflow holds of run {run_id} is damaged ({error})") from error


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """One sentence for each difference of two environments (``pipelines.provenance.environment``) that can change a
    result."""
    if not then.keys() >= {"git", "code", "versions", "packages", "machine"}:
        return ["MLflow holds no whole environment.json of it: nothing is known of its code, packages and machine"]
    model = [] if then.get("model") == now["model"] else ["the files of the base model are not the same"]
    return [*_code(then, now), *model, *_packages(then, now), *_machine(then["machine"], now["machine"])]


def _code(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    commits = [one["git"].get("commit", "unknown") for one in (then, now)]
    if commits[0] != commits[1]:
        found.append(f"the git commit was {commits[0][:12]} and is {commits[1][:12]} now")
    found += [
        f"the git tree {verb} uncommitted changes"
        for one, verb in ((then, "had"), (now, "has"))
        if one["git"].get("dirty") == "true"
    ]
    if then["code"] != now["code"]:
        return [*found, "the code that jobs run is not the same"]
    return [f"{sentence} (the code that jobs run is the same)" for sentence in found]


def _packages(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    def changed(kind: str) -> list[str]:
        return [name for name in sorted({*then[kind], *now[kind]}) if then[kind].get(name) != now[kind].get(name)]

    absent = "not installed"
    decisive = changed("versions")
    found = [
        f"{name} was {then['versions'].get(name, absent)} and is {now['versions'].get(name, absent)} now"
        for name in decisive
    ]
    others = [name for name in changed("packages") if name.lower() not in decisive]
    if others:
        found.append(
            f"{len(others)} other packages differ: {', '.join(others[:SHOWN])}{', ...' * (len(others) > SHOWN)}"
        )
    return found


def _machine(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"the {shown} was {then.get(name)} and is {now.get(name)} now:"
        " last bits of sums may differ, and so what is sampled"
        for name, shown in (("cpu", "CPU"), ("platform", "platform"))
        if then.get(name) != now.get(name)
    ]


def _verdict(past: Past, folder: Path) -> int:
    from pipelines.settings import read_stages

    report = folder / "collaboration_gain"
    digest = json.loads((report / "summary.json").read_text(encoding="utf-8"))["digests"]["metrics"]
    reused = sorted({origin for stage in read_stages(folder).values() for origin in stage.get("reused", {}).values()})
    if reused:
        say(f"jobs were reused from {', '.join(reused)}: --force trains them again")
    if past.digest is None:
        say(f"{past.name} never came to a report: there is no digest to compare with")
        return 0
    if digest == past.digest:
        say(f"same digest as {past.name}: {digest}")
        return 0
    say(f"error: the digest differs from that of {past.name}: {digest} is not {past.digest}")
    now = _problem_digests(past.profile, folder)
    other = [name for name, value in past.problems.items() if now.get(name) != value]
    if other:
        say(f"  other problems: {', '.join(other)}")
    for line in _changed(past.figures or {}, json.loads((report / "metrics.json").read_text(encoding="utf-8"))):
        say(f"  {line}")
    if past.profile.execution.device != "cpu":
        say(f"  on {past.profile.execution.device} the order of sums is not fixed: only a CPU repeats a run bit by bit")
    return 1


def _problem_digests(profile: Profile, folder: Path) -> dict[str, str]:
    from pipelines.recording import problem_files

    return {name: digest for name, digest, _, _ in problem_files(profile, folder)}


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The first figures that differ."""
    from pipelines.tracking import flat

    old, new = flat(then), flat(now)
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    lines = [f"{name}: {old.get(name)} -> {new.get(name)}" for name in names[:SHOWN]]
    return [*lines, f"{len(names) - SHOWN} more figures differ"] if len(names) > SHOWN else lines
