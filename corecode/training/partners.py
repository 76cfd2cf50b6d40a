"""Who answers for the roles that a job does not train: a model in the job's own process, or a server."""

from __future__ import annotations

from collections.abc import Generator as Yields
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from corecode.errors import UserError
from corecode.generation.generator import Generator
from corecode.training.spec import JobSpec

if TYPE_CHECKING:
    from corecode.config import Profile
    from corecode.generation.openai import OpenAIGenerator


def frozen_roles(spec: JobSpec) -> tuple[str, ...]:
    """The roles that a job samples and does not train: all of an evaluation, the partners of a GRPO phase."""
    return tuple(name for name in spec.team if name != spec.role) if spec.kind != "sft" else ()


def model_source(spec: JobSpec, name: str) -> str:
    """The folder (or hub id) of a role's weights, for a server to load.

    Raises:
        UserError: for an untrained model from scratch, which no folder holds.
        InfrastructureError: when the job that should have saved it is not complete.
    """
    from corecode.training.weights import BASE, saved_model

    folder = spec.weights[name]
    if not folder.startswith(BASE):
        return str(saved_model(spec.run, folder))
    return base_source(spec.profile)


def base_source(profile: Profile) -> str:
    """The folder (or hub id) of the model that every role starts from.

    Raises:
        UserError: for a model from scratch.
    """
    if profile.model.scratch is not None:
        raise UserError(
            "an untrained model from scratch cannot be served; set execution.partner to transformers, or train every"
            " role first (sft.enabled: true, and no base/ arm in evaluation.arms)"
        )
    from corecode.models import model_origin

    return model_origin(profile.model)


@contextmanager
def open_generators(spec: JobSpec, names: Sequence[str]) -> Yields[dict[str, Generator]]:
    """A generator for each named role: on the server that the job file gives, else in this process, where roles with
    the same weights share a model.

    Under ZeRO-3 this comes before the trainer's configuration exists: it would shard these models too.
    """
    with ExitStack() as stack:
        opened: dict[str, Generator] = {}
        loaded: dict[str, Generator] = {}
        for name in names:
            url, folder = spec.servers.get(name), spec.weights[name]
            if url is not None:
                opened[name] = stack.enter_context(_remote(spec, name, url))
            else:
                opened[name] = loaded[folder] = loaded.get(folder) or _local(spec, folder)
        yield opened


def _remote(spec: JobSpec, name: str, url: str) -> OpenAIGenerator:
    from corecode.generation.openai import VLLM_OPTIONS, OpenAIGenerator

    options = VLLM_OPTIONS if spec.profile.execution.partner == "vllm" else None
    return OpenAIGenerator(url, name, options=options)


def _local(spec: JobSpec, folder: str) -> Generator:
    from corecode.generation.transformers import TransformersGenerator
    from corecode.training.weights import load

    model, tokenizer = load(spec.profile, spec.run, folder)
    return TransformersGenerator(model.requires_grad_(False), tokenizer, spec.profile.execution.generation_batch)
