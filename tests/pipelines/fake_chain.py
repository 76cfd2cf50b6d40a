"""``corecode`` with training replaced: the jobs are tiny programs that write what real jobs write.

Run as a program it is the command line: ``python fake_chain.py run smoke``. Environment: FAKE_FAIL names a job that
fails, FAKE_SLOW one that never ends (with a helper in a session of its own).
"""

from __future__ import annotations

import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corecode.arms import arm
from corecode.config import Profile
from corecode.problems import Problem, Test, write_problems

PROGRAM = """
import json, os, pathlib, subprocess, sys, time
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
folder = pathlib.Path(sys.argv[1]).parent
if os.environ.get("FAKE_SLOW") == spec["name"]:
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    (folder / "slow").touch()
    time.sleep(600)
if os.environ.get("FAKE_FAIL") == spec["name"]:
    sys.exit("the accelerator fell off")
with open(folder / "metrics.jsonl", "w") as file:
    for step in range(spec["steps"] + 1):
        metrics = {"reward/mean": step / 10, "validation/cg": step / 20, "validation/pass@1/team": 0.5 + step / 10,
                   "validation/thought_valid": 0.95}
        file.write(json.dumps({"step": step, "of": spec["steps"], "metrics": metrics, "seconds": {"update": 0.1}}))
        file.write("\\n")
for relative, text in spec["files"].items():
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
(folder / "result.json").write_text("{}")
"""


@dataclass(frozen=True)
class Job:
    name: str
    folder: Path
    spec: dict[str, Any]

    @property
    def done(self) -> bool:
        return (self.folder / "result.json").is_file()

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "job.json"
        path.write_text(json.dumps({**self.spec, "name": self.name}), encoding="utf-8")
        return path


def training(run: Path, stage: str, role: str) -> Job:
    sample = {"step": 1, "thought": "Steps:\n1. read", "reward": 0.5, "terms": {"accuracy": 0.5}}
    files = {"model/config.json": "{}", "model/model.safetensors": role, "samples.jsonl": json.dumps(sample) + "\n"}
    return Job(stage, run / stage, {"kind": "grpo", "role": role, "steps": 2, "files": files})


def evaluation(run: Path, name: str, profile: Profile) -> Job:
    """Rows in which a team solves every problem and a lone Coder every second one."""
    files: dict[str, str] = {}
    team = len(arm(name).roles) > 1
    for temperature in profile.evaluation.temperatures:
        rows: list[dict[str, Any]] = []
        for number in range(profile.dataset.test):
            right = team or number % 2 == 0
            for sample in range(profile.evaluation.samples):
                rows.append(
                    {
                        "problem_id": f"test-{number}",
                        "arm": name,
                        "temperature": temperature,
                        "sample": sample,
                        "thought": "Steps:\n1. read" if team else None,
                        "thought_valid": True if team else None,
                        "completion": "print(1)",
                        "program": "print(1)",
                        "passed": int(right),
                        "total": 1,
                        "verdict": "accepted" if right else "wrong_answer",
                        "cpu_s": 0.01,
                        "peak_mb": 1.0,
                        "steps": 10,
                        "detail": "",
                        "tokens": {"coder": 5},
                        "truncated": False,
                        "missing": None,
                    }
                )
        files[f"T{temperature}.jsonl"] = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows)
    folder = run / "evaluation" / name.replace("/", "__")
    system = arm(name)
    weights = dict(zip(system.roles, system.stages, strict=True))
    return Job(
        f"evaluate {name}", folder, {"kind": "evaluate", "arm": name, "steps": 1, "files": files, "weights": weights}
    )


def make_problems(profile: Profile, run: Path) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for split in ("sft", "rl", "validation", "test"):
        count = counts[split] = getattr(profile.dataset, split)
        tests = [Test(input="1", output="1")]
        made = [Problem(id=f"{split}-{i}", statement=f"Print {i}.", tests=tests) for i in range(count)]
        digest = write_problems(run / "problems" / f"{split}.jsonl", made)
    return {"counts": counts, "digest": digest}


def install() -> None:
    """Put the fakes in the place of ``corecode.stages`` and of the job program."""
    fakes: dict[str, Any] = {
        "Job": Job,
        "make_problems": make_problems,
        "sft_jobs": lambda profile, run: [training(run, f"sft_warmup/{r}", r) for r in ("planner", "coder")],
        "grpo_job": lambda profile, run, role, number: training(run, f"{role}_grpo", role),
        "baseline_jobs": lambda profile, run: [],
        "evaluation_jobs": lambda profile, run: [evaluation(run, name, profile) for name in profile.evaluation.arms],
    }
    module = types.ModuleType("corecode.stages")
    module.__dict__.update(fakes)
    sys.modules["corecode.stages"] = module

    import pipelines.stage
    from pipelines.launchers.local import LocalLauncher

    pipelines.stage.local_launcher = lambda profile: LocalLauncher(
        environment={"FAKE_CHAIN": "1"},
        command=lambda job, path: [sys.executable, "-I", "-c", PROGRAM, str(path)],
        grace_s=1,
    )


if __name__ == "__main__":
    install()
    from pipelines.cli import main

    main()
