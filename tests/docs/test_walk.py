"""A reader types the commands of every page, from the top to the bottom, into a checkout with two small runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pages import ROOT, Block, blocks

from pipelines.launchers.local import free_port

# What a page's commands have to print, as patterns.
SAYS: dict[str, list[str]] = {
    "README.md": ["Dagster +http://127.0.0.1:", "MLflow +http://127.0.0.1:", "Thought", "Program"],
    "compare.md": ['"seed": 1', "final/team", "MLflow: http://.*compare-runs", "2 runs; differences in points"],
    "datasets.md": [r"3 records \(mbpp\), 3 problems", "digest", "mbpp/601"],
    "deploy.md": ["backups/corecode-", "the first champion"],
    "evaluation.md": ["base/cot", "final/alone", r"summary\.json"],
    "first-run.md": ["torch", "quickstart", "seed: 0", "reused from smoke-seed0", "Program"],
    "operate.md": ["training", "Started schedule nightly"],
    "own-problems.md": ["(bubblewrap|docker)", "9 submissions: 4 accepted"],
    "profiles.md": ["steps: 60"],
    "registry.md": [
        "already the champion",
        "rolled back from .*: thoughts became too long",
        "the first champion",
        "Program",
        r'"predictions": \[\{"thought": .*"program": ',
    ],
    "reproducibility.md": ["same digest as"],
    "sandbox.md": [
        "sandbox: (bubblewrap|docker)",
        "9 submissions: 4 accepted, 2 wrong_answer, 1 no_code, 1 time_limit, 1 runtime_error",
    ],
    "training.md": ["outside model computation"],
}
WALKED: dict[str, list[Block]] = {}
for _block in blocks():
    if not _block.marker:
        WALKED.setdefault(_block.page, []).append(_block)

MBPP = [  # text, code, test
    ("Add two numbers.", "def add(a, b):\n    return a + b", "add(1, 2) == 3"),
    ("Turn a text around.", "def turn(text):\n    return text[::-1]", "turn('ab') == 'ba'"),
    ("Double a number.", "def twice(number):\n    return 2 * number", "twice(4) == 8"),
]
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Reader:
    """A checkout in which two runs were made, the second of them champion by force (as version 3)."""

    folder: Path
    first: str
    second: str

    def type(self, script: str) -> str:
        """What a shell says to the lines; it ends at the first that fails.

        Raises:
            AssertionError: A command failed.
        """
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("CORECODE_", "MLFLOW_"))
        }
        done = subprocess.run(
            ["bash", "-c", f"set -eo pipefail\n{script}"],
            cwd=self.folder,
            env={**environment, **ENVIRONMENT, "NO_COLOR": "1", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said = done.stdout.decode(errors="replace")  # a team that has learnt nothing prints anything
        assert done.returncode == 0, f"exit code {done.returncode} of\n{script}\n{said}"
        assert "Traceback" not in said, said
        return said


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("reader") / "core-code"
    folder.mkdir()
    for name in ("assets", "benchmarks", "corecode", "docs", "infra", "pipelines", "sandbox", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    with (folder / "mbpp.jsonl").open("w", encoding="utf-8") as file:
        for number, (text, code, test) in enumerate(MBPP, 601):
            record = {"task_id": number, "text": text, "code": code, "test_list": [f"assert {test}"]}
            file.write(json.dumps({**record, "test_setup_code": "", "challenge_test_list": []}) + "\n")
    (folder / "problem.txt").write_text("Read a number and print it.\n", encoding="utf-8")
    mine = {"id": "echo", "statement": "Read a number and print it.", "tests": [{"input": "7\n", "output": "7\n"}]}
    (folder / "my-problems.jsonl").write_text(json.dumps(mine) + "\n", encoding="utf-8")
    empty = Reader(folder, "", "")
    empty.type("corecode run smoke\ncorecode run smoke --seed 1")
    first, second = sorted(one["run"] for one in json.loads(empty.type("corecode runs --json")))
    assert "version 3: forced" in empty.type(f"corecode promote {second} --force 'the walk starts here'")
    return Reader(folder, first, second)


def script(page: str, reader: Reader) -> str:
    """A page's lines with this reader's names and ports; servers go to the background and are waited for."""
    ports = {name: free_port() for name in ("3000", "5000", "5001")}
    names = [
        (r"quickstart-seed0-(18f2f70b|1a2b3c4d|\.\.\.)", reader.first),
        (r"quickstart-seed\d-(2c9e41aa|f7a499a8)", reader.second),
        (r" quickstart-seed2-75ea2dd6", ""),
        (r"corecode run quickstart(?! --dry-run)", "corecode run smoke"),
        (
            r"--profile smollm2 (.*)--limit 20",
            r"--profile smollm2 \1--limit 1 --samples 1 --set evaluation.max_program_tokens=64",
        ),
        (r"corecode-TIME\b", "corecode-*"),
        (r"\bRUN\b", reader.second),
        (r"\bFILE\b", "problem.txt"),
        (r"(corecode up)\b", rf"\1 --dagster-port {ports['3000']} --mlflow-port {ports['5000']}"),
        (r"127\.0\.0\.1:(5000)", f"127.0.0.1:{ports['5000']}"),
        (r"127\.0\.0\.1:(5001)", f"127.0.0.1:{ports['5001']}"),
        (r"--port 5001", f"--port {ports['5001']}"),
        # 1 says that a bar on time was missed: on steps this short, beside other work, that is no mistake of the page
        (r"(.*benchmarks/step_breakdown\.py .*)", r"\1 || [ $? = 1 ]"),
    ]
    text = "\n".join(line for block in WALKED[page] for line in block.lines)
    for pattern, replacement in names:
        text = re.sub(pattern, replacement, text)
    pages = f"corecode up --dagster-port {ports['3000']} --mlflow-port {ports['5000']}"
    if f"127.0.0.1:{ports['5000']}" in text and pages not in text:  # the page says that they are running
        text = f"{pages}\n{text}"
    if pages not in text and "models serve" not in text:
        return text
    lines = ["trap '[ -z \"$(jobs -p)\" ] || { kill $(jobs -p); wait; }' EXIT"]
    for line in text.splitlines():
        if "corecode up" in line:
            lines += [f"{line.split('#')[0]} &", wait(f"http://127.0.0.1:{ports['3000']}/server_info")]
            lines += [wait(f"http://127.0.0.1:{ports['5000']}/health")]
        elif "models serve" in line:
            lines += [f"{line} &", wait(f"http://127.0.0.1:{ports['5001']}/ping")]
        else:
            lines.append(line)
    return "\n".join(lines)


def wait(url: str) -> str:
    """A command that returns when a server answers."""
    return f"curl --silent --fail --output /dev/null --retry 240 --retry-delay 1 --retry-all-errors {url} 2>/dev/null"


def test_every_page_with_commands_is_walked() -> None:
    assert set(SAYS) == set(WALKED)


@pytest.mark.slow
@pytest.mark.timeout(1500)  # the first one makes two runs
@pytest.mark.parametrize("page", sorted(SAYS))
def test_the_commands_of_a_page_work_as_they_stand(page: str, reader: Reader) -> None:
    said = reader.type(script(page, reader))
    for pattern in SAYS[page]:
        assert re.search(pattern, said), f"no {pattern!r} in\n{said}"
