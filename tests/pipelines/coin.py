"""A training that takes seconds and still has something to reward: problems whose answer is 0 or 1 and cannot be known.

After the warm-up a tiny model writes ``print(0)`` or ``print(1)`` at random, so samples of a group earn different
rewards and a GRPO step moves the weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corecode.config import Profile

SIZES = {"sft": 96, "rl": 8, "validation": 4, "test": 4}
THOUGHT = "Input-Output: nothing -> one number\nSteps:\n1. print the number\nConditions: none\nIteration: none"
PHASE: dict[str, Any] = {
    "steps": 2,
    "prompts_per_step": 4,
    "group_size": 4,
    "learning_rate": 1e-3,
    "beta": 0.0,
    "sampling": {"max_tokens": 40},
    "partner_sampling": {"max_tokens": 16},
    "validate_every": 2,
}


def write_problems(folder: Path) -> Path:
    """Write the four problem files into a new folder, and return it."""
    folder.mkdir(parents=True)
    for split, count in SIZES.items():
        rows = [
            {
                "id": f"{split}{i}",
                "statement": f"Print the number of {split} {i}.",
                "tests": [{"input": "", "output": str(i % 2)}],
                "references": [{"program": f"print({i % 2})", "thought": THOUGHT}],
            }
            for i in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def profile(data: Path, width: int = 32, ranks: int = 1, phase: dict[str, Any] = PHASE, **execution: Any) -> Profile:
    """The training on the problems in ``data``; a warm-up step takes 8 examples over all ranks."""
    return Profile.model_validate(
        {
            "name": "coin",
            "description": "test",
            "hardware": "any",
            "expected_minutes": 1,
            "prompts": "compact",
            "dataset": {"name": "file", "path": str(data), **SIZES},
            "model": {"scratch": {"width": width, "layers": 2, "heads": 2, "vocabulary": 400}},
            "sft": {
                "epochs": 4,
                "batch_size": 8 // ranks,
                "warmup_steps": 1,
                "optimizer": "adamw",
                "learning_rate": 1e-2,
                "coder_without_thought": 0,
                "coder_without_problem": 0,
            },
            "planner_grpo": phase,
            "coder_grpo": phase,
            "sandbox": {"cost": "steps"},
            "execution": {"ranks": ranks, **execution},
        }
    )


def need_sandbox(missing_requirement: Callable[[str], None], backend: str = "auto") -> None:
    """End the test where no sandbox works."""
    from sandbox import SandboxUnavailable, open_sandbox

    try:
        open_sandbox(backend, workers=1).close()
    except SandboxUnavailable as error:
        missing_requirement(f"no sandbox: {error}")
