"""A key for everything that decides a job's outcome. Equal keys: running the job again would give the same again.

The key is a digest over the part of the profile that this kind of job reads, the job's own settings and seed, the
*contents* of the problem files and of the weights that it starts from, the code, and the versions of Python and of the
libraries that compute. Not in it: where the run lies, what it is called, how many jobs or workers run at a time.

A setting counts unless it is named below as one that a kind of job never reads: a new field of the profile is safe
without a change here, it can only make a job run again that need not have.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from corecode.arms import arm
from corecode.training.records import MODEL
from corecode.training.spec import without_checkpointing
from corecode.training.weights import BASE, TOKENIZER

ROOT = Path(__file__).parent.parent
LIBRARIES = ("torch", "transformers", "trl", "tokenizers", "numpy", "accelerate", "peft", "deepspeed", "vllm")
NOT_IN_JOBS = ("corecode/evaluation", "corecode/datasets", "corecode/stages.py", "corecode/stored.py")
"""Code that no job runs: it makes the problems (whose content counts) and the report, or uses a finished team."""

READS = {"sft": ("sft",), "grpo": ("rl", "validation"), "evaluate": ("test",)}
"""Splits that each kind of job reads."""

_SETTLED = (
    *("dataset", "rounds", "sft", "planner_grpo", "coder_grpo"),
    *("model.path", "model.package", "execution.engine", "execution.zero_stage", "execution.zero_offload"),
)
"""What reaches a job resolved: as problem files, as weights, as DeepSpeed's file, or as the job's own ``sft`` or
``grpo``."""
_WITHOUT_INFLUENCE = (
    *("name", "description", "hardware", "expected_minutes", "promotion"),
    *("sandbox.workers", "execution.parallel", "execution.server", "execution.sampler_memory"),
)
"""What changes no job's outcome: labels, the gate, how much is done at a time and where."""
_SAMPLING = ("execution.sampler", "execution.sampler_gpus")
_UNREAD: dict[str, tuple[str, ...]] = {
    "sft": ("rewards", "sandbox", "evaluation", "execution.generation_batch", "execution.partner", *_SAMPLING),
    "grpo": ("evaluation",),
    "evaluate": (
        *("rewards", "model.lora", "evaluation.arms", "evaluation.bootstrap"),
        *("execution.ranks", "execution.micro_batch", *_SAMPLING),
    ),
}
"""What a kind of job does not read of the other sections."""
_OF_HELPERS = ("rewards.kappa", "rewards.kappa_time", "rewards.time_weight")
_OF_THE_LAST = ("rewards.space_weight", "rewards.memory_floor_mb")
"""Rewards of the roles before the last, which helps others, and of the last, which writes the program."""


def content_key(spec: Mapping[str, Any]) -> str | None:
    """The key of a job (``corecode.stages.Job.spec``); None where what it starts from cannot be identified: an input
    is not there yet, or a model of the hub was never downloaded."""
    run = Path(spec["run"])
    try:
        problems = {split: file_digest(run / "problems" / f"{split}.jsonl") for split in READS[spec["kind"]]}
        weights = {role: _weights(spec["profile"], run, folder) for role, folder in spec["weights"].items()}
    except FileNotFoundError:
        return None
    if None in weights.values():
        return None
    facts = {
        "settings": relevant_settings(spec),
        "problems": problems,
        "weights": weights,
        "deepspeed": spec["deepspeed"] and file_digest(Path(spec["deepspeed"])),
        "code": code_digest(),
        "versions": library_versions(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def relevant_settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A job's settings without those that cannot change its outcome."""
    spec = json.loads(json.dumps(without_checkpointing(spec)))
    for name in (*_SETTLED, *_WITHOUT_INFLUENCE, *_UNREAD[spec["kind"]], *_unread_here(spec)):
        section, _, field = name.partition(".")
        if field:
            spec["profile"].get(section, {}).pop(field, None)
        else:
            spec["profile"].pop(section, None)
    if spec["grpo"]:
        # It ends jobs; one from which a sample was lost is never reused.
        del spec["grpo"]["max_infrastructure_loss"]
        if _writes_program(spec):
            del spec["grpo"]["programs_per_sample"]
    elsewhere = ("run", "output", "weights", "deepspeed", "servers")  # by content, or of no influence
    return {name: value for name, value in spec.items() if name not in elsewhere}


def _unread_here(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What this job does not read, though others of its kind do."""
    if spec["kind"] == "grpo":
        return _OF_HELPERS if _writes_program(spec) else _OF_THE_LAST
    if spec["kind"] == "evaluate" and arm(spec["arm"]).prompted is None:
        return ("evaluation.prompted",)
    return ()


def _writes_program(spec: Mapping[str, Any]) -> bool:
    return spec["team"][-1] == spec["role"]


def _weights(profile: Mapping[str, Any], run: Path, folder: str) -> str | None:
    """What identifies the weights that a role starts from; None when nothing does."""
    if folder.startswith(BASE):
        return base_identity(profile["model"], folder, run / TOKENIZER)
    return folder_digest(run / folder / MODEL)


def base_identity(model: Mapping[str, Any], folder: str, tokenizer: Path) -> str | None:
    """What identifies the untrained model of a role; None for one of the hub that was never downloaded.

    Args:
        model: the section ``model`` of a profile.
        folder: ``base/<role>``.
        tokenizer: folder of the run's tokenizer; read for a model made from nothing alone.

    Raises:
        FileNotFoundError: the tokenizer is not there.
    """
    if model["scratch"] is not None:  # its random weights follow from the seed, the sizes and the tokenizer
        return f"scratch {folder} {folder_digest(tokenizer)}"
    if model["package"] is not None:
        return f"package {model['package']} {metadata.version(model['package'])}"
    local = Path(model["path"]).expanduser()
    return folder_digest(local) if local.is_dir() else _hub_revision(model["path"])


def _hub_revision(name: str) -> str | None:
    """Name and revision of a hub model that is on this disk."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    return f"hub {name} {Path(found).parent.name}" if isinstance(found, str) else None


def folder_digest(folder: Path) -> str:
    """Digest over the names and contents of all files in a folder.

    Raises:
        FileNotFoundError: there is no such folder, or no file in it.
    """
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not names:
        raise FileNotFoundError(f"{folder} holds no file")
    return _digest_of({name: file_digest(folder / name) for name in names})


def file_digest(path: Path) -> str:
    """SHA-256 of a file. A file that has not changed since the last look is not read again."""
    stat = path.stat()
    return _read_digest(str(path), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _read_digest(path: str, *_identity: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Digest of the source code, prompts and filter of system calls that jobs run: not of how the code is laid out, nor
    of comments."""
    return _digest_of({path.relative_to(ROOT).as_posix(): _code(path) for path in job_sources()})


def job_sources() -> Iterator[Path]:
    """The files of ``corecode`` and ``sandbox`` that can change what a job does, in order."""
    for room in ("corecode", "sandbox"):
        for path in sorted((ROOT / room).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".py", ".txt", ".json") and not name.startswith(NOT_IN_JOBS):
                yield path


def _code(path: Path) -> str:
    """A Python file counts as its syntax tree."""
    text = path.read_text(encoding="utf-8")
    return ast.dump(ast.parse(text)) if path.suffix == ".py" else text


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that compute."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _digest_of(named: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
