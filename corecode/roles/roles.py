"""Roles: how each member of a team is asked, and how its completion is read. The same in training and evaluation.

Prompts are text files under ``prompts/full`` (instructions for a pretrained chat model) and ``prompts/compact``
(headings only, for a model trained from scratch).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal

from corecode.errors import UserError
from corecode.problems import Problem, Reference, Test
from corecode.roles.extract import Extraction, extract_program, first_fence, strip_reasoning
from corecode.roles.thought import AlgorithmicThought, parse_thought

Message = dict[str, str]
Prompts = Literal["full", "compact"]

WRITES: dict[str, Literal["text", "program", "both"]] = {"planner": "text", "coder": "program", "solver": "both"}
"""What each role writes: a thought, a program, or a thought and then a program."""
ROLES = tuple(WRITES)
READ_THOUGHTS = frozenset({"coder"})
"""Roles that are shown the latest thought of those before them."""
CODE_HEADING = "### Code"
"""Separates thought and program in a compact solver's completion."""

_PLACEHOLDER = re.compile(r"\{(statement|thought|examples|interface|planning_interface)\}")


@dataclass(frozen=True)
class Artifact:
    """What a completion holds. Which fields are set depends on the role."""

    text: str | None = None
    """The thought as written, which the next role reads (planner, solver)."""
    thought: AlgorithmicThought | None = None
    """The thought in its four parts; None when it does not parse."""
    extraction: Extraction | None = None
    """The program (coder, solver)."""

    @property
    def thought_valid(self) -> bool | None:
        """Whether the thought parses; None for a role that writes none."""
        return None if self.text is None else self.thought is not None

    @property
    def program(self) -> str | None:
        """The program's source; None without one."""
        return self.extraction.program if self.extraction else None


@dataclass(frozen=True)
class Role:
    """One member of a team."""

    name: str
    """One of ``ROLES``."""
    prompts: Prompts

    @property
    def writes_program(self) -> bool:
        return WRITES[self.name] != "text"

    @property
    def reads_thought(self) -> bool:
        return self.name in READ_THOUGHTS

    def messages(self, problem: Problem, thought: str | None = None, *, show_problem: bool = True) -> list[Message]:
        """The chat that asks this role.

        Args:
            thought: the latest one, for a role that reads thoughts. None asks the coder alone.
            show_problem: False shows the coder nothing but the thought (a share of its warm-up examples).

        Raises:
            ValueError: for a thought given to another role, or neither problem nor thought.
        """
        if thought is not None and not self.reads_thought:
            raise ValueError(f"the {self.name} takes no thought")
        if not show_problem and thought is None:
            raise ValueError("give a problem or a thought")
        template = self.name
        if self.name == "coder" and thought is None:
            template = "coder_alone"
        elif not show_problem:
            template = "coder_thought_only"
        values = {
            "statement": problem.statement.strip(),
            "thought": (thought or "").strip(),
            "examples": render_examples(problem),
            "interface": interface(problem),
            "planning_interface": _planning_interface(problem),
        }
        # One pass, so that braces or placeholders inside a statement stay as they are.
        content = _PLACEHOLDER.sub(lambda match: values[match[1]], _template(self.prompts, template))
        return [{"role": "user", "content": content}]

    def parse(self, completion: str) -> Artifact:
        """Read a completion. Never raises: a bad completion is data."""
        if not self.writes_program:
            return _thought_artifact(completion)
        extraction = extract_program(completion)
        if WRITES[self.name] == "program":
            return Artifact(extraction=extraction)
        answer, cut = strip_reasoning(completion)
        thought, heading, code = answer.partition(f"\n{CODE_HEADING}\n")
        if heading:
            extraction = extract_program(code)
            extraction = replace(extraction, truncated=extraction.truncated or cut)
        else:
            thought = answer[: first_fence(answer)]
        return Artifact(thought.strip(), parse_thought(thought), extraction)

    def target(self, reference: Reference) -> str:
        """The completion that the warm-up teaches this role; :meth:`parse` reads it back.

        Raises:
            ValueError: when this role needs a thought and the reference has none.
        """
        program = reference.program.strip("\n")
        answer = program if self.prompts == "compact" else f"```python\n{program}\n```"
        if WRITES[self.name] == "program":
            return answer
        if reference.thought is None:
            raise ValueError(f"the {self.name} needs a reference with a thought")
        thought = reference.thought.strip()
        if not self.writes_program:
            return thought
        separator = f"\n{CODE_HEADING}\n" if self.prompts == "compact" else "\n\n"
        return thought + separator + answer


def known_role(name: str) -> str:
    """The name itself.

    Raises:
        ValueError: no role has this name.
    """
    if name not in ROLES:
        raise ValueError(f"unknown role {name!r}; known roles: {', '.join(ROLES)}")
    return name


def role(name: str, prompts: Prompts) -> Role:
    """A role by name.

    Raises:
        UserError: for an unknown name.
    """
    try:
        return Role(known_role(name), prompts)
    except ValueError as error:
        raise UserError(str(error)) from None


def render_examples(problem: Problem) -> str:
    """Public examples as text, with a blank line before; empty without any."""
    shown = [_example(problem, number, test) for number, test in enumerate(problem.examples, 1)]
    return "\n\n" + "\n\n".join(shown) if shown else ""


def _example(problem: Problem, number: int, test: Test) -> str:
    if problem.kind == "stdio":
        return f"Example {number}\nInput:\n{test.input.strip()}\nOutput:\n{test.output.strip()}"
    if problem.kind == "call":
        arguments = [json.dumps(value, ensure_ascii=False) for value in test.args]
        arguments += [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in test.kwargs.items()]
        expected = json.dumps(test.expected, ensure_ascii=False)
        return f"Example {number}\n{test.call}({', '.join(arguments)}) returns {expected}"
    return f"Example {number}\n{test.code.strip()}"


def _entry_point(problem: Problem) -> str | None:
    if problem.kind == "stdio":
        return None
    return problem.entry_point or problem.tests[0].call or None


def interface(problem: Problem) -> str:
    """What the program has to look like, in a sentence or two."""
    if problem.kind == "stdio":
        return "The program reads its input from standard input and prints the answer to standard output, nothing else."
    name = _entry_point(problem)
    wanted = f"the function `{name}`" if name else "the function that the problem asks for"
    return f"Define {wanted} with exactly the name and parameters of the problem, complete and with all imports."


def _planning_interface(problem: Problem) -> str:
    if problem.kind == "stdio":
        return "a program that reads standard input and prints to standard output"
    name = _entry_point(problem)
    return f"the function `{name}`" if name else "the function that the problem asks for"


def _thought_artifact(completion: str) -> Artifact:
    answer, _ = strip_reasoning(completion)
    return Artifact(text=answer.strip(), thought=parse_thought(answer))


@cache
def _template(prompts: Prompts, name: str) -> str:
    text = files("corecode.roles").joinpath("prompts", prompts, f"{name}.txt").read_text(encoding="utf-8")
    # Compact prompts end with a heading's line end, which the model continues; instructions end with their last word.
    return text if prompts == "compact" else text.rstrip("\n")
