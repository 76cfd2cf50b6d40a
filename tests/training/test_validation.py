"""The validation curves: who solves what, how often programs run, and which tests are left out."""

from __future__ import annotations

from collections.abc import Sequence

from tiny import LocalSandbox, problem

from corecode.config import GRPOConfig, SamplingConfig
from corecode.execution import Executor
from corecode.generation.generator import Chat, Completion, Listener
from corecode.roles.roles import role
from corecode.teams import Team
from corecode.training.validation import Validator, curves
from sandbox import Judgement, Program

PLANNER, CODER = (role(name, "compact") for name in ("planner", "coder"))
THOUGHT = "Input-Output: nothing -> 7\nSteps:\n1. print 7\nConditions: none\nIteration: none"


class Says:
    """A role that answers all chats alike: with a thought, or with what it was told to write."""

    def __init__(self, text: str, without_thought: str = "") -> None:
        self.text = text
        self.without_thought = without_thought or text
        self.asked = 0

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        assert (n, sampling.temperature) == (1, 0.0), "validation is greedy"
        self.asked += len(chats)
        texts = [self.text if "1. print 7" in chat[0]["content"] else self.without_thought for chat in chats]
        answers = [Completion(text, (1,), 1, False) for text in texts]
        for index, answer in enumerate(answers if listener else []):
            assert listener is not None
            listener(index, answer)
        return [[answer] for answer in answers]


class Recording(LocalSandbox):
    def __init__(self, broken: Sequence[str] = ()) -> None:
        super().__init__(broken)
        self.programs: list[Program] = []

    def judge(self, programs: Sequence[Program]) -> list[Judgement]:
        self.programs += programs
        return super().judge(programs)


def validator(sandbox: LocalSandbox, trained: str, coder: Says) -> Validator:
    generators = {"planner": Says(THOUGHT), "coder": coder}
    problems = [problem(0, "7"), problem(1, "7"), problem(2, "8")]
    return Validator(Team((PLANNER, CODER)), trained, generators, GRPOConfig(group_size=2), problems, sandbox)


def test_the_team_and_the_coder_alone_are_measured() -> None:
    sandbox = Recording()
    coder = Says("print(7)", without_thought="print(8)")
    measured = validator(sandbox, "planner", coder)
    points = curves(measured.measure())
    assert points["validation/pass@1/team"] == 2 / 3
    assert points["validation/pass@1/alone"] == 1 / 3
    assert points["validation/thought_valid"] == 1.0
    assert points["validation/cg"] == 1.0
    assert len(sandbox.programs) == 6, "each program once, whether it was begun early or not"
    assert all(program.stop_at_first_failure for program in sandbox.programs)
    assert curves(measured.measure()) == points
    assert (len(sandbox.programs), coder.asked) == (9, 9), "the frozen Coder alone is the same at every point"


def test_a_trained_coder_alone_is_measured_every_time() -> None:
    sandbox = Recording()
    measured = validator(sandbox, "coder", Says("print(7)", without_thought="print(8)"))
    first = measured.measure()
    assert measured.measure() == first
    assert len(sandbox.programs) == 12


def test_what_could_not_be_judged_counts_in_nothing() -> None:
    tally = validator(LocalSandbox(broken=["print(7)"]), "planner", Says("print(7)", "print(8)")).measure()
    assert tally["team"] == (0.0, 0)
    assert tally["alone"] == (1.0, 3)
    assert "validation/pass@1/team" not in curves(tally)


def test_an_executor_asks_for_every_test_unless_told_otherwise() -> None:
    """Rewards are shares of tests: only who wants to know whether a program passes leaves tests out."""
    for wanted in (False, True):
        sandbox = Recording()
        executor = Executor(sandbox, pass_or_fail=wanted)
        executor.begin(problem(0), "print(1)")
        executor.judge([(problem(0), "print(1)"), (problem(0), "print(2)")])
        assert [program.stop_at_first_failure for program in sandbox.programs] == [wanted] * 2
