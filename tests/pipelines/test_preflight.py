"""What is tried before a run begins: each failure is one sentence with its remedy."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coin
import pytest

from corecode.config import ModelConfig, Profile, ScratchConfig, ServerConfig
from corecode.errors import InfrastructureError, UserError
from pipelines import doctor, preflight
from pipelines.home import GIB
from pipelines.launchers.extensions import extensions_folder, stale_locks
from pipelines.memory import checkpoint_bytes, need, parameters
from pipelines.preflight import Passed, needed_bytes
from pipelines.profiles import load_profile


def tried(name: str, profile: Profile) -> list[Passed]:
    """What the check of this name finds."""
    (check,) = (check for check in preflight.CHECKS if check.__name__ == f"_{name}")
    return list(check(profile))


def changed(name: str, **execution: Any) -> Profile:
    profile = load_profile(name)
    return profile.model_copy(update={"execution": profile.execution.model_copy(update=execution)})


def test_the_quickstart_passes_and_the_doctor_shows_it(
    missing_requirement: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    coin.need_sandbox(missing_requirement)
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "home"))
    assert doctor.examine("quickstart") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [
        ["ok", topic] for topic in ("inputs", "model", "memory", "disk", "sandbox")
    ]
    assert lines[-1] == "The profile quickstart can run here: corecode run quickstart"
    assert not (tmp_path / "home").exists()


def test_a_profile_that_cannot_run_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_profile: Profile) -> Any:
        raise UserError("the disk is full: 1 GiB; free some space")

    monkeypatch.setattr(preflight, "CHECKS", (fails,))
    assert doctor.examine("smoke") == 1
    out = capsys.readouterr().out
    assert "FAIL" in out.upper()
    assert "-> free some space" in out
    assert "The profile smoke cannot run here." in out
    with pytest.raises(UserError, match="free some space"):
        preflight.preflight(load_profile("smoke"))


def test_a_model_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}), encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    profile = load_profile("smollm2").model_copy(update={"model": ModelConfig(path=str(tmp_path))})
    with pytest.raises(UserError, match="cannot load the model in"):
        tried("model", profile)


def test_parameters_are_counted_without_loading(tmp_path: Path) -> None:
    from corecode.models import new_model, save_model, train_tokenizer

    scratch = ScratchConfig(width=32, layers=2, heads=2, vocabulary=300)
    tokenizer = train_tokenizer([f"print {i} and then {i * i}" for i in range(200)], 300)
    model = new_model(scratch, tokenizer, 0)
    save_model(model, tokenizer, tmp_path / "model")
    exact = sum(parameter.numel() for parameter in model.parameters())
    assert parameters(ModelConfig(path="x"), tmp_path / "model") == exact
    assert parameters(ModelConfig(scratch=scratch.model_copy(update={"vocabulary": len(tokenizer)})), None) == exact
    assert parameters(ModelConfig(path="owner/name"), None) is None


BILLION = 10**9


@pytest.mark.parametrize(
    ("changes", "states", "others"),
    [
        # 16 bytes a parameter over four GPUs, and a quarter of the reference model of the KL term.
        ({}, 4.0, 0.5),
        ({"zero_stage": 2}, 2 + 14 / 4, 2.0),
        ({"zero_stage": 1}, 2 + 2 + 12 / 4, 2.0),
        ({"zero_offload": True}, 2.0, 0.5),  # what each rank loads
        ({"ranks": 16}, 2.0, 0.125),
        ({"engine": "torch"}, 8.0, 2.0),
        ({"partner": "transformers"}, 4.0, 2.5),
    ],
)
def test_the_memory_of_a_billion_parameters(changes: dict[str, Any], states: float, others: float) -> None:
    found = need(changed("qwen2.5-coder-7b", **changes), BILLION)
    assert (found.states / BILLION, found.others / BILLION) == (states, others)
    assert found.reserved == pytest.approx(0.3 if changes.get("partner") else 0.5)
    assert found.fits(20 * GIB)
    assert not found.fits(int(found.states))


@pytest.mark.parametrize(
    ("profile", "count"),
    [("qwen2.5-coder-7b", 7_615_616_512), ("qwen2.5-coder-14b", 14_770_033_664), ("qwen3-4b", 4_022_468_096)],
)
def test_the_profiles_for_gpus_fit_on_80_gigabytes(profile: str, count: int) -> None:
    assert need(load_profile(profile), count).fits(85 * 10**9)


@pytest.mark.parametrize(
    "changes",
    [{"sampler_gpus": 1}, {"sampler_memory": 0.1, "server": ServerConfig(gpus=8, gpu_memory=0.3)}],
)
def test_weights_have_to_fit_where_vllm_and_the_trainer_hold_them(changes: dict[str, Any]) -> None:
    """A sampler's whole weights in its share; what is gathered to validate beside a server's share."""
    assert not need(changed("qwen2.5-coder-14b", **changes), 14_770_033_664).fits(85 * 10**9)


def test_adapters_are_merged_beside_the_weights_of_the_sampler() -> None:
    """TRL gathers the whole model for it in stage 3."""
    base = load_profile("qwen2.5-coder-14b", ["execution.server.gpu_memory=0.1"])
    lora = load_profile("qwen2.5-coder-14b", ["execution.server.gpu_memory=0.1", "model.lora.rank=16"])
    whole = 2 * 14_770_033_664
    assert need(base, whole // 2).gathered == whole
    assert need(lora, whole // 2).gathered == whole + whole // 4


def test_a_run_that_cannot_fit_is_refused_with_what_helps() -> None:
    large = load_profile("quickstart", ["model.scratch.width=65536", "model.scratch.heads=64"])
    with pytest.raises(UserError, match=r"does not fit: it needs [\d.]+ GiB at least.*use more ranks.*model\.lora"):
        tried("devices", large)
    with pytest.raises(UserError, match=r"the disk is full: .* and this needs"):
        tried("disk", large)
    assert needed_bytes(large) > 3 * checkpoint_bytes(large, parameters(large.model, None) or 0)


def test_gpus_that_are_not_there_are_missed_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="cuda with 4 GPUs, but torch can use 0 here; run on a GPU node"):
        tried("devices", load_profile("qwen2.5-coder-7b"))


def test_a_sampler_that_is_not_installed_is_missed_before_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"execution.sampler vllm needs vLLM .*\[gpu\]"):
        tried("sampler", load_profile("qwen3-4b"))
    assert tried("sampler", load_profile("smoke")) == []


def test_a_sandbox_that_accepts_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox import Judgement, Verdict

    class Blind:
        backend = "blind"

        def judge(self, programs: Any) -> list[Judgement]:
            return [Judgement(Verdict.ACCEPTED, (), 0, 0, 0.0, 0.0, 0.0, 0) for _ in programs]

        def __enter__(self) -> Blind:
            return self

        def __exit__(self, *_error: object) -> None: ...

    monkeypatch.setattr("corecode.execution.open_configured", lambda config: Blind())
    with pytest.raises(InfrastructureError, match="the sandbox blind judges wrongly: accepted for a right program"):
        tried("sandbox", load_profile("smoke"))


def test_only_a_lock_that_nobody_holds_is_stale(tmp_path: Path) -> None:
    folder = tmp_path / "py_cpu" / "deepspeed_shm_comm"
    folder.mkdir(parents=True)
    lock = folder / "lock"
    program = f"import os, sys; os.open({str(lock)!r}, os.O_CREAT | os.O_EXCL); print(1, flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert stale_locks(tmp_path) == []
    holder.kill()
    holder.communicate()
    assert stale_locks(tmp_path) == [lock]
    assert extensions_folder({"TORCH_EXTENSIONS_DIR": "/x"}) == Path("/x")
    assert extensions_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/torch_extensions")
