"""What the sandbox says of programs, on both backends."""

from __future__ import annotations

import asyncio

import pytest

from sandbox import Comparison, Judgement, Limits, Program, Sandbox, TestCase, Verdict

QUICK = Limits(cpu_s=0.5, wall_s=4)
PATIENT = Limits(cpu_s=0.5, wall_s=30)
"""For what must meet its CPU limit, also on a machine that has little CPU to give."""
AMPLE = Limits(cpu_s=20, wall_s=60)
"""For what must meet no time limit, also on a machine that takes half a second to hand out 256 MiB."""


def judge(sandbox: Sandbox, source: str | None, *tests: TestCase, **options: object) -> Judgement:
    return sandbox.judge([Program(source, tests, **options)])[0]  # type: ignore[arg-type]


IO = TestCase.stdio("4", "5")

DEEP = "import sys; sys.setrecursionlimit(10**6)\ndef f(n): return n and 1 + f(n - 1)\nprint(f(30000) - 29995)"
ENDINGS = [
    ("print(int(input()) + 1)", Verdict.ACCEPTED, ""),
    ("print(int(input()) + 2)", Verdict.WRONG_ANSWER, ""),
    ("print(1 / 0)", Verdict.RUNTIME_ERROR, "ZeroDivisionError"),
    ("class Odd(Exception): pass\nraise Odd('x: y')", Verdict.RUNTIME_ERROR, "Odd"),
    ("print(5", Verdict.RUNTIME_ERROR, "SyntaxError"),
    ("print('\\ud800')\n\x00", Verdict.RUNTIME_ERROR, "SyntaxError"),
    ("print(5); raise SystemExit(3)", Verdict.RUNTIME_ERROR, "exit code 3"),
    ("print(5); raise SystemExit('why')", Verdict.RUNTIME_ERROR, "why"),
    ("import os; os.kill(os.getpid(), 9)", Verdict.RUNTIME_ERROR, "SIGKILL"),
    ("import os; os.abort()", Verdict.RUNTIME_ERROR, "SIGABRT"),
    ("import ctypes; ctypes.string_at(1)", Verdict.RUNTIME_ERROR, "SIGSEGV"),
    ("while True: pass", Verdict.TIME_LIMIT, "CPU time"),
    ("import time; time.sleep(60)", Verdict.TIME_LIMIT, "wall time"),
    ("import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", Verdict.TIME_LIMIT, "CPU time"),
    ("x = bytearray(4 << 30)", Verdict.MEMORY_LIMIT, "256 MiB"),
    ("x = [0] * (45 << 20)\nprint(5)", Verdict.MEMORY_LIMIT, "256 MiB"),
    ("try:\n    x = bytearray(4 << 30)\nexcept MemoryError:\n    print(5)", Verdict.ACCEPTED, ""),
    ("while True: print('x' * 1000)", Verdict.OUTPUT_LIMIT, "KiB"),
    ("import sys\nwhile True: sys.stderr.write('x' * 1000)", Verdict.OUTPUT_LIMIT, "KiB"),
    ("import os; print(5, flush=True); os._exit(0)", Verdict.ACCEPTED, ""),
    ("import os; os._exit(0)", Verdict.WRONG_ANSWER, ""),
    ("import atexit; atexit.register(print, 5)", Verdict.ACCEPTED, ""),
    ("import threading; threading.Thread(target=print, args=(5,)).start()", Verdict.ACCEPTED, ""),
    (DEEP, Verdict.ACCEPTED, ""),
]


@pytest.mark.parametrize(("source", "verdict", "detail"), ENDINGS)
def test_every_ending_has_its_verdict(sandbox: Sandbox, source: str, verdict: Verdict, detail: str) -> None:
    limits = {"CPU time": PATIENT, "wall time": QUICK}.get(detail, AMPLE)
    judgement = judge(sandbox, source, IO, limits=limits)
    assert (judgement.verdict, judgement.total) == (verdict, 1), judgement
    assert detail in judgement.detail


def test_each_test_has_its_own_verdict_in_order(sandbox: Sandbox) -> None:
    source = "n = int(input())\nif n == 2: raise KeyError\nprint(n if n != 3 else 0)"
    judgement = judge(sandbox, source, *[TestCase.stdio(str(n), str(n)) for n in range(1, 5)])
    kinds = [test.verdict for test in judgement.tests]
    assert kinds == [Verdict.ACCEPTED, Verdict.RUNTIME_ERROR, Verdict.WRONG_ANSWER, Verdict.ACCEPTED]
    assert (judgement.verdict, judgement.passed, judgement.total) == (Verdict.RUNTIME_ERROR, 2, 4)
    assert judgement.pass_ratio == 0.5


def test_stop_at_first_failure_skips_the_rest(sandbox: Sandbox) -> None:
    tests = [TestCase.stdio(str(n), str(n) if n != 3 else "x") for n in range(8)]
    judgement = judge(sandbox, "print(input())", *tests, stop_at_first_failure=True)
    assert [test.verdict for test in judgement.tests] == [Verdict.ACCEPTED] * 3 + [Verdict.WRONG_ANSWER]
    assert (judgement.passed, judgement.total) == (3, 8)


def test_stop_at_first_failure_lets_a_right_program_pass_every_kind(sandbox: Sandbox) -> None:
    source = "def f(x): return x\nif __name__ == '__main__': print(input())"
    tests = (
        [TestCase.stdio("a", "a")] * 7 + [TestCase.call("f", [1], 1)] * 7 + [TestCase.asserts("assert f(2) == 2")] * 7
    )
    judgement = judge(sandbox, source, *tests, stop_at_first_failure=True)
    assert (judgement.verdict, judgement.passed) == (Verdict.ACCEPTED, 21)


@pytest.mark.parametrize("source", [None, "", "  \n"])
def test_no_program_is_no_code(sandbox: Sandbox, source: str | None) -> None:
    judgement = judge(sandbox, source, TestCase.stdio("", ""), TestCase.stdio("", ""))
    assert (judgement.verdict, judgement.passed, judgement.total) == (Verdict.NO_CODE, 0, 2)


def test_a_program_without_tests_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="without tests"):
        judge(sandbox, "print(1)")


def test_results_keep_the_order_of_the_inputs(sandbox: Sandbox) -> None:
    sources = [f"import time; time.sleep({0.05 if n % 7 == 0 else 0}); print({n})" for n in range(60)]
    programs = [Program(source, (TestCase.stdio("", str(n)),)) for n, source in enumerate(sources)]
    assert all(judgement.verdict is Verdict.ACCEPTED for judgement in sandbox.judge(programs))


def test_many_can_be_awaited_at_once(sandbox: Sandbox) -> None:
    async def all_of_them() -> list[Judgement]:
        programs = [Program(f"print({n})", (TestCase.stdio("", str(n % 2)),)) for n in range(20)]
        return await asyncio.gather(*(sandbox.judge_one(program) for program in programs))

    verdicts = [judgement.verdict for judgement in asyncio.run(all_of_them())]
    assert verdicts == [Verdict.ACCEPTED] * 2 + [Verdict.WRONG_ANSWER] * 18


def test_large_inputs_and_outputs(sandbox: Sandbox) -> None:
    text = "\n".join(map(str, range(300_000)))
    tests = [TestCase.stdio(text, text)] * 6
    assert judge(sandbox, "import sys; sys.stdout.write(sys.stdin.read())", *tests).passed == 6


def test_an_input_beyond_all_bounds_is_not_held_against_the_program(sandbox: Sandbox) -> None:
    judgement = judge(sandbox, "print(1)", TestCase.stdio("x" * (33 << 20), "1"), TestCase.stdio("", "1"))
    assert judgement.verdict is Verdict.SANDBOX_ERROR
    assert judgement.tests[1].verdict in (Verdict.ACCEPTED, Verdict.SANDBOX_ERROR)


def test_costs_are_measured(sandbox: Sandbox) -> None:
    source = "import time\nx = bytearray(64 << 20)\nwhile time.process_time() < 0.3: pass\ntime.sleep(0.2)\nprint(1)"
    cost = judge(sandbox, source, TestCase.stdio("", "1")).tests[0]
    assert 0.25 < cost.cpu_s < 0.6
    assert cost.wall_s > cost.cpu_s + 0.15
    assert 60 < cost.peak_mb < 70
    assert cost.steps is None


def test_an_empty_program_costs_no_memory(sandbox: Sandbox) -> None:
    assert judge(sandbox, "pass", TestCase.stdio("", "")).peak_mb < 1.5


def test_cpu_time_of_children_and_strays_counts(sandbox: Sandbox) -> None:
    burn = (
        "import os, time\nr, w = os.pipe()\nif os.fork() == 0:\n    while time.process_time() < 0.4: pass\n"
        "    os.write(w, b'x')\n    time.sleep(STAY)\n    os._exit(0)\nos.read(r, 1)\n"
    )
    limits = Limits(cpu_s=2, wall_s=30)
    for source in (burn.replace("STAY", "0") + "os.wait()\nprint(1)", burn.replace("STAY", "60") + "print(1)"):
        assert judge(sandbox, source, TestCase.stdio("", "1"), limits=limits).cpu_s > 0.38


def test_larger_limits_are_given(sandbox: Sandbox) -> None:
    source = (
        "import os\nx = [0] * (100 << 20)\nfor _ in range(30):\n    if os.fork() == 0:\n        os._exit(0)\nprint(1)"
    )
    limits = Limits(cpu_s=5, memory_mb=1024, processes=40)
    assert judge(sandbox, source, TestCase.stdio("", "1"), limits=limits).verdict is Verdict.ACCEPTED


def test_a_strange_standard_output_is_compared_as_bytes(sandbox: Sandbox) -> None:
    source = "import sys; sys.stdout.buffer.write(b'\\xff\\xfe')"
    assert judge(sandbox, source, TestCase.stdio("", "x")).verdict is Verdict.WRONG_ANSWER


def test_text_of_any_language_passes_through(sandbox: Sandbox) -> None:
    text = "naïve 東京 \U0001f600"
    assert judge(sandbox, "print(input())", TestCase.stdio(text, text)).verdict is Verdict.ACCEPTED


def test_the_same_program_gives_the_same_output_every_time(sandbox: Sandbox) -> None:
    source = "import random\nprint(random.random(), sorted({'a', 'b', 'c'}, key=hash), hash('x'))"
    outputs = {judge(sandbox, source, TestCase.stdio("", "")).tests[0].stdout for _ in range(4)}
    assert len(outputs) == 1


def test_nothing_survives_a_test(sandbox: Sandbox) -> None:
    leave = (
        "import os, time\nfor d in ('/tmp', '/dev/shm'):\n    os.makedirs(d + '/a/b' * 40)\n"
        "    open(d + '/f', 'w').write('x')\n    os.chmod(d + '/a', 0)\n    os.symlink('/etc', d + '/l')\n"
        "try:\n    os.chmod('/tmp', 0)\nexcept OSError:\n    pass\n"
        "if os.fork() == 0:\n    time.sleep(60)\nprint(5)"
    )
    look = (
        "import os\nopen('/tmp/x', 'w').close()\nos.unlink('/tmp/x')\n"
        "names = [p for p in os.listdir('/proc') if p.isdigit()]\n"
        "print(os.listdir('/tmp'), os.listdir('/dev/shm'), len(names))"
    )
    programs = [Program(leave, (IO,)), Program(look, (TestCase.stdio("", "[] [] 3"),))] * 3
    assert [judgement.verdict for judgement in sandbox.judge(programs)] == [Verdict.ACCEPTED] * 6


class TestCheckers:
    CHECKER = (
        "import sys\ni, e, o = (open(p).read() for p in sys.argv[1:])\nprint(int(int(i) % int(o) == 0 < int(o) - 1))"
    )

    @pytest.mark.parametrize(("answer", "verdict"), [("3", Verdict.ACCEPTED), ("5", Verdict.WRONG_ANSWER)])
    def test_a_checker_decides(self, sandbox: Sandbox, answer: str, verdict: Verdict) -> None:
        judgement = judge(sandbox, f"print({answer})", TestCase.stdio("12", "2"), checker=self.CHECKER)
        assert judgement.verdict is verdict

    @pytest.mark.parametrize(
        ("checker", "verdict"),
        [
            ("pass", Verdict.ACCEPTED),
            ("print(0.5)", Verdict.ACCEPTED),
            ("print(0)", Verdict.WRONG_ANSWER),
            ("print('ok')", Verdict.WRONG_ANSWER),
            ("raise SystemExit(1)", Verdict.WRONG_ANSWER),
            ("int('x')", Verdict.WRONG_ANSWER),
            ("print(1", Verdict.SANDBOX_ERROR),
        ],
    )
    def test_how_a_checker_speaks(self, sandbox: Sandbox, checker: str, verdict: Verdict) -> None:
        judgement = judge(sandbox, "print(3)", TestCase.stdio("12", "2"), checker=checker)
        assert judgement.verdict is verdict, judgement

    def test_a_checker_is_not_asked_about_a_crash(self, sandbox: Sandbox) -> None:
        assert judge(sandbox, "1 / 0", IO, checker="print(1)").verdict is Verdict.RUNTIME_ERROR

    def test_no_file_of_a_checker_is_there_for_programs(self, sandbox: Sandbox) -> None:
        tests = [TestCase.stdio("", "x")] * 3
        checker = "import sys\nprint(int(open(sys.argv[3]).read().strip() == '[]'))"
        assert judge(sandbox, "import os; print(os.listdir('/tmp'))", *tests, checker=checker).passed == 3


def test_comparison_options_reach_the_judge(sandbox: Sandbox) -> None:
    test = TestCase.stdio("", "a  1")
    assert judge(sandbox, "print('a 1')", test).verdict is Verdict.ACCEPTED
    exact = Comparison(exact_whitespace=True)
    assert judge(sandbox, "print('a 1')", test, comparison=exact).verdict is Verdict.WRONG_ANSWER
