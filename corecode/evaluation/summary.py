"""The figures of a run as plain data: what ``summary.json`` and ``metrics.json`` hold (docs/summary.md).

One tree is built. ``metrics.json`` is the same tree without what cannot repeat bit for bit: seconds, memory, and where
and with what it ran. So equal seeds give equal bytes, and every figure of one file is the figure of the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from corecode.arms import ARMS
from corecode.config import Profile
from corecode.evaluation.collaboration import (
    CG_PAIRS,
    GAINS,
    Comparison,
    PairedArms,
    collaboration_gain,
    measures,
    pair,
    single_sample_p_value,
)
from corecode.evaluation.complexity import ComplexityCounter
from corecode.evaluation.curves import Phase
from corecode.evaluation.failures import outcome_counts
from corecode.evaluation.metrics import (
    average_pass_ratio_micro,
    common_solved,
    pass_at_k_per_problem,
    ratio_bins,
    reported_ks,
)
from corecode.evaluation.rows import ArmSamples, SampleRow, Samples
from corecode.evaluation.statistics import (
    Bootstrap,
    Difference,
    Floats,
    holm_by_name,
    interval_json,
    paired_difference,
    percentile_interval,
    rounded,
)
from corecode.problems import Problem

Json = dict[str, Any]

SCHEMA = 1
NOT_IN_METRICS = ("cpu_s", "peak_mb", "stage_seconds", "provenance", "digests", "run")
"""Keys of ``summary.json`` that ``metrics.json`` leaves out, at any depth."""
COSTS: dict[str, Callable[[SampleRow], float | None]] = {
    "cpu_s": lambda row: row.cpu_s,
    "peak_mb": lambda row: row.peak_mb,
    "steps": lambda row: row.steps,
}


def build_figures(profile: Profile, samples: Samples, problems: Sequence[Problem], phases: Sequence[Phase]) -> Json:
    """Every figure of a run except seconds of stages, digests and provenance."""
    bootstrap = Bootstrap(profile.evaluation.bootstrap, profile.seed)
    counter = ComplexityCounter()
    return {
        "schema": SCHEMA,
        "profile": profile.name,
        "seed": profile.seed,
        "protocol": profile.evaluation.protocol,
        "samples_per_problem": samples.n,
        "bootstrap_resamples": bootstrap.resamples,
        "temperatures": samples.temperatures,
        "problems": _problem_counts(samples, problems),
        "not_evaluated": [arm for arm in profile.evaluation.arms if arm not in samples.arms],
        "arms": {arm: _arm(samples, arm, profile.evaluation.protocol, bootstrap, counter) for arm in samples.arms},
        "collaboration_gain": _comparisons(samples, CG_PAIRS, bootstrap, _gain_json),
        "gains": _with_holm(_comparisons(samples, GAINS, bootstrap, _difference_json)),
        "efficiency": _comparisons(samples, (*CG_PAIRS, *GAINS), bootstrap, _efficiency_json),
        "benchmarks": _benchmarks(samples, problems, bootstrap),
        "training": {
            phase.name: {
                "steps": phase.steps,
                "series": {k: [[s, rounded(v)] for s, v in points] for k, points in phase.series.items()},
            }
            for phase in phases
        },
    }


def metrics_text(figures: Json) -> str:
    """``metrics.json``: the repeatable part of the figures, one canonical text."""
    return json.dumps(_without(figures, NOT_IN_METRICS), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _without(tree: Any, keys: Sequence[str]) -> Any:
    if isinstance(tree, dict):
        return {k: _without(v, keys) for k, v in cast("Json", tree).items() if k not in keys}
    if isinstance(tree, list):
        return [_without(item, keys) for item in cast("list[Any]", tree)]
    return tree


def _problem_counts(samples: Samples, problems: Sequence[Problem]) -> Json:
    evaluated = set(samples.problem_ids)
    return {
        "test": len(problems),
        "evaluated": len(evaluated),
        "tests": sum(len(p.tests) for p in problems if p.id in evaluated),
        "flagged": {p.id: list(p.flags) for p in problems if p.flags and p.id in evaluated},
        "sources": sorted({p.source for p in problems if p.source and p.id in evaluated}),
    }


def _arm(samples: Samples, arm: str, protocol: str, bootstrap: Bootstrap, counter: ComplexityCounter) -> Json:
    known = ARMS.get(arm)
    found = [(t, samples.get(arm, t)) for t in samples.temperatures]
    return {
        "description": known.description if known else arm,
        "roles": list(known.roles) if known else [],
        "temperatures": {
            # A prompt-only team makes separate attempts, whatever the protocol of the others.
            str(t): _arm_figures(one, "independent" if known and known.prompted else protocol, bootstrap, counter)
            for t, one in found
            if one is not None
        },
    }


def _arm_figures(arm: ArmSamples, protocol: str, bootstrap: Bootstrap, counter: ComplexityCounter) -> Json:
    scored = list(arm.scored())
    thoughts = [row.thought_valid for row in scored if row.thought_valid is not None]
    return {
        **_scores(arm, bootstrap),
        "samples": len(scored),
        "missing": {"samples": arm.missing_samples, "reasons": arm.missing_reasons()},
        "truncated": sum(row.truncated for row in scored),
        "thoughts": {
            "samples": len(thoughts),
            "valid": sum(thoughts),
            "validity": rounded(sum(thoughts) / len(thoughts)) if thoughts else None,
        },
        "outcomes": outcome_counts(scored),
        "pass_ratio_bins": _ratio_bins(scored),
        "tokens": _tokens(scored, arm.n, protocol),
        "complexity": _complexity(scored, counter),
        "cost_of_accepted": _costs([row for row in scored if row.accepted]),
    }


def _scores(arm: ArmSamples, bootstrap: Bootstrap) -> Json:
    """pass@k and APR over the complete problems, and pass@1 for the two extremes of what is missing."""
    problems = int(arm.complete_P.sum())
    if problems == 0:
        return {"problems": 0, "pass@k": {}, "apr": None, "apr_micro": None, "pass@1_bounds": None}
    correct_P = arm.correct_P()
    ks = reported_ks(arm.n)
    columns: list[Floats] = [pass_at_k_per_problem(correct_P, arm.n, k) for k in ks]
    columns.append(measures(arm)["apr"])
    values_PM = np.stack(columns, axis=1)
    means_BM = bootstrap.means(values_PM)
    intervals = [
        interval_json(percentile_interval(float(values_PM[:, m].mean()), means_BM[:, m])) for m in range(len(columns))
    ]
    rows = [row for problem in arm.complete() for row in problem]
    everything = arm.n * len(arm.problem_ids)
    accepted = sum(row.accepted for row in arm.scored())
    return {
        "problems": problems,
        "pass@k": {str(k): intervals[i] for i, k in enumerate(ks)},
        "apr": intervals[-1],
        "apr_micro": rounded(
            average_pass_ratio_micro(np.array([r.passed for r in rows]), np.array([r.total for r in rows]))
        ),
        "pass@1_bounds": {
            "missing_failed": rounded(accepted / everything),
            "missing_passed": rounded((accepted + arm.missing_samples) / everything),
        },
    }


def _ratio_bins(scored: Sequence[SampleRow]) -> list[int]:
    return ratio_bins(np.array([r.passed for r in scored], int), np.array([r.total for r in scored], int))


def _tokens(scored: Sequence[SampleRow], n: int, protocol: str) -> Json:
    """Mean tokens by role of one attempt (helpers and program), and of a problem with all its n samples.

    Protocol ``paper`` writes one thought for all programs of a problem, so a helper's tokens count once there.
    """
    roles = list(dict.fromkeys(role for row in scored for role in row.tokens))
    by_role = {role: sum(row.tokens.get(role, 0) for row in scored) / len(scored) for role in roles}
    writer = {"coder", "solver"}
    times = {role: n if role in writer or protocol == "independent" else 1 for role in roles}
    return {
        "by_role": {role: rounded(tokens, 3) for role, tokens in by_role.items()},
        "per_attempt": rounded(sum(by_role.values()), 3),
        "per_problem": rounded(sum(tokens * times[role] for role, tokens in by_role.items()), 3),
    }


def _complexity(scored: Sequence[SampleRow], counter: ComplexityCounter) -> Json:
    found = counter.summary(row.program for row in scored if row.program is not None)
    return {
        "parsed": found.parsed,
        "unparsable": found.unparsable,
        "mean": rounded(found.mean, 3),
        "median": found.median,
    }


def _costs(rows: Sequence[SampleRow]) -> Json:
    """Mean cost of the accepted programs; a cost that was not measured for each of them is left out."""
    costs: Json = {"programs": len(rows)}
    for name, cost in COSTS.items():
        values = [value for row in rows if (value := cost(row)) is not None]
        if values and len(values) == len(rows):
            costs[name] = rounded(sum(values) / len(values))
    return costs


def _comparisons(
    samples: Samples,
    comparisons: Sequence[Comparison],
    bootstrap: Bootstrap,
    figures: Callable[[PairedArms, Bootstrap], Json],
) -> Json:
    """Figures of each comparison whose arms were both evaluated, by temperature."""
    result: Json = {}
    for comparison in comparisons:
        pairs = {t: pair(samples, comparison, t) for t in samples.temperatures}
        found = {str(t): figures(p, bootstrap) for t, p in pairs.items() if p is not None}
        if found:
            result[comparison.name] = {
                "system": comparison.system,
                "baseline": comparison.baseline,
                "meaning": comparison.meaning,
                "temperatures": found,
            }
    return result


def _difference(difference: Difference) -> Json:
    return {
        **interval_json(difference.interval),
        "p": rounded(difference.p_value),
        "detectable": rounded(difference.detectable),
    }


def _gain_json(paired: PairedArms, bootstrap: Bootstrap) -> Json:
    result: Json = {"problems": paired.problems, "excluded": paired.excluded}
    for name, (team_P, alone_P) in paired.measures().items():
        gain = collaboration_gain(team_P, alone_P, bootstrap)
        result[name] = {
            "team": rounded(gain.team),
            "alone": rounded(gain.alone),
            "cg_abs": _difference(gain.absolute),
            "cg": None if gain.relative is None else interval_json(gain.relative),
        }
    return result


def _difference_json(paired: PairedArms, bootstrap: Bootstrap) -> Json:
    result: Json = {
        "problems": paired.problems,
        "excluded": paired.excluded,
        "mcnemar_p": rounded(single_sample_p_value(paired)),
    }
    for name, (system_P, baseline_P) in paired.measures().items():
        result[name] = {
            "system": rounded(float(system_P.mean())),
            "baseline": rounded(float(baseline_P.mean())),
            **_difference(paired_difference(system_P, baseline_P, bootstrap)),
        }
    return result


def _with_holm(gains: Json) -> Json:
    """Add Holm-adjusted p-values of pass@1 over all gains of a temperature."""
    for temperature in {t for gain in gains.values() for t in gain["temperatures"]}:
        at = {
            name: gain["temperatures"][temperature]
            for name, gain in gains.items()
            if temperature in gain["temperatures"]
        }
        for name, p_value in holm_by_name({name: figures["pass@1"]["p"] for name, figures in at.items()}).items():
            at[name]["pass@1"]["p_holm"] = rounded(p_value)
    return gains


def _efficiency_json(paired: PairedArms, bootstrap: Bootstrap) -> Json:
    """Costs on the problems that both arms solve, and how many those are."""
    first, second = paired.system.complete(paired.both_P), paired.baseline.complete(paired.both_P)
    result: Json = {}
    for name, cost in COSTS.items():
        costs = [
            [[value for row in rows if row.accepted and (value := cost(row)) is not None] for rows in side]
            for side in (first, second)
        ]
        common_P2 = common_solved(costs[0], costs[1])
        if not len(common_P2) or common_P2[:, 1].sum() == 0:
            continue
        means_B2 = bootstrap.means(common_P2)
        ratio = float(common_P2[:, 0].mean() / common_P2[:, 1].mean())
        ratio_B = means_B2[:, 0] / np.where(means_B2[:, 1] == 0, np.nan, means_B2[:, 1])
        ratio_B = np.where(np.isnan(ratio_B), np.inf, ratio_B)
        result[name] = {
            "problems": len(common_P2),
            "system": rounded(float(common_P2[:, 0].mean())),
            "baseline": rounded(float(common_P2[:, 1].mean())),
            "ratio": interval_json(percentile_interval(ratio, ratio_B)),
        }
    return result


def _benchmarks(samples: Samples, problems: Sequence[Problem], bootstrap: Bootstrap) -> Json:
    """Scores and CG by data set, where the test problems come from several; Holm over the data sets."""
    evaluated = set(samples.problem_ids)
    by_source: dict[str, list[str]] = {}
    for problem in problems:
        if problem.id in evaluated:
            by_source.setdefault(problem.source, []).append(problem.id)
    if len(by_source) < 2:
        return {}
    result: Json = {}
    for source, ids in sorted(by_source.items()):
        part = samples.restricted(sorted(ids))
        arms: Json = {}
        for (arm, temperature), one in part.by_arm.items():
            arms.setdefault(arm, {})[str(temperature)] = _scores(one, bootstrap)
        result[source] = {
            "problems": len(ids),
            "arms": arms,
            "collaboration_gain": _comparisons(part, CG_PAIRS, bootstrap, _gain_json),
        }
    _holm_over_benchmarks(result)
    return result


def _holm_over_benchmarks(benchmarks: Json) -> None:
    keys = {
        (pair_name, temperature)
        for one in benchmarks.values()
        for pair_name, figures in one["collaboration_gain"].items()
        for temperature in figures["temperatures"]
    }
    for pair_name, temperature in keys:
        found: Json = {}
        for source, one in benchmarks.items():
            figures = one["collaboration_gain"].get(pair_name, {"temperatures": {}})["temperatures"].get(temperature)
            if figures is not None:
                found[source] = figures["pass@1"]["cg_abs"]
        for source, p_value in holm_by_name({source: one["p"] for source, one in found.items()}).items():
            found[source]["p_holm"] = rounded(p_value)
