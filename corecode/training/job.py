"""The job program: ``python -m corecode.training.job JOB.json``. One job, from its file to its folder.

Exit code 0: ``result.json`` is there. 2: a user's mistake, one sentence on standard error; also when a library refuses
the settings (a ``ValueError``), whose traceback then stands before the sentence: trying again would end the same. 1:
anything else.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from corecode.errors import InfrastructureError, UserError
from corecode.training.checkpoints import Checkpoints
from corecode.training.ledger import UNFINISHED
from corecode.training.records import MODEL, RESULT, Journal, write_json
from corecode.training.spec import JobSpec, read_spec


def main(arguments: list[str] | None = None) -> int:
    """Run the job file given as the only argument."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if len(given) != 1:
            raise UserError("give exactly one argument: the job file")
        run_job(Path(given[0]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except InfrastructureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ValueError as error:
        traceback.print_exc()
        reason = " ".join(str(error).split())
        print(f"error: these settings do not go together ({type(error).__name__}: {reason})", file=sys.stderr)
        return 2
    return 0


def run_job(path: Path) -> None:
    """Run one job; returns when its result is written.

    Raises:
        UserError, InfrastructureError: see :mod:`corecode.errors`.
    """
    spec, digest = read_spec(path)
    _prepare(spec)
    checkpoints = Checkpoints(spec.folder, digest, spec.profile.execution.keep_checkpoints)
    train = {"sft": _sft, "grpo": _grpo}
    metrics = _evaluate(spec, digest) if spec.kind == "evaluate" else train[spec.kind](spec, checkpoints)
    if _is_main_process():
        write_json(spec.folder / RESULT, {"spec": digest, "kind": spec.kind, "metrics": metrics})
        checkpoints.finish()
        shutil.rmtree(spec.folder / UNFINISHED, ignore_errors=True)


def _prepare(spec: JobSpec) -> None:
    """Fix what the order of sums and of draws depends on; keep known noise of libraries out of the log; take the rank's
    own GPU.

    Raises:
        UserError: when other ranks than the job's were started: its batches are divided among those.
    """
    started, wanted = int(os.environ.get("WORLD_SIZE", "1")), spec.profile.execution.ranks
    if spec.kind != "evaluate" and started != wanted:
        raise UserError(
            f"execution.ranks of the job file is {wanted}, but the number of processes that were started is {started};"
            " start as many with DeepSpeed's launcher, or change the job file"
        )
    if spec.profile.execution.device == "cuda" and "LOCAL_RANK" not in os.environ:
        # One process, one GPU: with several in sight transformers would divide each batch among them.
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    for library in ("transformers", "trl", "torch"):
        warnings.filterwarnings("ignore", category=FutureWarning, module=library)
    import torch
    import transformers

    torch.set_num_threads(spec.profile.execution.threads)
    if spec.profile.execution.device == "cuda":
        # Models are loaded before the trainer chooses a device, and "cuda" alone is the first GPU on every rank.
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    transformers.set_seed(spec.seed % 2**32)
    transformers.utils.logging.disable_progress_bar()


def _rank() -> int:
    """This process' number among the ranks, before they have met."""
    return int(os.environ.get("RANK", "0"))


def _is_main_process() -> bool:
    import torch.distributed as dist

    return not dist.is_initialized() or dist.get_rank() == 0


def _sft(spec: JobSpec, checkpoints: Checkpoints) -> dict[str, float]:
    from corecode.roles.roles import role
    from corecode.training import sft
    from corecode.training.examples import encode, examples

    if spec.sft is None:
        raise UserError("an sft job needs the field 'sft'")
    profile = spec.profile
    rows = examples(role(spec.role, profile.prompts), len(spec.team) > 1, _problems(spec, "sft"), spec.sft, spec.seed)
    policy, tokenizer = _policy(spec)
    journal = _journal(spec, checkpoints)
    trainer = sft.train(
        policy,
        tokenizer,
        encode(tokenizer, rows),
        spec.sft,
        profile.execution,
        journal,
        checkpoints,
        spec.seed,
        spec.deepspeed,
    )
    _save(trainer, tokenizer, spec)
    return journal.latest


def _grpo(spec: JobSpec, checkpoints: Checkpoints) -> dict[str, float]:
    from corecode.execution import Executor, open_configured
    from corecode.generation.generator import derive_seed
    from corecode.training import grpo
    from corecode.training.partners import frozen_roles, open_generators
    from corecode.training.scene import Scene

    if spec.grpo is None:
        raise UserError("a grpo job needs the field 'grpo'")
    profile, config = spec.profile, spec.grpo
    if config.beta and profile.model.scratch and spec.weights[spec.role].startswith("base/"):
        raise UserError("beta above 0 needs a warm-up to stay close to; set sft.enabled to true or beta to 0")
    # Frozen models come first: a DeepSpeed configuration that exists would shard them too.
    with open_generators(spec, frozen_roles(spec)) as partners, open_configured(profile.sandbox) as sandbox:
        policy, tokenizer = _policy(spec)
        journal = _journal(spec, checkpoints)
        executor = Executor(sandbox)
        # Ranks with the same seed would let the frozen roles draw the same numbers for different problems.
        seed = derive_seed(spec.seed, "rank", _rank()) if _rank() else spec.seed
        scene = Scene(_team(spec), spec.role, partners, config, profile.rewards, executor, profile.sandbox.cost, seed)
        trainer = grpo.train(
            scene,
            policy,
            tokenizer,
            _problems(spec, "rl"),
            _problems(spec, "validation"),
            partners,
            profile.execution,
            journal,
            checkpoints,
            spec.seed,
            spec.deepspeed,
        )
    _save(trainer, tokenizer, spec)
    return journal.latest


def _evaluate(spec: JobSpec, digest: str) -> dict[str, float]:
    from corecode.arms import arm
    from corecode.execution import Executor, open_configured
    from corecode.fingerprint import content_key
    from corecode.training.evaluate import Bench, evaluate
    from corecode.training.partners import frozen_roles, open_generators

    profile = spec.profile
    batch = profile.execution.generation_batch
    team = arm(spec.arm).prompted or _team(spec)
    with open_generators(spec, frozen_roles(spec)) as generators, open_configured(profile.sandbox) as sandbox:
        executor = Executor(sandbox, remember=True)
        bench = Bench(spec.arm, team, generators, profile.evaluation, executor, spec.seed, batch)
        identity = content_key(spec.model_dump(mode="json")) or digest
        return evaluate(bench, _problems(spec, "test"), _journal(spec), spec.folder, identity)


def _problems(spec: JobSpec, split: str) -> list[Any]:
    from corecode.problems import read_problems

    return read_problems(spec.run / "problems" / f"{split}.jsonl")


def _team(spec: JobSpec) -> Any:
    from corecode.roles.roles import role
    from corecode.teams import Team

    return Team(tuple(role(name, spec.profile.prompts) for name in spec.team))


def _load(spec: JobSpec, name: str) -> tuple[Any, Any]:
    from corecode.training.weights import load

    return load(spec.profile, spec.run, spec.weights[name])


def _policy(spec: JobSpec) -> tuple[Any, Any]:
    """The model to train, with adapters where the profile wants them."""
    from corecode.models import add_adapters

    model, tokenizer = _load(spec, spec.role)
    lora = spec.profile.model.lora
    return (add_adapters(model, lora, spec.seed) if lora else model), tokenizer


def _journal(spec: JobSpec, checkpoints: Checkpoints | None = None) -> Journal:
    """The job's journal, which keeps what lies before the checkpoint to continue from. Only the first of several ranks
    writes and cleans up."""
    first = _rank() == 0
    if checkpoints is None:
        return Journal(spec.folder, writes=first)
    if first:
        checkpoints.clean()
    start = checkpoints.start
    if start is not None and first:
        print(f"{spec.output} continues after step {start.step}")
    return Journal(spec.folder, start.journal if start else None, writes=first)


def _save(trainer: Any, tokenizer: Any, spec: JobSpec) -> None:
    """Save the trained policy as a plain folder; the main process writes, all ranks take part in the gathering."""
    from corecode.models import save_model
    from corecode.training.divergence import check_weights
    from corecode.training.ranks import gathered

    with gathered(trainer) as model:
        if _is_main_process():
            check_weights(model)
            save_model(model, tokenizer, spec.folder / MODEL)
    trainer.accelerator.wait_for_everyone()


if __name__ == "__main__":
    raise SystemExit(main())
