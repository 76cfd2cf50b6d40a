"""An evaluation that kills itself: ``python mortal.py FOLDER LOG MOMENT``, where MOMENT is ``never`` or one of

``sample:N``   while the generator works on its call number N (from 0)
``judge:N``    while the sandbox judges for the N-th time
``write:N``    in the middle of the N-th write to a ledger, half of it on the disk

LOG gets a line for every sample that a generator hands over.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tiny import LocalSandbox, problem

from corecode.config import EvaluationConfig, SamplingConfig
from corecode.execution import Executor
from corecode.generation.generator import Chat, Completion
from corecode.roles.roles import role
from corecode.teams import Team
from corecode.training import ledger
from corecode.training.evaluate import Bench, evaluate
from corecode.training.records import Journal
from sandbox import Judgement, Program

folder, log, moment = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
counts = {"sample": 0, "judge": 0, "write": 0}


def die_at(kind: str) -> bool:
    """Count one more of a kind; True when this is the moment."""
    counts[kind] += 1
    return moment == f"{kind}:{counts[kind] - 1}"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Guessing:
    """Answers depend on the chat, the seed and the number of the sample; about a third of the programs is right."""

    def __init__(self, name: str) -> None:
        self.name = name

    def generate(self, chats: Sequence[Chat], n: int, sampling: SamplingConfig, seed: int) -> list[list[Completion]]:
        if die_at("sample"):
            die()
        with log.open("a") as file:
            for chat in chats:
                key = f"{self.name} {chat[0]['content']!r} {n} {sampling.temperature} {seed}"
                file.writelines(f"{key} {i}\n" for i in range(n))
        return [[self.answer(chat[0]["content"], i, seed) for i in range(n)] for chat in chats]

    def answer(self, prompt: str, sample: int, seed: int) -> Completion:
        number = int(prompt.split("Print ")[1][0])
        text = f"print({number + (seed + sample) % 3})" if self.name == "coder" else f"say {seed % 7}"
        return Completion(text, (1, 2), 2, False)


class MortalSandbox(LocalSandbox):
    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        if die_at("judge"):
            die()
        return super().judge(programs)


class MortalLedger(ledger.Ledger):
    def append(self, records: Sequence[object]) -> None:  # type: ignore[override]
        if die_at("write"):
            text = b"".join(ledger._line(record) for record in records)  # type: ignore[arg-type]
            with self.path.open("ab") as file:
                file.write(text[: 2 * len(text) // 3])
            die()
        super().append(records)  # type: ignore[arg-type]


if __name__ == "__main__":
    import corecode.training.evaluate as module

    module.Ledger = MortalLedger  # type: ignore[misc]
    team = Team((role("planner", "compact"), role("coder", "compact")))
    config = EvaluationConfig(samples=3, temperatures=[0.2, 1.0], chunk=3)
    generators = {name: Guessing(name) for name in ("planner", "coder")}
    bench = Bench("sft/team", team, generators, config, Executor(MortalSandbox(), remember=True), seed=1, batch=9)
    evaluate(bench, [problem(i, str(i)) for i in range(8)], Journal(folder), folder, "one")
