"""What each stage has to do: which weights a job takes, when a job is complete, and a whole chain of tiny jobs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny import need_sandbox

from corecode import stages
from corecode.config import Profile
from corecode.errors import UserError
from corecode.problems import read_split
from corecode.stages import Job, baseline_jobs, evaluation_jobs, grpo_job, make_problems, sft_jobs
from corecode.training.job import main, run_job
from corecode.training.records import write_json
from corecode.training.spec import read_spec, spec_digest

PHASE: dict[str, Any] = {
    "steps": 1,
    "prompts_per_step": 2,
    "group_size": 2,
    "learning_rate": 1e-3,
    "beta": 0.0,
    "sampling": {"max_tokens": 12},
    "partner_sampling": {"max_tokens": 12},
    "validate_every": 1,
}
TINY: dict[str, Any] = {
    "name": "tiny",
    "description": "test",
    "hardware": "any",
    "expected_minutes": 1,
    "prompts": "compact",
    "dataset": {"name": "dials", "sft": 24, "rl": 6, "validation": 3, "test": 4},
    "model": {"scratch": {"width": 16, "layers": 1, "heads": 2, "vocabulary": 300}},
    "sft": {"batch_size": 8, "warmup_steps": 1},
    "planner_grpo": PHASE,
    "coder_grpo": PHASE,
    "sandbox": {"cost": "steps"},
    "evaluation": {
        "samples": 2,
        "temperatures": [0.2, 1.0],
        "max_thought_tokens": 12,
        "max_program_tokens": 12,
        "arms": ["base/team", "sft/team", "final/alone", "final/team", "single-direct/final", "single-thought/final"],
    },
}


def profile(**changes: Any) -> Profile:
    return Profile.model_validate({**TINY, **changes})


def weights(job: Job | None) -> dict[str, str]:
    assert job is not None
    return job.spec["weights"]


def test_the_phases_hand_weights_on(tmp_path: Path) -> None:
    tiny = profile()
    assert [job.name for job in sft_jobs(tiny, tmp_path)] == ["sft_warmup/planner", "sft_warmup/coder"]
    assert weights(grpo_job(tiny, tmp_path, "planner")) == {
        "planner": "sft_warmup/planner",
        "coder": "sft_warmup/coder",
    }
    assert weights(grpo_job(tiny, tmp_path, "coder")) == {"planner": "planner_grpo", "coder": "sft_warmup/coder"}
    arms = {job.spec["arm"]: job.spec["weights"] for job in evaluation_jobs(tiny, tmp_path)}
    assert arms["base/team"] == {"planner": "base/planner", "coder": "base/coder"}
    assert arms["final/team"] == {"planner": "planner_grpo", "coder": "coder_grpo"}
    assert arms["single-thought/final"] == {"solver": "baselines/single_thought"}


def test_a_role_between_the_two_is_trained_between_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "TEAM", ("planner", "reviewer", "coder"))
    monkeypatch.setattr(Profile, "grpo", lambda self, role: self.planner_grpo)
    before = {role: f"sft_warmup/{role}" for role in ("planner", "reviewer", "coder")}
    after = {"planner": "planner_grpo", "reviewer": "reviewer_grpo"}
    tiny = profile()
    assert weights(grpo_job(tiny, tmp_path, "planner")) == before
    assert weights(grpo_job(tiny, tmp_path, "reviewer")) == before | {"planner": "planner_grpo"}
    assert weights(grpo_job(tiny, tmp_path, "coder")) == before | after


def test_rounds_continue_from_each_other(tmp_path: Path) -> None:
    twice = profile(rounds=2)
    seen = {
        (role, number): grpo_job(twice, tmp_path, role, number) for number in (1, 2) for role in ("planner", "coder")
    }
    assert [job.name for job in seen.values() if job] == [
        *("rounds/1/planner_grpo", "rounds/1/coder_grpo", "planner_grpo", "coder_grpo")
    ]
    assert weights(seen["planner", 2]) == {"planner": "rounds/1/planner_grpo", "coder": "rounds/1/coder_grpo"}
    assert weights(seen["coder", 2]) == {"planner": "planner_grpo", "coder": "rounds/1/coder_grpo"}
    assert len({job.spec["seed"] for job in seen.values() if job}) == 4


def test_skipped_stages_leave_the_weights_where_they_were(tmp_path: Path) -> None:
    bare = profile(sft={"enabled": False}, planner_grpo={**PHASE, "steps": 0})
    assert sft_jobs(bare, tmp_path) == []
    assert grpo_job(bare, tmp_path, "planner") is None
    assert weights(grpo_job(bare, tmp_path, "coder")) == {"planner": "base/planner", "coder": "base/coder"}
    arms = {job.spec["arm"]: job.spec["weights"] for job in evaluation_jobs(bare, tmp_path)}
    assert arms["sft/team"] == {"planner": "base/planner", "coder": "base/coder"}
    assert arms["final/team"] == {"planner": "base/planner", "coder": "coder_grpo"}


def test_single_models_get_the_whole_budget_of_the_team(tmp_path: Path) -> None:
    tiny = profile(coder_grpo={**PHASE, "steps": 3}, sft={"epochs": 1.5})
    first, second = baseline_jobs(tiny, tmp_path)
    assert [job.name for job in first] == ["baselines/single_direct_sft", "baselines/single_thought_sft"]
    assert [job.name for job in second] == ["baselines/single_direct", "baselines/single_thought"]
    assert {job.spec["sft"]["epochs"] for job in first} == {3.0}
    assert {job.spec["grpo"]["steps"] for job in second} == {4}
    assert [job.spec["team"] for job in second] == [["coder"], ["solver"]]
    assert [job.spec["grpo"]["sampling"]["max_tokens"] for job in second] == [12, 24]
    assert weights(second[0]) == {"coder": "baselines/single_direct_sft"}
    assert baseline_jobs(profile(evaluation={**TINY["evaluation"], "arms": ["final/team"]}), tmp_path) == []
    arms = ["coder-grpo-only/team"]
    ((ablation,),) = baseline_jobs(profile(evaluation={**TINY["evaluation"], "arms": arms}), tmp_path)
    assert weights(ablation) == {"planner": "sft_warmup/planner", "coder": "sft_warmup/coder"}


def test_a_job_is_complete_only_with_its_own_result(tmp_path: Path) -> None:
    job = grpo_job(profile(), tmp_path, "planner")
    assert job is not None
    assert not job.done
    path = job.write()
    assert spec_digest(json.loads(path.read_text())) == read_spec(path)[1]
    write_json(job.folder / "result.json", {"spec": spec_digest(job.spec)})
    assert job.done
    often = profile(planner_grpo={**PHASE, "checkpoint_every": 1}, execution={"keep_checkpoints": 5})
    for same in (profile(name="other"), profile(evaluation={"samples": 1}), often):
        again = grpo_job(same, tmp_path, "planner")
        assert again is not None
        assert again.done, "labels, checkpoints and the evaluation do not change a training"
    changed = grpo_job(profile(seed=1), tmp_path, "planner")
    assert changed is not None
    assert not changed.done


def test_a_job_file_with_a_misspelt_field_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = sft_jobs(profile(), tmp_path)[0]
    job.spec["sft"]["batchsize"] = 3
    assert main([str(job.write())]) == 2
    assert "sft.batchsize" in capsys.readouterr().err
    assert main([str(tmp_path / "none.json")]) == 2
    assert main([]) == 2


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole run of tiny jobs in this process."""
    need_sandbox()
    run = tmp_path_factory.mktemp("chain")
    tiny = profile()
    make_problems(tiny, run)
    jobs = [*sft_jobs(tiny, run), grpo_job(tiny, run, "planner"), grpo_job(tiny, run, "coder")]
    jobs += [job for wave in baseline_jobs(tiny, run) for job in wave]
    for job in [*jobs, *evaluation_jobs(tiny, run)]:
        assert job is not None
        run_job(job.write())
        assert job.done
    yield run
    shutil.rmtree(run)


def test_every_stage_leaves_what_the_next_needs(chain: Path) -> None:
    for name in ("sft_warmup/planner", "sft_warmup/coder", "planner_grpo", "coder_grpo", "baselines/single_thought"):
        assert (chain / name / "model" / "model.safetensors").is_file()
        assert (chain / name / "metrics.jsonl").read_text()
    assert (chain / "planner_grpo" / "samples.jsonl").read_text()
    result = json.loads((chain / "coder_grpo" / "result.json").read_text())
    assert "reward/mean" in result["metrics"]
    assert "validation/pass@1/team" in result["metrics"]


def test_rows_are_complete_and_in_order(chain: Path) -> None:
    for arm, roles in (("final__team", {"planner", "coder"}), ("single-thought__final", {"solver"})):
        for temperature in ("0.2", "1"):
            lines = (chain / "evaluation" / arm / f"T{temperature}.jsonl").read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            assert [(row["problem_id"], row["sample"]) for row in rows] == [
                (f"dials-test-{i:05d}", sample) for i in range(4) for sample in range(2)
            ]
            assert all(set(row["tokens"]) == roles for row in rows)
            assert all(row["missing"] is None and row["verdict"] and row["total"] > 0 for row in rows)
            assert list(rows[0]) == sorted(rows[0])
    progress = (chain / "evaluation" / "final__team" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(progress[-1])["step"] == json.loads(progress[-1])["of"]


def test_a_job_repeats_byte_for_byte(chain: Path) -> None:
    def digest() -> dict[str, str]:
        texts = [
            json.dumps({k: v for k, v in json.loads(line).items() if k != "seconds"})
            for line in (chain / "planner_grpo" / "metrics.jsonl").read_text().splitlines()
        ]
        model = (chain / "planner_grpo" / "model" / "model.safetensors").read_bytes()
        return {"metrics": "\n".join(texts), "model": hashlib.sha256(model).hexdigest()}

    before = digest()
    job = grpo_job(profile(), chain, "planner")
    assert job is not None
    run_job(job.write())
    assert digest() == before


WILD = {"learning_rate": 1e30}


@pytest.mark.parametrize(
    ("phase", "changes", "what"),
    [
        (
            "sft_warmup/coder",
            {"sft": {**TINY["sft"], **WILD, "epochs": 20}},
            r"(loss|grad_norm) is \S+ at step 10 of 60",
        ),
        ("sft_warmup/coder", {"sft": {**TINY["sft"], **WILD}}, r"\S+ holds values that are not finite"),
        (
            "coder_grpo",
            {"coder_grpo": {**PHASE, **WILD, "steps": 4, "checkpoint_every": 1}},
            r"(loss|grad_norm) is nan at step \d of 4",
        ),
    ],
)
def test_a_training_that_diverges_ends_without_a_model(
    chain: Path, tmp_path: Path, phase: str, changes: dict[str, Any], what: str
) -> None:
    for name in ("problems", "tokenizer", "sft_warmup", "planner_grpo"):
        shutil.copytree(chain / name, tmp_path / name)
    wild = profile(**changes)
    job = {job.name: job for job in (*sft_jobs(wild, tmp_path), grpo_job(wild, tmp_path, "coder")) if job}[phase]
    shutil.rmtree(job.folder, ignore_errors=True)
    with pytest.raises(
        UserError, match=rf"^the training has diverged: {what}.*; lower the learning_rate of its phase$"
    ):
        run_job(job.write())
    assert not job.done
    assert not (job.folder / "model").exists()


def test_only_right_references_are_taught(tmp_path: Path) -> None:
    need_sandbox()
    test = {"input": "2", "output": "4"}
    right, wrong = {"program": "print(int(input()) * 2)"}, {"program": "print(5)"}
    lines = [
        {"id": "a", "statement": "Double.", "tests": [test], "references": [right, wrong]},
        {"id": "b", "statement": "Twice.", "tests": [test], "references": [wrong]},
    ]
    data = tmp_path / "data"
    data.mkdir()
    for split in ("sft", "rl", "validation", "test"):
        rows = [{**line, "id": f"{split}-{line['id']}", "statement": f"{split} {line['statement']}"} for line in lines]
        (data / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = dict.fromkeys(("sft", "rl", "validation", "test"), 2)
    own = profile(dataset={"name": "file", "path": str(data), **sizes})
    make_problems(own, tmp_path / "run")
    kept = [json.loads(line) for line in (tmp_path / "run" / "problems" / "sft.jsonl").read_text().splitlines()]
    assert [[r["program"] for r in p.get("references", [])] for p in kept] == [[right["program"]], []]
    rows = [{**line, "id": f"sft-{line['id']}", "references": [wrong]} for line in lines]
    (data / "sft.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UserError, match="no reference program"):
        make_problems(own, tmp_path / "run2")


def test_a_complete_evaluation_leaves_no_ledger(chain: Path) -> None:
    assert not list(chain.glob("evaluation/*/unfinished"))


def test_problems_json_says_what_was_removed_refused_and_broken(tmp_path: Path) -> None:
    need_sandbox()
    folder = tmp_path / "data"
    folder.mkdir()
    test = [{"input": "2", "output": "4"}]
    names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"]
    right, wrong = [{"program": "print(int(input()) * 2)"}], [{"program": "print(5)"}]
    rows = [{"id": name, "statement": f"Double {name}.", "tests": test, "references": right} for name in names]
    rows[2]["references"] = wrong
    rows.append({**rows[0], "id": "again"})
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tests = [{"id": "t", "statement": "double BETA", "tests": test}]
    (folder / "test.jsonl").write_text(json.dumps(tests[0]) + "\n")
    own = profile(dataset={"name": "file", "path": str(folder), "sft": 5, "rl": 5, "validation": 1, "test": 1})
    summary = make_problems(own, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "problems" / "problems.json").read_text()) == json.loads(json.dumps(summary))
    (removed,) = summary["decontamination"]["removed"]
    assert (removed["split"], removed["problem"], removed["reason"]) == ("train", "beta", "same_words")
    source = summary["validation"]["sources"]["train"]
    assert [(one["problem"], one["reason"]) for one in source["refused"]] == [("again", "duplicate")]
    broken = [one["problem"] for issues in summary["validation"]["broken_tests"].values() for one in issues]
    assert broken == ["gamma"]
    kept = {split: read_split(tmp_path / "run" / "problems" / f"{split}.jsonl") for split in ("rl", "validation")}
    assert [p.flags for problems in kept.values() for p in problems if p.id == "gamma"] == [["broken_tests"]]
    without = profile(
        sft={"enabled": False},
        model={"path": "some/model"},
        dataset={"name": "file", "path": str(folder), "sft": 0, "rl": 5, "validation": 1, "test": 1},
    )
    assert make_problems(without, tmp_path / "other")["counts"] == {"sft": 0, "rl": 5, "validation": 1, "test": 1}
    assert read_split(tmp_path / "other" / "problems" / "sft.jsonl") == []


@pytest.mark.parametrize(("rank", "device", "visible"), [(None, 0, "4"), ("3", 3, "4,5,6,7")])
def test_a_rank_takes_its_own_gpu_before_models_are_loaded(
    rank: str | None, device: int, visible: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every rank loads its models onto the first one; a process without ranks sees one GPU alone."""
    import torch

    from corecode.training import job

    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    threads = torch.get_num_threads()
    for where, expected, seen in (("cuda", [device], visible), ("cpu", [], "4,5,6,7")):
        taken.clear()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
        execution = SimpleNamespace(threads=threads, device=where, ranks=1)
        spec: Any = SimpleNamespace(kind="grpo", profile=SimpleNamespace(execution=execution), seed=1)
        job._prepare(spec)  # pyright: ignore[reportPrivateUsage]
        assert (taken, os.environ["CUDA_VISIBLE_DEVICES"]) == (expected, seen)


def test_a_job_is_done_by_as_many_ranks_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batches are divided among them: fewer would train on a part of each, unnoticed."""
    sharded = profile(execution={"engine": "deepspeed", "ranks": 4})
    job_file = sft_jobs(sharded, tmp_path)[0].write()
    for started, said in ((None, "is 1;"), ("2", "is 2;")):
        monkeypatch.delenv("WORLD_SIZE", raising=False)
        if started:
            monkeypatch.setenv("WORLD_SIZE", started)
        with pytest.raises(UserError, match=f"execution.ranks of the job file is 4, but .* {said}"):
            run_job(job_file)
    assert [path.name for path in job_file.parent.iterdir()] == [job_file.name]


def test_ranks_let_the_frozen_roles_draw_apart(chain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rank draws as a process alone does."""
    from corecode.training import grpo

    seeds: list[int] = []

    class Seen(Exception): ...

    def look(scene: Any, *_rest: Any) -> None:
        seeds.append(scene.seed)
        raise Seen

    monkeypatch.setattr(grpo, "train", look)
    for name in ("problems", "tokenizer", "sft_warmup"):
        (tmp_path / name).symlink_to(chain / name)
    job = grpo_job(profile(), tmp_path, "planner")
    assert job is not None
    for rank in (None, "0", "1", "2"):
        if rank is not None:
            monkeypatch.setenv("RANK", rank)
        with pytest.raises(Seen):
            run_job(job.write())
    assert seeds[:2] == [job.spec["seed"]] * 2
    assert len(set(seeds)) == 3
