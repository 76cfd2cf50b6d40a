"""The Algorithmic Thought: one rendering, a tolerant reader, and no tolerance for missing parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corecode.roles.thought import AlgorithmicThought, parse_thought

THOUGHT = AlgorithmicThought(
    io="a list of integers -> one integer",
    steps=["read the numbers", "keep those above 3", "print their sum"],
    conditions="empty list -> 0",
    iteration="step 2 over all numbers",
)
TEXT = """Input-Output: a list of integers -> one integer
Steps:
1. read the numbers
2. keep those above 3
3. print their sum
Conditions: empty list -> 0
Iteration: step 2 over all numbers"""


def test_render_is_the_documented_text() -> None:
    assert THOUGHT.render() == TEXT
    assert AlgorithmicThought("a", ["b"]).render().endswith("Conditions: none\nIteration: none")


# Any text, with the pieces that could be mistaken for structure made likely.
_piece = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["Steps:", "Conditions: none", "1. ", "- ", "**", "```", "\n", "Iteration:", "#", "0)", "Step 2: "]
    ),
)
_text = st.lists(_piece, max_size=5).map("".join)
_full = _text.filter(lambda text: text.split() != [])


@given(_full, st.lists(_full, min_size=1, max_size=5), _text, _text)
def test_every_thought_survives_render_and_parse(io: str, steps: list[str], conditions: str, iteration: str) -> None:
    thought = AlgorithmicThought(io, steps, conditions, iteration)
    assert parse_thought(thought.render()) == thought


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    parse_thought(text)
    parse_thought(TEXT + text)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.upper().lower(),
        TEXT.replace("\n", "\r\n"),
        TEXT.replace("\n", "\n\n"),
        f"```\n{TEXT}\n```",
        f"Here is my plan:\n\n```text\n{TEXT}\n```\nGood luck!",
        f"~~~\n{TEXT}",
        "Sure! " + "\n" + TEXT,
        TEXT.replace("Input-Output:", "**Input-Output:**").replace("Steps:", "**Steps**:"),
        TEXT.replace("Input-Output:", "## Input-Output\n").replace("Steps:", "## Steps"),
        TEXT.replace("Conditions:", "- Conditions:").replace("Iteration:", "* **Iteration:**"),
        TEXT.replace("1. ", "0. ").replace("2. ", "1. ", 1).replace("3. ", "2. "),
        TEXT.replace("1. ", "- ").replace("2. ", "- ").replace("3. ", "- "),
        TEXT.replace("1. ", "1) ").replace("2. ", "**2.** ").replace("3. ", "Step 3: "),
        TEXT.replace("Input-Output", "Input/Output").replace("Conditions", "Conditional logic"),
        TEXT.replace("keep those", "keep\n   those"),
    ],
)
def test_forms_that_models_write_are_read_alike(text: str) -> None:
    thought = parse_thought(text)
    assert thought is not None
    assert thought.render().lower() == TEXT.lower()


def test_a_part_over_several_lines_is_joined() -> None:
    thought = parse_thought(TEXT.replace("empty list -> 0", "\n- empty list -> 0\n- one number -> itself"))
    assert thought is not None
    assert thought.conditions == "empty list -> 0; one number -> itself"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would sort the list.",
        *(
            "\n".join(line for line in TEXT.split("\n") if not line.startswith(part))
            for part in ("Input", "Cond", "Iter")
        ),
        TEXT.replace("Steps:\n", ""),
        "\n".join(line for line in TEXT.split("\n") if line[0] not in "123"),
        TEXT.replace("2. keep those above 3", "2."),
        TEXT.replace("a list of integers -> one integer", ""),
        TEXT.replace("empty list -> 0", ""),
        TEXT.replace("step 2 over all numbers", ""),
        "\n".join(reversed(TEXT.split("\n"))),
        TEXT + "\n" + TEXT,
        TEXT + "\n```python\nprint(1)\n```",
        TEXT.replace("3. print", "```python\nprint(1)\n```\n3. print"),
    ],
)
def test_a_text_without_the_four_parts_in_order_is_no_thought(text: str) -> None:
    assert parse_thought(text) is None


def test_an_empty_part_cannot_be_constructed() -> None:
    for io, steps in ((" ", ["a"]), ("a", []), ("a", ["b", "\n"])):
        with pytest.raises(ValueError, match="a thought needs"):
            AlgorithmicThought(io, steps)
