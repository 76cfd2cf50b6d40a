"""Checks of a resolved profile before anything expensive: what it names must exist and work, and there must be room.

:func:`check_inputs` looks at files only. :func:`preflight` tries what a run needs, in a second or two for small models;
``corecode doctor PROFILE`` shows each line of it.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from corecode.config import Profile
from corecode.errors import InfrastructureError, UserError
from corecode.models import check_model
from pipelines.home import GIB, folder_bytes, home_folder, require_room

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_passed: set[str] = set()
"""Profiles that this process has tried already."""


@dataclass(frozen=True)
class Passed:
    """A check that went well."""

    topic: str
    fact: str


def is_hub_id(path: str) -> bool:
    """Whether a model path names a model on the Hugging Face hub (``owner/name``) rather than a folder here."""
    if Path(path).expanduser().exists() or not _HUB_ID.fullmatch(path):
        return False
    owner = path.partition("/")[0]
    return owner not in (".", "..") and not Path(owner).is_dir()


def check_inputs(profile: Profile, problems: bool = True) -> None:
    """Check what the profile names: the model, and unless ``problems`` is False the problem files.

    Raises:
        UserError: naming the file or field.
    """
    if problems and profile.dataset.path is not None:
        from corecode.datasets import load

        load(profile.dataset)
    path = profile.model.path
    if path is not None and not is_hub_id(path) and not Path(path).expanduser().is_dir():
        raise UserError(f"model.path: there is no model folder {path} (and it is not a hub id such as owner/name)")
    check_model(profile.model)


def needed_bytes(profile: Profile) -> int:
    """Free space that a run needs, generously: each stage keeps one copy of a model and its best one, the stage at work
    its checkpoints, and stores keep their records."""
    from pipelines.memory import checkpoint_bytes, parameters

    folder = _model_folder(profile)
    model = folder_bytes(folder) if folder is not None else 0
    if profile.model.package is not None:
        model = GIB // 4
    count = parameters(profile.model, folder) or model // 4
    # Those of the job at work that are kept, and the one being written.
    checkpoints = (profile.execution.keep_checkpoints + 1) * checkpoint_bytes(profile, count)
    return GIB // 4 + 8 * model + checkpoints


def preflight(profile: Profile) -> None:
    """Try everything that the profile needs; once for a profile in a process.

    Raises:
        UserError, InfrastructureError: naming what fails and the remedy.
    """
    key = profile.model_dump_json()
    if key not in _passed:
        for check in CHECKS:
            for _passed_check in check(profile):
                pass
        _passed.add(key)


def _model_folder(profile: Profile) -> Path | None:
    path = profile.model.path
    return Path(path).expanduser() if path is not None and not is_hub_id(path) else None


def _model(profile: Profile) -> Iterator[Passed]:
    """Configuration and tokenizer can be read and the weights are there."""
    from pipelines.memory import parameters

    model, folder = profile.model, _model_folder(profile)
    count = parameters(model, folder)
    if model.scratch is not None:
        yield Passed("model", f"made from nothing, {count:,} parameters")
        return
    check_model(model)
    if model.path is not None:
        from corecode.models import load_config, load_tokenizer

        load_config(model)
        load_tokenizer(model)
    size = f"{count / 1e9:.2f} billion parameters" if count else "size not known before it is loaded"
    yield Passed("model", f"{model.path or model.package}: configuration and tokenizer can be read, {size}")


def _devices(profile: Profile) -> Iterator[Passed]:
    """The profile's device is there, and memory for what is certain to be held."""
    from pipelines.memory import need, parameters

    ranks = profile.execution.ranks if profile.execution.engine == "deepspeed" else 1
    if profile.execution.device == "cuda":
        import torch

        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        wanted = max(ranks, profile.execution.server.gpus if profile.execution.partner == "vllm" else 1)
        if found < wanted:
            raise UserError(
                f"execution.device is cuda with {wanted} GPUs, but torch can use {found} here; run on a GPU node, lower"
                " execution.ranks and execution.server.gpus, or choose a profile for CPUs (quickstart, smollm2)"
            )
        total = min(torch.cuda.get_device_properties(i).total_memory for i in range(ranks))
    else:
        total = available_memory()
    count = parameters(profile.model, _model_folder(profile))
    if count is None:
        yield Passed("memory", f"{total / GIB:.0f} GiB; what the model needs is not known before it is loaded")
        return
    wants = need(profile, count)
    where = "each GPU" if profile.execution.device == "cuda" else "this machine"
    reserved = f", and vLLM takes {wants.reserved:.0%} of it" if wants.reserved else ""
    fact = f"{wants.total / GIB:.1f} GiB at least, without activations; {where} has {total / GIB:.1f}{reserved}"
    if not wants.fits(total):
        raise UserError(
            f"the run does not fit: it needs {fact}; use more ranks, execution.zero_stage 3, execution.zero_offload,"
            " model.lora, or a smaller model; or spread vLLM's weights over more GPUs (execution.sampler_gpus,"
            " execution.server.gpus)"
        )
    yield Passed("memory", fact)


def _disk(profile: Profile) -> Iterator[Passed]:
    """Room for the models and checkpoints that the run keeps."""
    home = home_folder()
    existing = next(parent for parent in (home, *home.parents) if parent.exists())
    needed = needed_bytes(profile)
    require_room(existing, needed)
    free = shutil.disk_usage(existing).free
    yield Passed("disk", f"{needed / GIB:.1f} GiB for models and checkpoints; {free / GIB:.0f} free at {existing}")


def _sandbox(profile: Profile) -> Iterator[Passed]:
    """A program known to be right is accepted and one known to be wrong is not."""
    from corecode.execution import open_configured
    from sandbox import Program, TestCase, Verdict

    tests = (TestCase.stdio("2\n", "3\n"), TestCase.stdio("-1\n", "0\n"))
    with open_configured(profile.sandbox) as sandbox:
        programs = [Program(f"print(int(input()) + {step})", tests) for step in (1, 2)]
        right, wrong = (judgement.verdict for judgement in sandbox.judge(programs))
        name = sandbox.backend
    if (right, wrong) != (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
        raise InfrastructureError(
            f"the sandbox {name} judges wrongly: {right.value} for a right program, {wrong.value} for a wrong one;"
            " see corecode doctor, or set sandbox.backend to another one"
        )
    yield Passed("sandbox", f"{name} tells a right program from a wrong one")


def _ranks(profile: Profile) -> Iterator[Passed]:
    """What DeepSpeed compiles is compiled before ranks wait for it."""
    from pipelines.launchers.extensions import build_extensions
    from pipelines.launchers.local import job_environment

    execution = profile.execution
    if execution.engine == "deepspeed":
        build_extensions(job_environment(execution.threads, execution.device, offline=True))
        yield Passed("deepspeed", f"{execution.ranks} ranks on {execution.device}, ZeRO stage {execution.zero_stage}")


def _sampler(profile: Profile) -> Iterator[Passed]:
    """vLLM is in the trainer's own environment where it samples the role under training."""
    if profile.execution.sampler != "vllm":
        return
    if importlib.util.find_spec("vllm") is None:
        raise UserError(
            "execution.sampler vllm needs vLLM in the environment of the training: pip install -e '.[gpu]'; or set"
            " execution.sampler to transformers"
        )
    yield Passed("sampler", f"vLLM {metadata.version('vllm')} beside the trainer")


def _server(profile: Profile) -> Iterator[Passed]:
    """A server for frozen roles starts on the base model and answers."""
    from pipelines.launchers.server import ModelServer, ServerOptions, server_python

    execution = profile.execution
    if execution.partner != "vllm":
        return
    python = server_python(execution.server.python)
    if profile.model.scratch is not None:
        yield Passed("server", f"vLLM at {python}; there is no model to try it with before the warm-up")
        return
    from corecode.config import SamplingConfig
    from corecode.generation.openai import VLLM_OPTIONS, OpenAIGenerator
    from corecode.training.partners import base_source
    from pipelines.launchers.local import free_port

    options = ServerOptions(
        model=base_source(profile),
        names=("preflight",),
        dtype=profile.model.dtype,
        python=python,
        device=execution.device,
        gpus=execution.server.gpus,
        gpu_memory=execution.server.gpu_memory,
        port=free_port(),
    )
    home_folder().mkdir(parents=True, exist_ok=True)
    server = ModelServer.start(options, home_folder() / "server-preflight.log")
    try:
        server.wait_ready()
        with OpenAIGenerator(options.url, *options.names, options=VLLM_OPTIONS) as generator:
            generator.generate([[{"role": "user", "content": "1 + 1 ="}]], 1, SamplingConfig(max_tokens=4), seed=0)
    finally:
        server.end()
    yield Passed("server", f"vLLM at {python} serves {options.model}")


CHECKS: tuple[Callable[[Profile], Iterator[Passed]], ...] = (
    _model,
    _devices,
    _disk,
    _sampler,
    _sandbox,
    _ranks,
    _server,
)
"""What a run needs, cheap checks first."""


def available_memory() -> int:
    """Bytes of memory that this machine can still give."""
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise InfrastructureError("/proc/meminfo does not say how much memory is available")
