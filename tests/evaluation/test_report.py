"""The report as files: what they say, what they never do, and that equal seeds give equal bytes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import resource
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from synthetic import RATES, TESTS, make_problems, make_profile, make_run, row, write_rows

from corecode.arms import ARMS
from corecode.config import Profile
from corecode.errors import InfrastructureError, UserError
from corecode.evaluation import build_report
from corecode.evaluation.failures import outcome
from corecode.evaluation.report.cases import CASE_BYTES, LONGEST_TEXT
from corecode.evaluation.rows import SampleRow
from corecode.evaluation.summary import NOT_IN_METRICS
from corecode.problems import write_problems

SECONDS = {"problems": 1.25, "evaluation": 60.5}
PROVENANCE = {"commit": "0123abc", "packages": {"torch": "2.13.0"}, "sandbox": "bubblewrap"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}\"'&<!--"


class Document(HTMLParser):
    """What a browser would see: elements with attributes, text outside of scripts, and scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._inside is None:
            self.text += data


def build(run: Path, profile: Profile | None = None) -> tuple[dict[str, Any], Document]:
    path = build_report(profile or make_profile(), run, SECONDS, PROVENANCE)
    html = path.with_name("report.html").read_text(encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8")), Document(html)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "made-up"
    make_run(folder)
    return folder


@pytest.fixture(scope="module")
def built(run: Path) -> tuple[dict[str, Any], Document]:
    return build(run)


def test_four_files_and_the_path_of_the_summary(run: Path, built: object) -> None:
    names = {path.name for path in (run / "collaboration_gain").iterdir()}
    assert names == {"summary.json", "metrics.json", "report.html", "report.md"}


def test_summary_says_what_was_asked(built: tuple[dict[str, Any], Document]) -> None:
    summary = built[0]
    assert list(summary["arms"]) == list(RATES)
    at = summary["arms"]["final/team"]["temperatures"]["0.2"]
    assert list(at["pass@k"]) == ["1", "2", "3", "5"]
    assert at["problems"] == 60
    assert at["samples"] == 300
    assert at["missing"] == {"samples": 0, "reasons": {}}
    assert sum(at["outcomes"].values()) == sum(at["pass_ratio_bins"]) == 300
    assert at["tokens"] == {"by_role": {"planner": 60, "coder": 80}, "per_attempt": 140, "per_problem": 460}
    assert summary["arms"]["final/alone"]["temperatures"]["0.2"]["tokens"]["per_problem"] == 450
    assert summary["stage_seconds"] == SECONDS
    assert summary["provenance"]["commit"] == "0123abc"
    assert summary["headline"]["outage"] is None
    assert set(summary["gains"]) == {
        "total",
        "planner_phase",
        "coder_phase",
        "coder_alone",
        "over_single_direct",
        "over_single_thought",
    }


def test_gains_are_differences_of_the_arms(built: tuple[dict[str, Any], Document]) -> None:
    summary = built[0]
    for gain in summary["gains"].values():
        for temperature, at in gain["temperatures"].items():
            for measure in ("pass@1", "pass@5", "apr"):
                means = []
                for arm in (gain["system"], gain["baseline"]):
                    figures = summary["arms"][arm]["temperatures"][temperature]
                    means.append((figures["apr"] if measure == "apr" else figures["pass@k"][measure[5:]])["value"])
                found = at[measure]
                assert found["value"] == pytest.approx(means[0] - means[1], abs=2e-6)
                assert found["low"] <= found["value"] <= found["high"]
            assert at["pass@1"]["p"] <= at["pass@1"]["p_holm"] <= 1
    total = summary["gains"]["total"]["temperatures"]["0.2"]["pass@1"]["value"]
    phases = [
        summary["gains"][name]["temperatures"]["0.2"]["pass@1"]["value"] for name in ("planner_phase", "coder_phase")
    ]
    assert total == pytest.approx(sum(phases), abs=2e-6)


def test_every_key_is_documented(built: tuple[dict[str, Any], Document]) -> None:
    doc = (Path(__file__).parents[2] / "docs" / "summary.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([^`]+)`", doc))
    summary = built[0]
    at = summary["arms"]["final/team"]["temperatures"]["0.2"]
    gain = summary["gains"]["total"]["temperatures"]["0.2"]
    pair = summary["collaboration_gain"]["final"]["temperatures"]["0.2"]
    keys = {*summary, *at, *gain, *pair, *gain["pass@1"], *pair["pass@1"], *pair["pass@1"]["cg_abs"]}
    keys |= {
        *summary["problems"],
        *summary["digests"],
        *at["tokens"],
        *at["complexity"],
        *at["thoughts"],
        *at["missing"],
    }
    keys |= {*at["cost_of_accepted"], *at["pass@1_bounds"], *summary["headline"], *summary["gains"]}
    keys |= set(summary["collaboration_gain"]) | set(row("p", "final/team", 0.2, 0, 0))
    named = {word for text in documented for word in re.split(r'[\s,"{}]+', text)} | documented
    assert sorted(key for key in keys if key not in named) == []


def test_equal_seeds_give_equal_bytes_whatever_the_clock_says(tmp_path: Path) -> None:
    texts: list[dict[str, bytes]] = []
    for name, seconds in (("first", 0.01), ("second", 7.5)):
        run = tmp_path / name
        rows = make_run(run, problems=12)
        write_rows(run, [one | {"cpu_s": seconds, "peak_mb": 10 * seconds} for one in rows])
        path = build_report(make_profile(), run, {"evaluation": seconds}, {"commit": name})
        texts.append({file.name: file.read_bytes() for file in path.parent.iterdir()})
    assert texts[0]["metrics.json"] == texts[1]["metrics.json"]
    digests = [json.loads(one["summary.json"])["digests"] for one in texts]
    assert digests[0] == digests[1]
    assert digests[0]["metrics"] == hashlib.sha256(texts[0]["metrics.json"]).hexdigest()
    for word in (b"cpu_s", b"peak_mb", b"seconds", b"commit", str(tmp_path).encode()):
        assert word not in texts[0]["metrics.json"]
    assert b'"steps"' in texts[0]["metrics.json"]


def test_metrics_are_the_summary_without_what_cannot_repeat(run: Path, built: tuple[dict[str, Any], Document]) -> None:
    def without(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: without(value) for key, value in tree.items() if key not in NOT_IN_METRICS}
        return [without(item) for item in tree] if isinstance(tree, list) else tree

    metrics = json.loads((run / "collaboration_gain" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics == without(built[0])
    # The curves are in it, and the wall seconds beside them are not.
    series = metrics["training"]["planner_grpo"]["series"]
    assert series["validation/cg"][0][0] == 0
    assert "step" not in series


def test_the_page_is_one_file_that_reaches_no_network(built: tuple[dict[str, Any], Document]) -> None:
    _, page = built
    assert not [e for e in page.elements if e[0] in ("link", "iframe", "img", "object", "embed", "base")]
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#")
    policy = next(a["content"] for t, a in page.elements if t == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    code = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    assert {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code} == allowed
    assert len(code) == 2


def test_every_chart_is_a_plotly_figure(built: tuple[dict[str, Any], Document]) -> None:
    import plotly.graph_objects as go

    _, page = built
    charts = json.loads(next(text for attributes, text in page.scripts if attributes.get("id") == "charts"))
    assert set(charts) == {"cg", "rewards", "format", "ratios", "failures", "effect"}
    style = next(text for text in [Path(__file__).parents[2] / "corecode/evaluation/report/templates/report.css"])
    tokens = set(re.findall(r'"\$(\w+)"', json.dumps(charts)))
    colours = set(re.findall(r"--(\w+):", style.read_text(encoding="utf-8")))
    assert tokens <= colours
    for chart in charts.values():
        go.Figure(json.loads(re.sub(r'"\$\w+"', '"#123456"', json.dumps(chart))))  # raises for an unknown property
    drawn = {a["data-chart"] for t, a in page.elements if t == "div" and "data-chart" in a}
    assert drawn == set(charts)


def test_the_boundary_of_the_phases_is_drawn_once(built: tuple[dict[str, Any], Document]) -> None:
    charts = json.loads(next(text for attributes, text in built[1].scripts if attributes.get("id") == "charts"))
    lines = [shape for shape in charts["cg"]["layout"]["shapes"] if shape["x0"] == 30]
    assert len(lines) == 1
    team = next(trace for trace in charts["cg"]["data"] if trace["name"] == "Planner + Coder")
    assert team["x"] == [0, 10, 20, 30, 30, 40, 50, 60]


def test_a_hostile_text_stays_text(tmp_path: Path) -> None:
    run = tmp_path / "run"
    problems = [p.model_copy(update={"statement": HOSTILE + p.id}) for p in make_problems(6)]
    write_problems(run / "problems" / "test.jsonl", problems)
    hostile = {"program": HOSTILE, "completion": HOSTILE, "verdict": "runtime_error", "detail": HOSTILE}
    rows = [
        row(problem.id, arm, 0.2, s, TESTS if arm == "final/team" and s else 0)
        | ({"thought": HOSTILE} if arm == "final/team" else {})
        | ({} if arm == "final/team" and s else hostile)
        for problem in problems
        for arm in ("final/alone", "final/team")
        for s in range(2)
    ]
    write_rows(run, rows)
    path = build_report(
        make_profile(["final/alone", "final/team"], n=2),
        run,
        {HOSTILE: 1.0},
        {HOSTILE: HOSTILE, "x": {HOSTILE: HOSTILE}},
    )
    page = Document(path.with_name("report.html").read_text(encoding="utf-8"))
    assert len(page.scripts) == 3
    assert not any("alert" in text for attributes, text in page.scripts if attributes.get("type") != "application/json")
    assert not [e for e in page.elements if e[0] == "img" or "onerror" in e[1]]
    assert HOSTILE in page.text
    assert "49" not in re.findall(r"\{\{.*?\}\}", page.text)
    markdown = path.with_name("report.md").read_text(encoding="utf-8")
    assert "<script" not in markdown
    assert json.loads(next(text for a, text in page.scripts if a.get("id") == "charts"))


def test_ten_thoughts_and_the_cases_are_bounded_and_drawn_by_the_seed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    rows = make_run(run, problems=120, temperatures=(0.2,))
    write_rows(run, [one | {"program": "x = 1  # " + "&" * LONGEST_TEXT} for one in rows])
    _, page = build(run, make_profile(temperatures=[0.2]))
    cases = [a for t, a in page.elements if t == "details" and a.get("class") == "case"]
    effects = [a["data-effect"] for a in cases]
    counts = {kind: effects.count(kind) for kind in ("helped", "hurt", "equal")}
    assert counts["helped"] > counts["hurt"] > 0
    assert sum(counts.values()) < 120
    assert f"{sum(counts.values())} of 120 problems fit on this page" in page.text
    assert effects[:4] == ["helped", "hurt", "helped", "hurt"]
    assert effects == [kind for kind in effects if kind != "equal"] + ["equal"] * counts["equal"]
    cases_html = (run / "collaboration_gain" / "report.html").read_text(encoding="utf-8").split('id="caselist"')[1]
    assert len(cases_html.split("</section>")[0].encode()) < CASE_BYTES
    thoughts = [a for t, a in page.elements if t == "details" and "class" not in a]
    assert len(thoughts) == 11  # ten thoughts and the provenance
    assert "more characters)" in page.text
    assert (run / "collaboration_gain" / "report.html").stat().st_size < 10e6
    again = build(run, make_profile(temperatures=[0.2]))[1]
    other = build(run, make_profile(temperatures=[0.2], seed=8))[1]
    assert again.text == page.text
    assert other.text != page.text


def test_an_outage_is_stated_first_and_counts_for_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arms = ("final/alone", "final/team")
    rows = [
        row(problem.id, arm, 0.2, s, TESTS if arm == "final/team" or i < 2 else 0)
        for i, problem in enumerate(make_problems(8))
        for arm in arms
        for s in range(5)
    ]
    write_problems(run / "problems" / "test.jsonl", make_problems(8))
    lost = {"missing": "sandbox died", "verdict": None, "passed": 0, "total": 0, "program": None, "thought_valid": None}
    # The Coder alone loses one sample each of three problems that it fails: without them its mean would rise.
    broken = [
        one | lost if one["arm"] == arms[0] and one["sample"] == 1 and int(str(one["problem_id"])[-1]) > 4 else one
        for one in rows
    ]
    write_rows(run, broken)
    summary, page = build(run, make_profile([*arms, "sft/team"], temperatures=[0.2]))

    alone = summary["arms"]["final/alone"]["temperatures"]["0.2"]
    assert alone["problems"] == 5
    assert alone["samples"] == 37
    assert alone["missing"] == {"samples": 3, "reasons": {"sandbox died": 3}}
    assert alone["pass@1_bounds"] == {"missing_failed": 0.25, "missing_passed": pytest.approx(13 / 40)}
    assert sum(alone["outcomes"].values()) == 37
    gain = summary["collaboration_gain"]["final"]["temperatures"]["0.2"]
    assert (gain["problems"], gain["excluded"]) == (5, 3)
    assert gain["pass@1"]["alone"] == pytest.approx(0.4)
    assert gain["pass@1"]["cg_abs"]["value"] == pytest.approx(0.6)
    assert summary["not_evaluated"] == ["sft/team"]

    warning = summary["headline"]["outage"]
    assert warning.startswith("3 of 80 samples (3.8 %) have no result, because infrastructure failed (sandbox died: 3)")
    assert "Not evaluated at all: sft/team." in warning
    # Leaving problems out raised the mean of this arm to 40 %: the warning says what it is with all problems.
    whole = "final/alone between 25.0\N{NO-BREAK SPACE}% and 32.5\N{NO-BREAK SPACE}% (shown: 40.0\N{NO-BREAK SPACE}%)"
    assert whole in warning
    # The team solves all 8 problems, so its gain is 1 minus what the Coder alone may reach.
    assert "the Collaboration Gain in pass@1 is between +67.5 and +75.0 points (shown: +60.0)" in warning
    body = page.text[page.text.index("Results are missing.") :]
    assert body.index("3 of 80 samples") < body.index("solves")
    markdown = (run / "collaboration_gain" / "report.md").read_text(encoding="utf-8").splitlines()
    assert markdown[0].startswith("> **Results are missing.** 3 of 80 samples")
    assert "pass@1 lies between 25.0\N{NO-BREAK SPACE}% and 32.5\N{NO-BREAK SPACE}%" in page.text


@pytest.mark.parametrize(
    ("alone", "team", "words"),
    [
        (0, 1, ["Working together pays", "undefined in relative terms"]),
        (1, 0, ["The Planner hurts this Coder", "−100"]),
        (1, 1, ["Chance alone could explain this difference", "Collaboration Gain 0.0 points"]),
    ],
)
def test_the_headline_says_what_was_found(tmp_path: Path, alone: int, team: int, words: list[str]) -> None:
    run = tmp_path / "run"
    arms = {"sft/alone": alone, "sft/team": team}
    rows = [row(problem.id, arm, 0.2, 0, TESTS * right) for problem in make_problems(20) for arm, right in arms.items()]
    write_problems(run / "problems" / "test.jsonl", make_problems(20))
    write_rows(run, rows)
    summary, page = build(run, make_profile(list(arms), n=1, temperatures=[0.2]))
    for word in [*words, "(Measured after the warm-up.)"]:
        assert word in " ".join(summary["headline"]["support"])
        assert word in page.text
    assert f"solves {100 * team:.1f}\N{NO-BREAK SPACE}% of 20 unseen problems" in summary["headline"]["sentence"]
    assert "differ alike on every problem" in page.text
    assert "is found with 80 % power" not in page.text


def test_a_run_with_a_single_arm_has_a_report(tmp_path: Path) -> None:
    """No pair, no curves, one sample, one problem: every section says that it has nothing."""
    run = tmp_path / "run"
    write_problems(run / "problems" / "test.jsonl", make_problems(1))
    write_rows(run, [row("dials/00000", "single-thought/final", 0.0, 0, 0, steps=None, peak_mb=None, cpu_s=None)])
    summary, page = build(run, make_profile(["single-thought/final"], n=1, temperatures=[0.0]))
    assert summary["collaboration_gain"] == summary["gains"] == summary["efficiency"] == {}
    assert summary["headline"]["sentence"].startswith("No Collaboration Gain can be stated")
    assert "this run left no data for it" in page.text


def test_every_problem_is_on_the_page_where_it_has_room(built: tuple[dict[str, Any], Document]) -> None:
    _, page = built
    effects = [a["data-effect"] for t, a in page.elements if t == "details" and a.get("class") == "case"]
    assert len(effects) == 60
    helped, hurt, equal = (effects.count(kind) for kind in ("helped", "hurt", "equal"))
    assert f"Of 60 problems, the Planner helped on {helped}" in page.text
    assert f"hurt on {hurt} and made no difference on {equal}" in page.text
    assert {a["data-show"] for t, a in page.elements if "data-show" in a} == {"all", "helped", "hurt", "equal"}
    assert "fit on this page" not in page.text


def test_forty_arms_fold_what_only_prompts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arms = list(ARMS)[:40]
    make_run(run, problems=4, n=1, rates=dict.fromkeys(arms, 0.5), temperatures=(0.2,))
    _, page = build(run, make_profile(arms, n=1, temperatures=[0.2]))
    classes = [a.get("class") or "" for _, a in page.elements]
    # The warm-up Coder stands in two groups, and the axis is a bar without a kind.
    assert len([name for name in classes if name.startswith("bar ")]) == 41
    assert "27 arms" in page.text


def test_what_a_program_calls_its_exception_is_no_markup() -> None:
    strange = {"verdict": "runtime_error", "passed": 0}
    found = [
        outcome(SampleRow.model_validate(row("p", "final/alone", 0.2, 0, 0) | strange | {"detail": detail}))
        for detail in ("<a href='http://e'>Kind</a>: x", "Ошибка: x", "exit code 3", "json.JSONDecodeError", "")
    ]
    names = ["unknown", "Ошибка", "exit code 3", "json.JSONDecodeError", "unknown"]
    assert found == [f"runtime_error:{name}" for name in names]


def test_the_documented_check_finds_the_same_figures(tmp_path: Path) -> None:
    """The lines that docs/summary.md gives for computing figures from the table share no code with the report."""
    run = tmp_path / "run"
    make_run(run, problems=40)
    build(run)
    doc = (Path(__file__).parents[2] / "docs" / "summary.md").read_text(encoding="utf-8")
    code = textwrap.dedent(doc.split("## Checking it")[1].split("<<'PY'\n")[1].split("    PY\n")[0])
    done = subprocess.run(
        [sys.executable, "-c", code.replace(".corecode/runs/NAME", str(run))],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["pass@1", "pass@5", "APR", "CG_abs", "CG"]
    assert all(float(line[1]) == pytest.approx(float(line[2]), abs=1e-6) for line in lines)


def test_an_arm_whose_results_are_all_missing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_problems(run / "problems" / "test.jsonl", make_problems(3))
    arms = ("final/alone", "final/team")
    rows = [row(p.id, arm, 0.2, 0, TESTS) for p in make_problems(3) for arm in arms]
    write_rows(
        run, [one | ({"missing": "server gone", "verdict": None} if one["arm"] == arms[1] else {}) for one in rows]
    )
    summary, page = build(run, make_profile(list(arms), n=1, temperatures=[0.2]))
    assert "no problem has all results both of a team and of its Coder alone" in summary["headline"]["sentence"]
    assert "no result" in page.text
    team = summary["arms"]["final/team"]["temperatures"]["0.2"]
    assert (team["problems"], team["pass@k"], team["apr"]) == (0, {}, None)
    assert summary["collaboration_gain"] == {}
    assert summary["headline"]["outage"].startswith("3 of 6 samples")


def test_several_data_sets_stand_beside_each_other(tmp_path: Path) -> None:
    run = tmp_path / "run"
    make_run(run, problems=40, sources=("mbpp", "humaneval"), temperatures=(0.2,))
    summary, page = build(run, make_profile(temperatures=[0.2]))
    assert summary["problems"]["sources"] == ["humaneval", "mbpp"]
    found = summary["benchmarks"]
    assert {name: one["problems"] for name, one in found.items()} == {"humaneval": 20, "mbpp": 20}
    scores = [found[name]["arms"]["final/team"]["0.2"]["pass@k"]["1"]["value"] for name in found]
    overall = summary["arms"]["final/team"]["temperatures"]["0.2"]["pass@k"]["1"]["value"]
    assert sum(scores) / 2 == pytest.approx(overall, abs=2e-6)
    gains = [found[n]["collaboration_gain"]["final"]["temperatures"]["0.2"]["pass@1"]["cg_abs"] for n in found]
    assert all(gain["p_holm"] >= gain["p"] for gain in gains)
    assert "mbpp (20)" in page.text


def test_flagged_and_unevaluated_problems_are_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    make_run(run, problems=5, temperatures=(0.2,))
    problems = make_problems(9)
    problems[2] = problems[2].model_copy(update={"flags": ["several_answers"]})
    write_problems(run / "problems" / "test.jsonl", problems)
    summary, page = build(run, make_profile(temperatures=[0.2]))
    assert summary["problems"]["flagged"] == {"dials/00002": ["several_answers"]}
    assert "dials/00002 (several_answers)" in page.text
    assert "4 further test problems were not evaluated in any arm" in page.text


def test_damaged_or_absent_inputs_have_clear_errors(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(UserError, match=r"cannot read .*test\.jsonl"):
        build(run)
    make_run(run, problems=2)
    (run / "planner_grpo" / "metrics.jsonl").write_text('{"step": 1, "of"')
    with pytest.raises(InfrastructureError, match=r"planner_grpo/metrics\.jsonl, line 1 is not a metrics line"):
        build(run)
    assert not (run / "collaboration_gain").exists()


def test_twenty_thousand_rows_are_quick_and_small(tmp_path: Path) -> None:
    """5 arms x 800 problems x 5 samples: under 30 s and 2 GB, and a page under 10 MB."""
    run = tmp_path / "run"
    arms = dict(list(RATES.items())[:5])
    rows = make_run(run, problems=800, rates=arms, temperatures=(0.2,))
    assert len(rows) == 20_000
    (run / "profile.json").write_text(make_profile(list(arms), temperatures=[0.2]).model_dump_json())
    code = (
        "import sys; from pathlib import Path; from corecode.config import Profile; from corecode.evaluation import *\n"
        "run = Path(sys.argv[1])\n"
        "build_report(Profile.model_validate_json((run / 'profile.json').read_text()), run, {}, {})\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code, str(run)], check=True, timeout=120, cwd=Path(__file__).parents[2])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 30
    assert after.ru_maxrss < 2_000_000
    assert (run / "collaboration_gain" / "report.html").stat().st_size < 10e6
