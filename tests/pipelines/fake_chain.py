"""``corecode`` with training replaced: the jobs of :mod:`corecode.stages`, run by a tiny program that writes what real
jobs write. What it "trains" follows from everything that a real job would read, and from nothing else.

Run as a program it is the command line: ``python fake_chain.py run smoke``. Environment: FAKE_FAIL names a job that
fails, FAKE_FAIL_ONCE one that fails the first time (as soon as the file FAKE_AFTER of the run is there), FAKE_SLOW one
that never ends (with a helper in a session of its own), FAKE_HOLD one that waits for the file "go" in its folder.
"text:name" means the job of this name in a folder whose path holds the text. With FAKE_CLOUD a lone Coder is worse,
with FAKE_HARM the team gets worse in training.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from corecode.config import Profile
from corecode.problems import Problem, Test, write_problems
from corecode.training.spec import spec_digest

PROGRAM = """
import hashlib, json, os, pathlib, subprocess, sys, time
spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
folder = pathlib.Path(sys.argv[1]).parent
run, profile, kind = pathlib.Path(spec["run"]), spec["profile"], spec["kind"]
name = "evaluate " + spec["arm"] if kind == "evaluate" else spec["output"]
def told(variable):
    where, _, job = os.environ.get(variable, "").rpartition(":")
    return job == name and where in str(folder)
if told("FAKE_SLOW"):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    (folder / "slow").touch()
    time.sleep(600)
first = folder / "first"
if told("FAKE_FAIL_ONCE") and not first.exists():
    first.touch()
    while not (run / os.environ.get("FAKE_AFTER", "")).exists():
        time.sleep(0.05)
    sys.exit("the accelerator fell off")
if told("FAKE_HOLD"):
    (folder / "held").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
if told("FAKE_FAIL"):
    sys.exit("the accelerator fell off")

steps = 1 if kind == "evaluate" else 2
with open(folder / "metrics.jsonl", "w") as file:
    for step in range(steps + 1):
        gained = step * (-0.25 if "FAKE_HARM" in os.environ else 0.1)
        metrics = {"reward/mean": step / 10, "validation/cg": step / 20, "validation/pass@1/team": 0.5 + gained,
                   "validation/thought_valid": 0.95, "sft/loss": 1 / (step + 1)}
        file.write(json.dumps({"step": step, "of": steps, "metrics": metrics, "seconds": {"update": 0.1}}))
        file.write("\\n")

starts = [weights if weights.startswith("base/") else (run / weights / "model" / "model.safetensors").read_text()
          for weights in spec["weights"].values()]
read = [spec["seed"], profile["prompts"], profile["model"], starts]
if kind == "sft":
    read += [spec["sft"], (run / "problems" / "sft.jsonl").read_text()]
if kind == "grpo":
    last = spec["team"][-1] == spec["role"]
    unread = ("kappa", "kappa_time", "time_weight") if last else ("space_weight", "memory_floor_mb")
    rewards = {name: value for name, value in profile["rewards"].items() if name not in unread}
    read += [spec["grpo"], rewards, (run / "problems" / "rl.jsonl").read_text()]
learnt = hashlib.sha256(json.dumps(read).encode()).hexdigest()[:16]
files = {}
if kind != "evaluate":
    files = {"model/config.json": "{}", "model/model.safetensors": spec["role"] + " " + learnt}
    sample = {"step": 1, "thought": "Steps:\\n1. read\u2028it", "reward": 0.5, "terms": {"accuracy": 0.5}}
    files["samples.jsonl"] = json.dumps(sample, ensure_ascii=False) + "\\n"
else:  # a team solves every problem, a lone Coder every second one
    team = len(spec["team"]) > 1
    for temperature in profile["evaluation"]["temperatures"]:
        rows = []
        for number in range(profile["dataset"]["test"]):
            right = team or number % (3 if "FAKE_CLOUD" in os.environ else 2) == 0
            for sample in range(profile["evaluation"]["samples"]):
                rows.append({
                    "problem_id": f"test-{number}", "arm": spec["arm"], "temperature": temperature, "sample": sample,
                    "thought": "Steps:\\n1. read" if team else None, "thought_valid": True if team else None,
                    "completion": f"print(1)  # {learnt}", "program": "print(1)", "passed": int(right), "total": 1,
                    "verdict": "accepted" if right else "wrong_answer", "cpu_s": 0.01, "peak_mb": 1.0, "steps": 10,
                    "detail": "", "tokens": {"coder": 5}, "truncated": False, "missing": None,
                })
        files[f"T{temperature:g}.jsonl"] = "".join(json.dumps(row, sort_keys=True) + "\\n" for row in rows)
for relative, text in files.items():
    path = folder / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
(folder / "result.json").write_text(json.dumps({"spec": sys.argv[2], "kind": kind, "metrics": {}}))
"""


def command(job: Any, path: Path) -> list[str]:
    """What is run in the place of a job's program."""
    return [sys.executable, "-I", "-c", PROGRAM, str(path), spec_digest(job.spec)]


def make_problems(profile: Profile, run: Path) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for split in ("sft", "rl", "validation", "test"):
        count = counts[split] = getattr(profile.dataset, split)
        tests = [Test(input="1", output="1")]
        made = [
            Problem(id=f"{split}-{i}", statement=f"Print {profile.seed} {split} {i}.", tests=tests)
            for i in range(count)
        ]
        digest = write_problems(run / "problems" / f"{split}.jsonl", made)
    (run / "tokenizer").mkdir(exist_ok=True)
    (run / "tokenizer" / "tokenizer.json").write_text(str(profile.seed), encoding="utf-8")
    summary = {
        "counts": counts,
        "digest": digest,
        "decontamination": {"removed": []},
        "validation": {"sources": {}, "broken_tests": {}},
    }
    (run / "problems" / "problems.json").write_text(json.dumps(summary), encoding="utf-8")
    return summary


def install() -> None:
    """Put the fakes in the place of the making of problems and of the job program."""
    import corecode.stages

    corecode.stages.make_problems = make_problems  # before the assets take it

    import pipelines.preflight
    import pipelines.stage
    from pipelines.launchers.local import LocalLauncher

    pipelines.preflight.CHECKS = ()  # a sandbox is not needed
    pipelines.stage.local_launcher = lambda profile: LocalLauncher(
        environment={"FAKE_CHAIN": "1"},
        command=command,
        grace_s=1,
    )


if __name__ == "__main__":
    install()
    from pipelines.cli import main

    main()
