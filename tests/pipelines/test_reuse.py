"""Which jobs a changed field trains again, and what is safe to reuse. The jobs are those of fake_chain.py: what they
"train" follows from all that real ones read, so that a stage that was reused by mistake would show."""

from __future__ import annotations

import ast
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fake_chain
import pytest

from corecode import fingerprint
from corecode.config import Profile
from corecode.stages import Job, baseline_jobs, evaluation_jobs, grpo_job, sft_jobs
from pipelines.profiles import load_profile
from pipelines.reuse import Cache, Keyed, keyed, reused_from

ARMS = "evaluation.arms=[sft/alone, sft/team, planner-grpo/team, final/alone, final/team]"
SFT = {"sft_warmup/planner", "sft_warmup/coder"}
EVALUATION = {f"evaluate {arm}" for arm in ("sft/alone", "sft/team", "planner-grpo/team", "final/alone", "final/team")}
FINAL = {"evaluate final/alone", "evaluate final/team"}
ALL = {*SFT, "planner_grpo", "coder_grpo", *EVALUATION}


def jobs_of(profile: Profile, run: Path) -> Iterator[Job]:
    yield from sft_jobs(profile, run)
    for number in range(1, profile.rounds + 1):
        yield from (job for role in ("planner", "coder") if (job := grpo_job(profile, run, role, number)))
    for wave in baseline_jobs(profile, run):
        yield from wave
    yield from evaluation_jobs(profile, run)


class Home:
    """A home in which runs reuse each other's jobs."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.cache = Cache(folder)
        self._patch = patch

    def run(self, name: str, *overrides: str, seed: int | None = None) -> set[str]:
        """Make a run; return the jobs that were trained."""
        profile = load_profile("smoke", [ARMS, *overrides], seed)
        fake_chain.make_problems(profile, self.folder / "runs" / name)
        trained: set[str] = set()
        for job in jobs_of(profile, self.folder / "runs" / name):
            one = keyed(job)
            assert one.key is not None
            if self.cache.take(one) is None:
                self.train(one)
                trained.add(job.name)
            assert job.done
        return trained

    def train(self, one: Keyed) -> None:
        path = one.job.write()
        self._patch.setattr(sys, "argv", fake_chain.command(one.job, path)[3:])
        exec(compile(fake_chain.PROGRAM, "job", "exec"), {})
        self.cache.keep(one)

    def contents(self, name: str) -> dict[str, Any]:
        """What a run's jobs left: models, metrics, samples and rows."""
        run = self.folder / "runs" / name
        return {
            path.relative_to(run).as_posix(): path.read_bytes()
            for path in run.rglob("*")
            if path.is_file() and path.name not in ("job.json", "result.json")
        }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch)


def test_nothing_changed_nothing_is_trained(home: Home) -> None:
    assert home.run("first") == ALL
    assert home.run("second") == set()
    assert home.contents("second") == home.contents("first")
    second = home.folder / "runs" / "second"
    origins = {reused_from(job) for job in jobs_of(load_profile("smoke", [ARMS]), second)}
    assert origins == {"first"}
    assert json.loads((second / "coder_grpo" / "job.json").read_text())["run"] == str(second)
    assert home.run("third") == set()
    shutil.rmtree(home.folder / "runs" / "first")
    assert home.run("fourth") == set(), "copies serve as well as the original"
    assert home.contents("fourth") == home.contents("second")


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ("coder_grpo.steps=3", {"coder_grpo", *FINAL}),
        ("planner_grpo.learning_rate=1e-3", {"planner_grpo", "coder_grpo", "evaluate planner-grpo/team", *FINAL}),
        ("rewards.space_weight=0.5", {"coder_grpo", *FINAL}),
        ("rewards.kappa=3", {"planner_grpo", "coder_grpo", "evaluate planner-grpo/team", *FINAL}),
        ("sft.learning_rate=1e-3", ALL),
        ("seed=5", ALL),
        ("model.scratch.layers=1", ALL),
        ("prompts=full", ALL),
        ("execution.threads=2", ALL),
        ("evaluation.samples=6", EVALUATION),
        ("dataset.test=13", EVALUATION),
        ("dataset.rl=17", {"planner_grpo", "coder_grpo", "evaluate planner-grpo/team", *FINAL}),
        ("sandbox.cost=cpu_time", {"planner_grpo", "coder_grpo", *EVALUATION}),
        ("execution.generation_batch=64", {"planner_grpo", "coder_grpo", *EVALUATION}),
        ("evaluation.bootstrap=2000", set[str]()),
        ("description=another text", set[str]()),
        ("name=other", set[str]()),
        ("execution.parallel=1", set[str]()),
        ("sandbox.workers=1", set[str]()),
        ("evaluation.arms=[base/team, final/team]", {"evaluate base/team"}),
    ],
)
def test_a_changed_field_trains_what_depends_on_it(home: Home, change: str, again: set[str]) -> None:
    home.run("first")
    trained = home.run("second", change)
    assert trained == again
    alone = Home(home.folder / "elsewhere", home._patch)
    alone.run("second", change)
    assert home.contents("second") == alone.contents("second"), "reuse gives what training gives"


def test_a_second_round_goes_on_from_the_first(home: Home) -> None:
    home.run("once")
    assert home.run("twice", "rounds=2") == {
        *("planner_grpo", "coder_grpo", "evaluate planner-grpo/team"),
        *FINAL,
    }
    once, twice = home.contents("once"), home.contents("twice")
    for role in ("planner", "coder"):
        assert twice[f"rounds/1/{role}_grpo/model/model.safetensors"] == once[f"{role}_grpo/model/model.safetensors"]


def test_a_job_trains_again_after_other_weights_of_the_same_settings(home: Home) -> None:
    """What counts of the model that a job starts from is its content, not how it came about."""
    home.run("first")
    profile = load_profile("smoke", [ARMS])
    run = home.folder / "runs" / "second"
    fake_chain.make_problems(profile, run)
    warm, planner = sft_jobs(profile, run), grpo_job(profile, run, "planner")
    assert planner is not None
    for job in warm:
        home.train(keyed(job))
    (run / "sft_warmup" / "coder" / "model" / "model.safetensors").write_text("trained on another accelerator")
    assert home.cache.take(keyed(planner)) is None


def test_a_damaged_copy_is_not_used(home: Home) -> None:
    home.run("first")
    (home.folder / "runs" / "first" / "coder_grpo" / "metrics.jsonl").write_text("")
    assert home.run("second") == {"coder_grpo"}
    assert home.run("third") == set()


def test_a_damaged_entry_is_passed_over(home: Home) -> None:
    home.run("first")
    (home.folder / "secret").write_text("mine")
    job = keyed(next(jobs_of(load_profile("smoke", [ARMS]), home.folder / "runs" / "first")))
    entry = home.folder / "cache" / str(job.key) / "first.json"
    whole = json.loads(entry.read_text())
    outside = {**whole, "output": "../../..", "files": {"secret": fingerprint.file_digest(home.folder / "secret")}}
    for number, damaged in enumerate(["", "{", "[]", "{}", json.dumps({**whole, "files": {}}), json.dumps(outside)]):
        entry.write_text(damaged)
        assert home.run(f"again{number}") == {"sft_warmup/planner"}
        assert not list(home.folder.rglob("*.reused"))
        shutil.rmtree(home.folder / "runs" / f"again{number}")


def test_runs_that_do_the_same_at_once_do_not_disturb_each_other(home: Home) -> None:
    """A job that four runs have done is entered by them while four others look for it."""

    def job(name: str) -> Keyed:
        profile = load_profile("smoke", [ARMS])
        fake_chain.make_problems(profile, home.folder / "runs" / name)
        return keyed(sft_jobs(profile, home.folder / "runs" / name)[0])

    makers, takers = ([job(f"{kind}{number}") for number in range(4)] for kind in ("maker", "taker"))
    for maker in makers:
        home.train(maker)

    def keep(maker: Keyed) -> None:
        for _ in range(5):
            home.cache.keep(maker)

    with ThreadPoolExecutor(8) as pool:
        kept = [pool.submit(keep, maker) for maker in makers]
        taken = [pool.submit(home.cache.take, taker) for taker in takers]
        assert [one.result() for one in kept] == [None] * 4
        assert {one.result() for one in taken} <= {f"maker{number}" for number in range(4)}
    contents = [home.contents(one.job.spec["run"]) for one in (*makers, *takers)]
    assert all(one == contents[0] for one in contents)


def test_an_outage_is_not_handed_on(home: Home) -> None:
    home.run("first")
    run = home.folder / "runs" / "second"
    profile = load_profile("smoke", [ARMS, "evaluation.samples=6"])
    fake_chain.make_problems(profile, run)
    job = next(job for job in jobs_of(profile, run) if job.name == "evaluate sft/alone")
    for warm in sft_jobs(profile, run):
        home.cache.take(keyed(warm))
    one = keyed(job)
    home.train(one)
    assert (home.folder / "cache" / str(one.key)).is_dir()
    shutil.rmtree(home.folder / "cache" / str(one.key))
    with (job.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 1, "of": 1, "metrics": {"evaluation/missing": 2}}\n')
    home.cache.keep(one)
    assert not (home.folder / "cache" / str(one.key)).exists()


def test_changing_a_run_leaves_the_others_alone(home: Home) -> None:
    """A job that is trained again in its folder empties its files first; models are replaced, never written into."""
    home.run("first")
    home.run("second")
    before = home.contents("second")
    first = home.folder / "runs" / "first" / "planner_grpo"
    with (first / "metrics.jsonl").open("w") as file:
        file.write("other")
    assert home.contents("second") == before
    model = "planner_grpo/model/model.safetensors"
    assert (home.folder / "runs" / "second" / model).samefile(home.folder / "runs" / "first" / model)


def test_without_an_input_there_is_no_key(home: Home) -> None:
    profile = load_profile("smoke", [ARMS])
    job = next(jobs_of(profile, home.folder / "runs" / "empty"))
    assert keyed(job).key is None
    assert home.cache.take(keyed(job)) is None
    home.cache.keep(keyed(job))
    assert not (home.folder / "cache").exists()
    hub = load_profile("smoke", [ARMS, "model={path: nobody/never-downloaded}"])
    fake_chain.make_problems(hub, home.folder / "runs" / "hub")
    assert keyed(next(jobs_of(hub, home.folder / "runs" / "hub"))).key is None


def test_a_model_folder_counts_by_its_content(home: Home) -> None:
    base = home.folder / "base"
    base.mkdir()
    (base / "model.safetensors").write_text("a")
    profile = load_profile("smoke", [f"model={{path: {base}}}"])
    run = home.folder / "runs" / "one"
    fake_chain.make_problems(profile, run)
    job = sft_jobs(profile, run)[0]
    key = keyed(job).key
    assert key == keyed(job).key
    (base / "model.safetensors").write_text("b!")
    assert key != keyed(job).key


def test_the_code_that_jobs_run_is_all_in_the_key() -> None:
    """No module whose source counts imports one whose source does not."""
    sources = list(fingerprint.job_sources())
    names = {path.relative_to(fingerprint.ROOT).as_posix() for path in sources}
    assert {"corecode/training/grpo.py", "corecode/rewards.py", "sandbox/runner.py"} <= names
    assert "corecode/roles/prompts/compact/coder.txt" in names
    unread = [name.removesuffix(".py").replace("/", ".") for name in fingerprint.NOT_IN_JOBS]
    for path in sources:
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                assert not module.startswith(tuple(unread)), f"{path} imports {module}"


def test_comments_and_layout_are_not_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest(text: str) -> str:
        (tmp_path / "corecode" / "a.py").write_text(text)
        code: Callable[[], str] = fingerprint.code_digest.__wrapped__
        return code()

    (tmp_path / "corecode").mkdir()
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    assert digest("x = 1\n") == digest("# why\nx  =  1\n") != digest("x = 2\n")
