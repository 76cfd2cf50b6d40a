"""The frozen part of a team: order of results, outages, and what the policy is told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tiny import LocalSandbox, problem

from corecode.config import GRPOConfig, RewardConfig, SamplingConfig
from corecode.errors import InfrastructureError
from corecode.execution import Executor
from corecode.generation.generator import Chat, Completion, Listener
from corecode.roles.roles import role
from corecode.teams import Team
from corecode.training.scene import Scene
from sandbox import Judgement, Program

PLANNER, CODER, SOLVER = (role(name, "compact") for name in ("planner", "coder", "solver"))
THOUGHT = "Input-Output: nothing -> {}\nSteps:\n1. print {}\nConditions: none\nIteration: none"


def answer(text: str, truncated: bool = False) -> Completion:
    return Completion(text, (1,) * 5, 5, truncated)


class Obedient:
    """A frozen role that does what its prompt says last: a Coder that prints the number a thought names, or a Planner
    that names the number of the statement."""

    def __init__(self) -> None:
        self.chats: list[Chat] = []

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        self.chats += chats
        answers = [[self._answer(chat[0]["content"]) for _ in range(n)] for chat in chats]
        if listener is not None:  # the last ones are not told early
            for index in reversed(range(1, len(chats))):
                listener(index, answers[index][0])
        return answers

    def _answer(self, prompt: str) -> Completion:
        if prompt.endswith("### Thought\n"):
            number = prompt.split("Print ")[1][0]
            return answer(THOUGHT.format(number, number))
        return answer(f"print({prompt.split('1. print ')[1][0]})")


def scene(
    team: Team, trained: str, sandbox: LocalSandbox, reward: RewardConfig | None = None, **config: object
) -> Scene:
    grpo = GRPOConfig.model_validate({"group_size": 2, "prompts_per_step": 2, **config})
    partners = {r.name: Obedient() for r in team.roles if r.name != trained}
    return Scene(team, trained, partners, grpo, reward or RewardConfig(), Executor(sandbox), "steps", seed=3)


def test_each_thought_is_rated_by_its_own_programs() -> None:
    """Results stay with their sample, whatever the order in which programs are run, and equal programs run once."""
    sandbox = LocalSandbox()
    stage = scene(Team((PLANNER, CODER)), "planner", sandbox, programs_per_sample=2)
    problems = [problem(0, "1"), problem(1, "2")]
    starts = [start for start in stage.open(problems, step=0) for _ in range(2)]
    thoughts = [THOUGHT.format(n, n) for n in (1, 3, 1, 2)]
    scores = stage.score(starts, [answer(text) for text in thoughts], step=0)
    rewards = scores.rewards
    assert [reward is not None and reward > 0.5 for reward in rewards] == [True, False, False, True]
    assert scores.informative == [True] * 4
    assert scores.metrics["program/all_pass"] == 0.5
    assert scores.metrics["thought/valid"] == 1.0
    assert scores.metrics["reward/accuracy"] == 0.5
    # Four distinct programs, of which two equal the reference solutions; most were begun before all were known.
    assert sorted(str(source) for source in sandbox.sources) == ["print(1)", "print(1)", "print(2)", "print(3)"]
    assert stage.executor.executed == 4


class Gated(LocalSandbox):
    """Judges a batch only once it is let through."""

    def __init__(self, broken: Sequence[str] = ()) -> None:
        super().__init__(broken)
        self.gate = threading.Event()
        self.batches: list[int] = []

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        assert self.gate.wait(30)
        self.batches.append(len(programs))
        return super().judge(programs)


def test_programs_begin_to_run_while_others_are_written() -> None:
    """What was begun is not run again, equal programs run once, a failure is retried once, and order is kept."""
    sandbox = Gated(broken=["broken()"])
    executor = Executor(sandbox)
    first, second = problem(0, "1"), problem(1, "2")
    jobs = [(first, "print(1)"), (first, "broken()"), (second, "print(1)"), (second, None), (first, "print(3)")]
    for asked in (jobs[0], jobs[1], jobs[2], jobs[0], (second, "print(9)")):
        executor.begin(*asked)
    sandbox.gate.set()
    verdicts = [judgement.verdict.value for judgement in executor.judge(jobs)]
    assert verdicts == ["accepted", "sandbox_error", "wrong_answer", "no_code", "wrong_answer"]
    assert sum(sandbox.batches[:-2]) == 4, "the four distinct programs that were begun"
    assert sandbox.batches[-2:] == [2, 1], "the rest, and the failure once more"
    assert executor.judge(jobs[:1])[0].passed == 2
    assert sandbox.batches[-1] == 1, "nothing is remembered from call to call"


def test_a_sandbox_that_fails_ahead_of_time_fails_the_call() -> None:
    class Dead(LocalSandbox):
        def judge(self, programs: Sequence[Program]) -> list[Judgement]:
            raise OSError("gone")

    executor = Executor(Dead())
    executor.begin(problem(0), "print(1)")
    with pytest.raises(OSError, match="gone"):
        executor.judge([(problem(0), "print(1)")])


def test_the_coder_reads_the_thought_of_the_frozen_planner() -> None:
    stage = scene(Team((PLANNER, CODER)), "coder", LocalSandbox())
    starts = stage.open([problem(0, "4"), problem(1, "5")], step=0)
    assert [start.thought for start in starts] == [THOUGHT.format(n, n) for n in (4, 5)]
    assert "1. print 4" in starts[0].prompt(CODER)[0]["content"]
    doubled = [starts[0], starts[0], starts[1], starts[1]]
    texts = ["print(4)", "print(5)", "print(5)", "nonsense ("]
    scores = stage.score(doubled, [answer(text) for text in texts], step=0)
    assert [reward is not None and reward >= 1 for reward in scores.rewards] == [True, False, True, False]


def test_what_comes_next_is_opened_while_programs_run() -> None:
    """The Planner speaks for the next step before the verdicts of this one are in; other problems are no mistake."""
    sandbox = Gated()
    stage = scene(Team((PLANNER, CODER)), "coder", sandbox, RewardConfig(preset="accuracy"))
    asked: list[int] = []

    class Opening(Obedient):
        """Lets the sandbox judge once it has spoken for the second time."""

        def generate(self, *arguments: Any) -> list[list[Completion]]:
            asked.append(len(sandbox.batches))
            if len(asked) == 2:
                sandbox.gate.set()
            return super().generate(*arguments)

    stage._before = [replace(stage._before[0], generator=Opening())]
    first, second = [problem(0, "4")], [problem(1, "5")]
    starts = [start for start in stage.open(first, step=0) for _ in range(2)]
    stage.expect(second, step=1)
    scores = stage.score(starts, [answer("print(4)"), answer("print(5)")], step=0)
    assert scores.rewards == [1.0, 0.0]
    assert asked == [0, 0], "nothing had been judged when the Planner spoke for the next step"
    assert stage.open(second, step=1)[0].thought == THOUGHT.format(5, 5)
    assert len(asked) == 2
    stage.expect(second, step=2)
    stage.score(starts, [answer("print(4)"), answer("print(5)")], step=1)
    assert stage.open(first, step=2)[0].thought == THOUGHT.format(4, 4)
    assert len(asked) == 4


def test_a_lost_sample_has_no_reward_and_is_counted() -> None:
    """Group rewards [1, None, 0, None]: the others keep theirs, means are over what was scored."""
    sandbox = LocalSandbox(broken=["broken()"])
    stage = scene(Team((CODER,)), "coder", sandbox, RewardConfig(preset="accuracy"), group_size=4)
    starts = [start for start in stage.open([problem(0, "1")], 0) for _ in range(4)]
    texts = ["print(1)", "broken()", "print(2)", "broken()"]
    scores = stage.score(starts, [answer(text) for text in texts], 0)
    assert scores.rewards == [1.0, None, 0.0, None]
    assert scores.metrics["reward/mean"] == 0.5
    assert scores.metrics["infrastructure/lost"] == 2
    assert scores.informative == [True] * 4
    assert sandbox.sources.count("broken()") == 2, "a failure is retried once"


def test_groups_without_information_are_told() -> None:
    stage = scene(Team((CODER,)), "coder", LocalSandbox(broken=["broken()"]), RewardConfig(preset="accuracy"))
    starts = [start for start in stage.open([problem(i, "1") for i in range(3)], 0) for _ in range(2)]
    texts = ["print(1)", "print(1)", "print(1)", "print(2)", "print(1)", "broken()"]
    scores = stage.score(starts, [answer(text) for text in texts], 0)
    assert scores.informative == [False, False, True, True, False, False]
    assert scores.metrics["group/uninformative"] == pytest.approx(2 / 3)


def test_an_outage_stops_the_stage() -> None:
    stage = scene(Team((CODER,)), "coder", LocalSandbox(broken=["broken()"]))
    starts = [start for start in stage.open([problem(0)], 0) for _ in range(2)]
    with pytest.raises(InfrastructureError, match="2 of the last 2 samples"):
        stage.score(starts, [answer("broken()")] * 2, 0)


def test_a_slow_leak_of_verdicts_stops_the_stage() -> None:
    stage = scene(Team((CODER,)), "coder", LocalSandbox(broken=["broken()"]), max_infrastructure_loss=0.05)
    starts = [start for start in stage.open([problem(0)], 0) for _ in range(2)]
    answers = [answer("print(1)"), answer("broken()")]
    for step in range(10):
        stage.score(starts, answers, step)
    with pytest.raises(InfrastructureError, match="11 of the last 22"):  # 11 of 200 is more than 5 %
        stage.score(starts, answers, 10)


def test_the_single_model_is_rated_for_thought_and_program() -> None:
    reward = RewardConfig(preset="accuracy", format_weight=0.2)
    stage = scene(Team((SOLVER,)), "solver", LocalSandbox(), reward)
    starts = [start for start in stage.open([problem(0, "1")], 0) for _ in range(2)]
    whole = THOUGHT.format(1, 1) + "\n### Code\nprint(1)"
    scores = stage.score(starts, [answer(whole), answer("### Code\nprint(1)", truncated=True)], 0)
    assert scores.rewards == [1.2, 1.0]
    assert scores.metrics["thought/valid"] == 0.5
    assert scores.metrics["completion/truncated"] == 0.5
    assert scores.samples[0]["terms"] == {"format": 1.0, "accuracy": 1.0}
