"""The table of a run's step times: shares of the wall time, and the bars."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "step_breakdown.py"


def shown(*folders: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, str(SCRIPT), *map(str, folders)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def phase(folder: Path, sandbox: float) -> None:
    """Two steps of 10 s and a validation of 5 s."""
    step = {"sampling": 3.0, "partner": 2.0, "sandbox": sandbox, "update": 4.0, "other": 1.0 - sandbox, "step": 10.0}
    step |= {"model_share": 0.9, "tokens_per_second": 50.0}
    lines = [{"step": n, "metrics": {}, "seconds": step} for n in (1, 2)]
    lines.append({"step": 2, "metrics": {}, "seconds": {"validation": 5.0, "validation_sandbox": 0.5}})
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_shares_add_up_and_bars_are_told(tmp_path: Path) -> None:
    phase(tmp_path / "run" / "planner_grpo", 0.25)
    (tmp_path / "run" / "sft_warmup").mkdir()
    (tmp_path / "run" / "sft_warmup" / "metrics.jsonl").write_text('{"step": 1, "metrics": {}}\n')
    code, text = shown(tmp_path / "run")
    assert code == 0
    # of 25 s: 6, 4, 8, 4.5 s of models; 1 s sandbox; 1.5 s other
    assert "| planner_grpo | 2 | 25 | 40 | 24.0 | 16.0 | 32.0 | 18.0 | 4.0 | 0.0 | 6.0 | 10.0 |" in text
    assert "sft_warmup" not in text
    assert "sandbox: 4.0%, within the 5%" in text
    phase(tmp_path / "run" / "coder_grpo", 1.0)
    code, text = shown(tmp_path / "run")
    assert code == 1
    assert "sandbox: 7.0%, above the 5%" in text


def test_a_folder_without_steps_is_refused(tmp_path: Path) -> None:
    assert shown(tmp_path)[0] == 2
    assert shown()[0] == 2
