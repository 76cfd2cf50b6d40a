"""From a completion to a program: the cases that public bug reports name, and what must never happen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corecode.roles.extract import Extraction, extract_program

SUM = "print(sum(map(int,input().split())))"
LONG = "import sys\n\n\ndef f(x):\n    return x + 1\n\n\nfor line in sys.stdin:\n    print(f(int(line)))"


def test_a_closing_summary_in_a_fence_is_not_the_program() -> None:
    completion = f"Here it is.\n```python\n{SUM}\n```\nSummary:\n```\ntime O(n), memory O(n)\n```\n"
    assert extract_program(completion) == Extraction(SUM, truncated=False, blocks=1)


def test_of_two_python_blocks_the_last_complete_one_counts() -> None:
    draft, final = "```python\nprint('draft')\n```\n", f"```python\n{SUM}\n```\n"
    assert extract_program(draft + "Better:\n" + final) == Extraction(SUM, truncated=False, blocks=2)
    assert extract_program(final + "Or:\n```python\nprint('cut") == Extraction(SUM, truncated=True, blocks=2)
    assert extract_program(final + "```python\n\n```").program == SUM


@pytest.mark.parametrize("program", [SUM, LONG, LONG.replace("\n\n\n", "\n")])
@pytest.mark.parametrize(
    "form",
    [
        "```py\n{}\n```",
        "```python3\n{}\n```",
        "```Python\n{}\n```",
        "~~~python\n{}\n~~~",
        "```\n{}\n```",
        "``` python \n{}\n``` ",
        "````python\n{}\n````",
        "```python\n{}```",
        "```python\n{}",
        "```python\n\n{}\n\n",
        "{}",
        "\n\n{}\n",
        "Here is the program:\n\n{}\n\nIt reads the numbers and prints them.",
        "The program:\n{}",
        "1. Like so:\n   ```python\n{}\n   ```",
        "```text\n1 2 -> 3\n```\nso\n```python\n{}\n```\n```bash\npython main.py\n```",
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_every_way_to_show_one_program_gives_the_same_text(program: str, form: str, line_end: str) -> None:
    found = extract_program(form.format(program).replace("\n", line_end))
    assert found.program == program
    assert found.blocks == 1


def test_a_missing_closing_fence_is_told() -> None:
    assert extract_program(f"```python\n{SUM}").truncated
    assert not extract_program(SUM).truncated


def test_a_fence_inside_a_list_item_is_unindented() -> None:
    inner = "\n".join("  " + line if line else "" for line in LONG.split("\n"))
    assert extract_program(f"- so:\n  ```python\n{inner}\n  ```").program == LONG


def test_a_forgotten_fence_before_the_next_block_does_not_swallow_it() -> None:
    assert extract_program(f"```text\nplan\n```python\n{SUM}\n```").program == SUM


@pytest.mark.parametrize(
    "completion",
    ["", " \n", "```python\n```", "```\n\n```", "I do not know.", "none", "42", "```cpp\nint main(){}\n```"],
)
def test_no_code_is_none_and_never_a_crash(completion: str) -> None:
    assert extract_program(completion) == Extraction(None, truncated=False, blocks=0)


def test_code_with_a_syntax_error_is_still_a_program() -> None:
    assert extract_program("def f(x):\n    return (x").program == "def f(x):\n    return (x"
    assert extract_program("```\ndef f(x:\n  pass\n```").program == "def f(x:\n  pass"


def test_a_function_body_keeps_its_indentation() -> None:
    body = "    total = 0\n    return total"
    assert extract_program(body + "\n").program == body
    assert extract_program(f"```python\n{body}\n```").program == body


FINAL = "```python\nprint(input()[::-1])\n```"
DRAFT = 'try\n```python\nprint("draft")\n```\n'


def test_drafts_in_the_reasoning_are_not_run() -> None:
    for completion in (
        f"<think>{DRAFT}</think>\n{FINAL}",
        f"{DRAFT}</think>\n{FINAL}",
        f"<thinking>\n{DRAFT}</thinking>{FINAL}",
        f"<think>{DRAFT}</think>\n<think>{DRAFT}</think>{FINAL}",
    ):
        assert extract_program(completion) == Extraction("print(input()[::-1])", truncated=False, blocks=1)


def test_reasoning_that_never_ends_gives_no_program() -> None:
    for completion in (f"<think>{DRAFT}", f"<think>{DRAFT}and so on {FINAL}", "<think>"):
        assert extract_program(completion) == Extraction(None, truncated=True, blocks=0)


@given(st.text(alphabet=st.sampled_from("`~ \n\rpython<think>/()=:x1\"'\x00\ud800"), max_size=60))
def test_no_completion_breaks_the_extraction(completion: str) -> None:
    found = extract_program(completion)
    assert (found.program is None) == (found.blocks == 0)
    assert found.program != ""
