"""Finished runs for tests of the registry, without training; and the command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from corecode.config import Profile
from pipelines.profiles import load_profile

ROOT = Path(__file__).parents[2]
PROFILE = load_profile("smoke", ["evaluation.samples=5", "evaluation.temperatures=[1.0]"])
PROBLEMS = 200


def make_run(home: Path, name: str, right: int, profile: Profile = PROFILE, **rows: Any) -> Path:
    """A finished run whose team solves the first ``right`` of 200 test problems in every sample.

    Args:
        rows: ``statement`` of the problem file, ``valid`` thoughts (of 200).
    """
    run = home / "runs" / name
    problem = {
        "id": "p",
        "statement": rows.get("statement", "Print 1."),
        "tests": [{"input": "", "output": "1"}],
    }
    (run / "problems").mkdir(parents=True)
    (run / "problems" / "test.jsonl").write_text(json.dumps(problem) + "\n", encoding="utf-8")
    (run / "profile.json").write_text(profile.model_dump_json(), encoding="utf-8")
    for role in ("planner", "coder"):
        model = run / f"{role}_grpo" / "model"
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}", encoding="utf-8")
        (model / "model.safetensors").write_text(f"{role} of {name}", encoding="utf-8")
    folder = run / "evaluation" / "final__team"
    folder.mkdir(parents=True)
    lines = [
        json.dumps(
            {
                "problem_id": f"p{i:03}",
                "arm": "final/team",
                "temperature": 1.0,
                "sample": sample,
                "thought": "Steps",
                "thought_valid": i < rows.get("valid", PROBLEMS),
                "total": 1,
                "verdict": "accepted" if i < right else "wrong_answer",
                "passed": int(i < right),
            }
        )
        for i in range(PROBLEMS)
        for sample in range(5)
    ]
    (folder / "T1.0.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return run


def start_command(home: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """``corecode`` with these arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "CORECODE_HOME": str(home), **environment},
    )


def command(home: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit code and both outputs of ``corecode``."""
    process = start_command(home, *arguments, **environment)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err
