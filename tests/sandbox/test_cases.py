"""Mistakes that graders of this field made in public, each with a small input and the right behaviour."""

from __future__ import annotations

import time

import pytest

from corecode.execution import Executor
from corecode.problems import Problem, Test
from corecode.roles.extract import extract_program
from sandbox import Comparison, Judgement, Limits, Program, Sandbox, TestCase, Verdict

AC, WA, RE = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR


def judge(sandbox: Sandbox, source: str | None, *tests: TestCase, **options: object) -> Judgement:
    return sandbox.judge([Program(source, tests, **options)])[0]  # type: ignore[arg-type]


def verdict(sandbox: Sandbox, source: str, stdin: str, expected: str, **options: object) -> Verdict:
    return judge(sandbox, source, TestCase.stdio(stdin, expected), **options).verdict


# C01: binary streams.


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nread = sys.stdin.buffer.readline\nn = int(read())\nxs = list(map(int, read().split()))\n"
        "sys.stdout.buffer.write(b'%d\\n' % sum(xs[:n]))",
        "import sys\nd = sys.stdin.buffer.read().split()\nprint(sum(map(int, d[1:])))",
        "import os\nd = os.read(0, 1 << 20).split()\nos.write(1, b'%d' % sum(map(int, d[1:])))",
        "import sys\nread = sys.stdin.buffer.readline\nread()\nprint(sum(map(int, read().split())))\nassert not read()",
    ],
)
def test_c01_binary_streams(sandbox: Sandbox, source: str) -> None:
    assert verdict(sandbox, source, "3\n1 2 3\n", "6") is AC


# C02: reading to the end of the input, in every way.

TO_THE_END = [
    "import sys\nprint(sum(int(l) for l in sys.stdin))",
    "print(sum(map(int, open(0).read().split())))",
    "s = 0\nwhile True:\n    try:\n        s += int(input())\n    except EOFError:\n        break\nprint(s)",
]


@pytest.mark.parametrize("guarded", [False, True], ids=["plain", "main guard"])
@pytest.mark.parametrize("stdin", ["1\n2\n3", "1\n2\n3\n"], ids=["unended", "ended"])
@pytest.mark.parametrize("source", TO_THE_END, ids=["iterate", "open(0)", "input until EOF"])
def test_c02_reading_to_the_end(sandbox: Sandbox, source: str, stdin: str, guarded: bool) -> None:
    if guarded:
        source = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in source.split("\n"))
    assert verdict(sandbox, source, stdin, "6") is AC


# C03: a program that ends itself ends nothing else.


def test_c03_exits_end_only_the_program(sandbox: Sandbox) -> None:
    sources = [
        "print(int(input()) + 1); exit()",
        "import sys; print(int(input()) + 1); sys.exit(0)",
        "import os, sys; print(int(input()) + 1, flush=True); os._exit(0)",
        "print(int(input()) + 1); raise SystemExit(3)",
        "import os; os._exit(0)",
        "print(int(input()) + 1)",
    ]
    judgements = sandbox.judge([Program(source, (TestCase.stdio("4", "5"),)) for source in sources])
    assert [judgement.verdict for judgement in judgements] == [AC, AC, AC, RE, WA, AC]
    assert "3" in judgements[3].tests[0].detail


# C04, C05, C06: from a completion to its program.

SUM = "print(sum(map(int, input().split())))"
REVERSED = "print(input()[::-1])"


def run_completion(sandbox: Sandbox, completion: str, stdin: str, expected: str) -> Verdict:
    return judge(sandbox, extract_program(completion).program, TestCase.stdio(stdin, expected)).verdict


def test_c04_the_last_fence_is_prose(sandbox: Sandbox) -> None:
    completion = f"Here it is.\n```python\n{SUM}\n```\nSummary:\n```\ntime O(n), memory O(n)\n```\n"
    assert run_completion(sandbox, completion, "1 2", "3") is AC
    two = f"```python\nprint('draft')\n```\nBetter:\n```python\n{SUM}\n```\n"
    assert run_completion(sandbox, two, "1 2", "3") is AC


@pytest.mark.parametrize(
    "completion",
    [
        f"```py\n{SUM}\n```",
        f"```python3\n{SUM}\n```",
        f"```Python\n{SUM}\n```",
        f"~~~python\n{SUM}\n~~~",
        f"```\n{SUM}\n```",
        f"```python\r\n{SUM}\r\n```\r\n",
        f"```python\n{SUM}\n",
        SUM,
    ],
    ids=["py", "python3", "Python", "tildes", "no label", "CRLF", "unclosed", "bare"],
)
def test_c05_one_block_with_other_labels(sandbox: Sandbox, completion: str) -> None:
    assert extract_program(completion).program == SUM
    assert run_completion(sandbox, completion, "1 2", "3") is AC


def test_c05_an_empty_completion_has_no_code(sandbox: Sandbox) -> None:
    judgement = judge(sandbox, extract_program("").program, TestCase.stdio("1 2", "3"), TestCase.stdio("2 2", "4"))
    assert (judgement.verdict, judgement.passed, judgement.total) == (Verdict.NO_CODE, 0, 2)


def test_c06_drafts_in_the_reasoning_are_not_run(sandbox: Sandbox) -> None:
    draft = "try\n```python\nprint('draft')\n```\n"
    answer = f"```python\n{REVERSED}\n```\n"
    assert run_completion(sandbox, f"<think>{draft}</think>\n{answer}", "ab", "ba") is AC
    assert run_completion(sandbox, f"{draft}</think>\n{answer}", "ab", "ba") is AC
    cut = extract_program(f"<think>{draft}")
    assert cut.program is None
    assert cut.truncated
    assert judge(sandbox, cut.program, TestCase.stdio("ab", "draft")).verdict is Verdict.NO_CODE


# C07: numbers.


@pytest.mark.parametrize(
    ("expected", "printed", "right"),
    [
        ("0.333333333333", "0.333333", AC),  # off by 3.3e-7, within 1e-6
        ("0.333333333333", "0.3333333333333333", AC),
        ("0.333333333333", "3.33333333333e-01", AC),
        ("0.333333333333", "0.3333", WA),
        ("5", "5.0", WA),
        ("5", "5.0000001", WA),
        ("1000000007", "1000000008", WA),
        ("nan", "0", WA),
        ("nan", "nan", AC),
        ("0.5 YES", "0.5000000001 yes", WA),
        ("0.5 YES", "0.5000000001 YES", AC),
    ],
)
def test_c07_numbers(sandbox: Sandbox, expected: str, printed: str, right: Verdict) -> None:
    assert verdict(sandbox, f"print({printed!r})", "", expected) is right


def test_c07_a_problem_may_ask_for_reals(sandbox: Sandbox) -> None:
    reals = Comparison(tolerance=1e-6)
    assert verdict(sandbox, "print('5.0')", "", "5", comparison=reals) is AC
    assert verdict(sandbox, "print('5.0000001')", "", "5", comparison=reals) is AC
    assert verdict(sandbox, "print('5.1')", "", "5", comparison=reals) is WA


def test_c07_returned_floats_have_the_same_tolerance(sandbox: Sandbox) -> None:
    source = "def thirds(n):\n    return [0.333333333, 2 / 3][:n]"
    assert judge(sandbox, source, TestCase.call("thirds", [2], [0.3333333333333333, 0.6666666666666666])).verdict is AC
    assert judge(sandbox, source, TestCase.call("thirds", [1], [0.34])).verdict is WA


# C08: several valid answers.

PRIME_FACTOR = """
n = int(input())
p, b = 2, 0
while n > 1:
    while n % p == 0:
        b = p
        n //= p
    p += 1
print(b)
"""
ANY_PRIME_FACTOR = """
import sys
given, stored, printed = (open(path).read().split() for path in sys.argv[1:4])
n, answer = int(given[0]), int(printed[0])
prime = answer > 1 and all(answer % d for d in range(2, answer))
sys.exit(0 if len(printed) == 1 and prime and n % answer == 0 else 1)
"""


def test_c08_a_checker_decides_where_several_answers_are_right(sandbox: Sandbox) -> None:
    test = TestCase.stdio("12", "2")
    assert judge(sandbox, PRIME_FACTOR, test).verdict is WA
    assert judge(sandbox, PRIME_FACTOR, test, checker=ANY_PRIME_FACTOR).verdict is AC
    assert judge(sandbox, "print(4)", test, checker=ANY_PRIME_FACTOR).verdict is WA
    assert judge(sandbox, "print(5)", test, checker=ANY_PRIME_FACTOR).verdict is WA
    assert judge(sandbox, "print('x')", test, checker=ANY_PRIME_FACTOR).verdict in (WA, Verdict.SANDBOX_ERROR)


# C09: order and white space.


@pytest.mark.parametrize(
    ("expected", "printed", "right"),
    [
        ("YES\nNO\nYES", "NO\nYES\nYES", WA),
        ("1 2", "2 1", WA),
        ("1\n2", "1 2", AC),  # the default compares token by token
        ("a", "a\na", WA),
        ("", "", AC),
        ("", "x", WA),
    ],
)
def test_c09_order_and_white_space(sandbox: Sandbox, expected: str, printed: str, right: Verdict) -> None:
    assert verdict(sandbox, f"print({printed!r})", "", expected) is right


def test_c09_nothing_is_right_only_from_a_program_that_ends_normally(sandbox: Sandbox) -> None:
    assert verdict(sandbox, "raise ValueError", "", "") is RE
    assert verdict(sandbox, "while True: pass", "", "", limits=Limits(cpu_s=0.5)) is Verdict.TIME_LIMIT


def test_c09_exact_white_space_on_request(sandbox: Sandbox) -> None:
    exact = Comparison(exact_whitespace=True)
    assert verdict(sandbox, "print('1 2')", "", "1\n2\n", comparison=exact) is WA
    assert verdict(sandbox, "print('1\\n2')", "", "1\n2\n", comparison=exact) is AC


# C10: objects that are equal to everything. (tests/hostile/ holds many more of this kind.)

EQUAL = """
class E({base}):
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    def __len__(s): return 0
"""


@pytest.mark.parametrize("base", ["object", "int", "str", "float"])
def test_c10_an_always_equal_value_is_not_an_answer(sandbox: Sandbox, base: str) -> None:
    source = EQUAL.format(base=base) + "def add(a, b): return E()"
    asserts = TestCase.asserts("assert add(1, 2) == 3"), TestCase.asserts("assert add(2, 2) == 4")
    calls = TestCase.call("add", [1, 2], 3), TestCase.call("add", [2, 2], 4)
    for tests in (asserts, calls):
        judgement = judge(sandbox, source, *tests)
        assert judgement.passed == 0
        assert judgement.verdict in (WA, RE)


def test_c10_the_honest_answer_is_accepted_in_the_same_way(sandbox: Sandbox) -> None:
    tests = (TestCase.asserts("assert add(1, 2) == 3"), TestCase.call("add", [2, 2], 4))
    assert judge(sandbox, "def add(a, b):\n    return a + b", *tests).verdict is AC


# C11: endless programs end the batch in time.


def test_c11_endless_programs_end_in_time(sandbox: Sandbox) -> None:
    sources = [
        *["while True: pass"] * 3,
        "import time\ntry:\n    while True: time.sleep(1)\nexcept BaseException:\n    while True: pass",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(99)",
        *[SUM] * 3,
    ]
    limits = Limits(cpu_s=1, wall_s=2)
    started = time.monotonic()
    judgements = sandbox.judge([Program(source, (TestCase.stdio("1 2", "3"),), limits=limits) for source in sources])
    assert time.monotonic() - started < 60
    assert [judgement.verdict for judgement in judgements] == [Verdict.TIME_LIMIT] * 5 + [AC] * 3


# C12: output limits.


def test_c12_a_megabyte_of_right_output_is_right(sandbox: Sandbox) -> None:
    expected = "".join(f"{i}\n" for i in range(200000))
    judgement = judge(sandbox, "for i in range(200000): print(i)", TestCase.stdio("", expected), limits=Limits(cpu_s=5))
    assert judgement.verdict is AC
    assert len(judgement.tests[0].stdout) <= 4096


@pytest.mark.parametrize(
    "source",
    ["while True: print('x' * 1000)", "import sys\nwhile True: sys.stderr.write('e' * 1000)"],
    ids=["stdout", "stderr"],
)
def test_c12_endless_output_is_its_own_verdict(sandbox: Sandbox, source: str) -> None:
    limits = Limits(cpu_s=3, output_kb=1024)
    assert verdict(sandbox, source, "", "x", limits=limits) in (Verdict.OUTPUT_LIMIT, Verdict.TIME_LIMIT)


# C03 again, one level up: a report counts every program.


def test_c03_a_report_counts_every_program(sandbox: Sandbox) -> None:
    problem = Problem(id="next", statement="", tests=[Test(input="4", output="5")])
    sources = ["import os; os._exit(0)", "raise SystemExit(3)", None, "print(int(input()) + 1)"]
    judgements = Executor(sandbox).judge([(problem, source) for source in sources])
    assert [judgement.verdict for judgement in judgements] == [WA, RE, Verdict.NO_CODE, AC]
