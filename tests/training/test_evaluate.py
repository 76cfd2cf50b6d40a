"""The evaluation of an arm: programs are judged once, outages leave rows that say so and score nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tiny import LocalSandbox, problem

from corecode.config import EvaluationConfig, PromptedConfig, SamplingConfig
from corecode.errors import InfrastructureError
from corecode.execution import Executor
from corecode.generation.generator import Chat, Completion
from corecode.roles.roles import role
from corecode.teams import Team, rollout
from corecode.teams.prompted import PROMPTED
from corecode.training.evaluate import Bench, evaluate
from corecode.training.ledger import Ledger
from corecode.training.records import Journal

PROBLEMS = [problem(i, str(i)) for i in range(5)]
CONFIG = EvaluationConfig(samples=3, temperatures=[0.2, 1.0])


class Scripted:
    """Answers with the number in the statement; sample 1 of each problem is wrong. Fails ``outages`` times first."""

    def __init__(self, outages: int = 0) -> None:
        self.outages = outages
        self.calls = 0

    def generate(self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int) -> list[list[Completion]]:
        self.calls += 1
        if self.outages:
            self.outages -= 1
            raise InfrastructureError("the server does not answer")
        answers: list[list[Completion]] = []
        for chat in chats:
            number = chat[0]["content"].split("Print ")[1][0]
            answers.append([Completion(f"print({9 if i == 1 else number})", (5, 1), 2, False) for i in range(n)])
        return answers


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def run(folder: Path, generator: Scripted, sandbox: LocalSandbox) -> dict[str, float]:
    team = Team((role("coder", "compact"),))
    executor = Executor(sandbox, remember=True)
    bench = Bench("sft/alone", team, {"coder": generator}, CONFIG, executor, seed=1, batch=1)
    return evaluate(bench, PROBLEMS, Journal(folder), folder, "this evaluation")


def test_each_distinct_program_runs_once(tmp_path: Path) -> None:
    sandbox = LocalSandbox()
    results = run(tmp_path, Scripted(), sandbox)
    assert results == {"evaluation/pass@1/T0.2": 2 / 3, "evaluation/pass@1/T1": 2 / 3}
    assert len(sandbox.sources) == 2 * len(PROBLEMS), "two programs a problem, over both temperatures"
    for name in ("T0.2.jsonl", "T1.jsonl"):
        assert [(row["problem_id"], row["sample"], row["verdict"]) for row in rows(tmp_path, name)] == [
            (f"p{i}", sample, "wrong_answer" if sample == 1 else "accepted") for i in range(5) for sample in range(3)
        ]


def test_a_generator_is_asked_twice(tmp_path: Path) -> None:
    assert run(tmp_path, Scripted(outages=1), LocalSandbox())["evaluation/pass@1/T0.2"] == 2 / 3
    assert all(row["missing"] is None for row in rows(tmp_path, "T0.2.jsonl"))


def test_a_lasting_outage_leaves_missing_rows(tmp_path: Path) -> None:
    results = run(tmp_path, Scripted(outages=2), LocalSandbox())
    first = rows(tmp_path, "T0.2.jsonl")
    lost = [row for row in first if row["missing"]]
    assert len(lost) == 3, "one problem's block (batch 1)"
    assert all(row["verdict"] is None and "does not answer" in row["missing"] for row in lost)
    assert results["evaluation/pass@1/T0.2"] == 2 / 3, "missing rows enter no mean"


def test_an_unjudged_program_is_missing_and_not_wrong(tmp_path: Path) -> None:
    run(tmp_path, Scripted(), LocalSandbox(broken=["print(3)"]))
    lost = [row for row in rows(tmp_path, "T1.jsonl") if row["missing"]]
    assert [(row["problem_id"], row["sample"], row["verdict"], row["passed"]) for row in lost] == [
        ("p3", 0, None, 0),
        ("p3", 2, None, 0),
    ]


class Numbering:
    """A Planner whose thoughts are numbered, and a Coder that repeats the number it reads."""

    def __init__(self) -> None:
        self.count = 0

    def generate(self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int) -> list[list[Completion]]:
        answers: list[list[Completion]] = []
        for chat in chats:
            prompt = chat[0]["content"]
            if prompt.endswith("### Thought\n"):
                texts = [f"thought {self.count + i}" for i in range(n)]
                self.count += n
            else:
                texts = [f"print({prompt.split('thought ')[1].split()[0]}, {i})" for i in range(n)]
            answers.append([Completion(text, (1,), 1, False) for text in texts])
        return answers


def test_protocols() -> None:
    """``paper``: one thought, n programs. ``independent``: n thoughts with a program each."""
    team = Team((role("planner", "compact"), role("coder", "compact")))
    sampling = dict.fromkeys(("planner", "coder"), SamplingConfig())
    expected = {
        "paper": [["print(0, 0)", "print(0, 1)"], ["print(1, 0)", "print(1, 1)"]],
        "independent": [["print(0, 0)", "print(1, 0)"], ["print(2, 0)", "print(3, 0)"]],
    }
    for protocol in ("paper", "independent"):
        both = Numbering()
        groups = rollout(team, {"planner": both, "coder": both}, sampling, PROBLEMS[:2], 2, protocol, seed=0)
        assert [[run.program for run in group] for group in groups] == expected[protocol]
        assert [group[0].problem.id for group in groups] == ["p0", "p1"]


def mortal(folder: Path, moment: str) -> int:
    """Run ``mortal.py``; its exit code."""
    command = [sys.executable, str(Path(__file__).with_name("mortal.py")), str(folder), str(folder / "log"), moment]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, env=environment, check=False).returncode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert mortal(folder, "never") == 0
    return folder


# Twelve calls in all: for each temperature three chunks, in each the Planner, then the Coder. A ledger is written
# three times a chunk: after each call, and when the chunk is judged.
@pytest.mark.parametrize("moment", ["sample:0", "sample:3", "judge:2", "write:5", "write:10", "sample:11"])
def test_a_killed_evaluation_goes_on_where_it_was(undisturbed: Path, tmp_path: Path, moment: str) -> None:
    assert mortal(tmp_path, moment) == -signal.SIGKILL
    assert mortal(tmp_path, "never") == 0
    for name in ("T0.2.jsonl", "T1.jsonl", "metrics.jsonl"):
        assert (tmp_path / name).read_bytes() == (undisturbed / name).read_bytes()
    sampled = (tmp_path / "log").read_text().splitlines()
    expected = (undisturbed / "log").read_text().splitlines()
    assert len(expected) == 2 * 8 * (1 + 3)
    torn = moment in ("write:10",)  # the answer to a call that was not yet on the disk is lost with the process
    assert torn or sorted(sampled) == sorted(expected), "no sample was generated twice, none left out"


def test_what_was_kept_for_another_evaluation_does_not_count(tmp_path: Path) -> None:
    first = Ledger(tmp_path / "rows.jsonl", "one")
    first.append([{"problem": "a"}, {"problem": "b"}])
    with first.path.open("ab") as file:
        file.write(b'{"problem": "c')
    assert [record["problem"] for record in Ledger(first.path, "one").records] == ["a", "b"]
    assert first.path.read_bytes().endswith(b"\n"), "the torn line is gone, so that the next one is whole"
    assert Ledger(first.path, "two").records == []
    assert Ledger(first.path, "one").records == []


def test_a_second_attempt_repeats_only_the_failed_call(tmp_path: Path) -> None:
    calls: list[str] = []

    class Unsteady(Scripted):
        def generate(
            self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int
        ) -> list[list[Completion]]:
            thought = chats[0][0]["content"].endswith("### Thought\n")
            calls.append("planner" if thought else "coder")
            return super().generate(chats, n, sampling, seed)

    team = Team((role("planner", "compact"), role("coder", "compact")))
    config = EvaluationConfig(samples=1, temperatures=[0.2])
    players = {"planner": Unsteady(), "coder": Unsteady(outages=1)}
    bench = Bench("sft/team", team, players, config, Executor(LocalSandbox()), seed=1, batch=9)
    evaluate(bench, PROBLEMS, Journal(tmp_path), tmp_path, "one")
    assert calls == ["planner", "coder", "coder"]
    assert all(row["missing"] is None for row in rows(tmp_path, "T0.2.jsonl"))


def test_a_prompt_only_team_goes_on_too(tmp_path: Path) -> None:
    """Reflexion is interrupted in every call once; each question is answered once, and the rows are those of an
    undisturbed evaluation."""
    answered: list[str] = []

    class Interrupted:
        def __init__(self, name: str, after: int) -> None:
            self.name, self.left = name, after

        def generate(
            self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int
        ) -> list[list[Completion]]:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            answered.extend(f"{self.name} {chat[0]['content']} {seed}" for chat in chats)
            texts = [f"Idea {seed % 5}" if self.name == "reflector" else f"print({seed % 3})" for _ in chats]
            return [[Completion(text, (), 2, False)] for text in texts]

    def work(folder: Path, after: int) -> None:
        config = EvaluationConfig(samples=2, temperatures=[0.2], chunk=3, prompted=PromptedConfig(rounds=2))
        players = {name: Interrupted(name, after) for name in ("coder", "reflector")}
        problems = [one.model_copy(update={"examples": one.tests[:1]}) for one in PROBLEMS]
        executor = Executor(LocalSandbox(), remember=True)
        bench = Bench("base/reflexion", PROMPTED["reflexion"], players, config, executor, seed=1, batch=9)
        evaluate(bench, problems, Journal(folder), folder, "one")

    work(tmp_path / "whole", 99)
    undisturbed, answered = answered, []
    for _ in range(20):
        try:
            work(tmp_path / "parts", 1)
            break
        except KeyboardInterrupt:
            continue
    assert sorted(answered) == sorted(undisturbed)
    found = [rows(tmp_path / name, "T0.2.jsonl") for name in ("whole", "parts")]
    assert found[0] == found[1]
    assert {row["verdict"] for row in found[0]} == {"accepted", "wrong_answer"}
    assert all(set(row["tokens"]) <= {"coder", "reflector"} and row["thought"] is None for row in found[0])
