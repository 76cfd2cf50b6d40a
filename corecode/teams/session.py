"""Playing a prompt-only team: every attempt is a small program of its own, and all of them advance together.

A *method* is written as one reads it in its paper: a generator function that asks roles and tries programs with
``yield from desk.ask(...)`` and ``yield from desk.test(...)``, and returns its draft. :func:`play` runs one session for
each problem and sample. In every round it collects what the sessions wait for, asks each role once for all of them, and
tries all their programs together; so a batch stays a batch, however the attempts part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Generator as Yields
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal, TypeVar

from corecode.config import PromptedConfig, SamplingConfig
from corecode.generation.generator import Completion, Generator, derive_seed
from corecode.problems import Problem
from corecode.roles.extract import extract_program, strip_reasoning
from corecode.roles.roles import interface, render_examples
from corecode.teams.answer import Answer
from corecode.teams.samples import Report, Tester

Length = Literal["text", "program", "both"]
"""What an answer holds, which decides its token limit: prose, a program, or a program after some prose."""


@dataclass(frozen=True)
class Ask:
    """A question to a role."""

    role: str
    prompt: str
    length: Length


@dataclass(frozen=True)
class Try:
    """A program for the sample tests."""

    program: str | None


Step = tuple[Ask, ...] | Try
"""What a session waits for: answers to some questions, or a report."""
Reply = tuple[Completion, ...] | Report
T = TypeVar("T")
Work = Yields[Step, Reply, T]
"""A piece of a session's work that ends with a T."""


@dataclass(frozen=True)
class Draft:
    """A program, with the text that holds it."""

    completion: Completion
    program: str | None


Method = Callable[["Desk"], Work[Draft]]


@dataclass
class Desk:
    """Where a session works: its problem, what it may ask, and what was said."""

    problem: Problem
    config: PromptedConfig
    thought: str | None = None
    """The plan that the draft handed in follows; the method sets it."""
    tokens: dict[str, int] = field(default_factory=dict[str, int])

    def question(self, role: str, template: str, **values: str) -> Ask:
        """A question for prose from a prompt file; the problem's statement, examples and interface are filled in."""
        return self._question(role, template, "text", values)

    def _question(self, role: str, template: str, length: Length, values: Mapping[str, str]) -> Ask:
        known = {
            "statement": self.problem.statement.strip(),
            "examples": render_examples(self.problem),
            "interface": interface(self.problem),
            **values,
        }
        # One pass, so that braces inside a statement or an answer stay as they are.
        return Ask(role, _PLACEHOLDER.sub(lambda match: known[match[1]], _template(template)), length)

    def ask_all(self, questions: Sequence[Ask]) -> Work[list[Completion]]:
        """Ask several questions at the same time."""
        replies = yield tuple(questions)
        if not isinstance(replies, tuple):
            raise TypeError("questions are answered by completions")
        for question, reply in zip(questions, replies, strict=True):
            self.tokens[question.role] = self.tokens.get(question.role, 0) + reply.tokens
        return list(replies)

    def ask(self, role: str, template: str, **values: str) -> Work[str]:
        """Ask for prose; the answer without a model's reasoning, empty when nothing is left."""
        (reply,) = yield from self.ask_all([self.question(role, template, **values)])
        return spoken(reply)

    def write(self, role: str, template: str, **values: str) -> Work[Draft]:
        """Ask for a program."""
        return (yield from self._draft(self._question(role, template, "program", values)))

    def reason_and_write(self, role: str, template: str) -> Work[Draft]:
        """Ask for a program after some prose in one answer."""
        return (yield from self._draft(self._question(role, template, "both", {})))

    def _draft(self, question: Ask) -> Work[Draft]:
        (reply,) = yield from self.ask_all([question])
        return Draft(reply, extract_program(reply.text).program)

    def test(self, draft: Draft) -> Work[Report]:
        """Try a draft on the sample tests."""
        report = yield Try(draft.program)
        if not isinstance(report, Report):
            raise TypeError("a program is answered by a report")
        return report


_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@cache
def _template(name: str) -> str:
    path = files("corecode.teams").joinpath("prompts", *f"{name}.txt".split("/"))
    return path.read_text(encoding="utf-8").rstrip("\n")


def spoken(completion: Completion) -> str:
    """A completion without a model's reasoning and white space around it."""
    return strip_reasoning(completion.text)[0].strip()


def fenced(program: str | None) -> str:
    """A program as a prompt shows it."""
    return "(there was no program)" if program is None else f"```python\n{program}\n```"


class _Session:
    def __init__(self, method: Method, desk: Desk) -> None:
        self.desk = desk
        self.draft: Draft | None = None
        self.lost: str | None = None
        self._work = method(desk)
        self.waits_for: Step | None = None
        self.advance(None)

    def advance(self, reply: Reply | None) -> None:
        """Go on to the next step, or to the end."""
        if isinstance(reply, Report) and reply.lost is not None:
            # An outage is no feedback: a repair after it would repair nothing.
            self.lost, self.waits_for = f"sandbox: {reply.lost}", None
            return
        try:
            self.waits_for = next(self._work) if reply is None else self._work.send(reply)
        except StopIteration as end:
            self.draft, self.waits_for = end.value, None

    def answer(self) -> Answer:
        draft, desk = self.draft, self.desk
        return Answer(
            problem=desk.problem,
            completion=draft.completion.text if draft else "",
            program=draft.program if draft else None,
            tokens=desk.tokens,
            truncated=draft.completion.truncated if draft else False,
            thought=desk.thought,
            lost=self.lost,
        )


def play(
    method: Method,
    problems: Sequence[Problem],
    n: int,
    generators: Mapping[str, Generator],
    sampling: Mapping[Length, SamplingConfig],
    tester: Tester,
    config: PromptedConfig,
    seed: int,
) -> list[list[Answer]]:
    """Let a team make ``n`` independent attempts at each problem; results in the order of the problems.

    Args:
        generators: by role name.
        sampling: by what an answer holds.

    Raises:
        InfrastructureError: when a generator does not answer. (An attempt whose tests could not be run is lost alone.)
    """
    sessions = [_Session(method, Desk(problem, config)) for problem in problems for _ in range(n)]
    round = 0
    while waiting := [(session, step) for session in sessions if (step := session.waits_for) is not None]:
        replies = _answers([step for _, step in waiting], generators, sampling, derive_seed(seed, round))
        drafts = [(session.desk.problem, step.program) for session, step in waiting if isinstance(step, Try)]
        reports = iter(tester(drafts) if drafts else ())
        for (session, step), completions in zip(waiting, replies, strict=True):
            session.advance(next(reports) if isinstance(step, Try) else completions)
        round += 1
    answers = [session.answer() for session in sessions]
    return [answers[i : i + n] for i in range(0, len(answers), n)]


def _answers(
    steps: Sequence[Step], generators: Mapping[str, Generator], sampling: Mapping[Length, SamplingConfig], seed: int
) -> list[tuple[Completion, ...]]:
    """The completions for each step (none for a test), one call for each role and length."""
    places: dict[tuple[str, Length], list[tuple[int, int, str]]] = {}
    for i, step in enumerate(steps):
        for j, ask in enumerate(step if isinstance(step, tuple) else ()):
            places.setdefault((ask.role, ask.length), []).append((i, j, ask.prompt))
    found: dict[tuple[int, int], Completion] = {}
    for role, length in sorted(places):
        asked = places[role, length]
        chats = [[{"role": "user", "content": prompt}] for _, _, prompt in asked]
        answers = generators[role].generate(chats, 1, sampling[length], derive_seed(seed, role, length))
        found |= {(i, j): group[0] for (i, j, _), group in zip(asked, answers, strict=True)}
    return [
        tuple(found[i, j] for j in range(len(step))) if isinstance(step, tuple) else () for i, step in enumerate(steps)
    ]
