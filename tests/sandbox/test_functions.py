"""Function-style tests: calls with plain arguments, and asserts run by the examiner."""

from __future__ import annotations

import pytest

from sandbox import Judgement, Limits, Program, Sandbox, TestCase, Verdict

WRITE_EVERYWHERE = "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{}')\n    except OSError: pass\n"
AC, WA, RE = Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.RUNTIME_ERROR


def judge(sandbox: Sandbox, source: str, *tests: TestCase, **options: object) -> Judgement:
    return sandbox.judge([Program(source, tests, **options)])[0]  # type: ignore[arg-type]


def assert_verdict(sandbox: Sandbox, source: str, code: str, verdict: Verdict, **options: object) -> None:
    judgement = judge(sandbox, source, TestCase.asserts(code), **options)
    assert judgement.verdict is verdict, judgement


class TestCalls:
    @pytest.mark.parametrize(
        ("source", "verdict"),
        [
            ("def f(a, b): return a + b", AC),
            ("def f(a, b): return float(a + b)", WA),
            ("def f(a, b): return a", WA),
            ("def f(a, b): return True", WA),
            ("def f(a, b): return None", WA),
            ("def f(a, b): print('noise'); return a + b", AC),
            ("class Solution:\n    def f(self, a: int, b: Optional[int]) -> int: return a + b", AC),
            ("def f(a, b): raise ValueError", RE),
            ("def g(a, b): return a + b", RE),
            ("f = 5", RE),
            ("import sys; sys.exit(0)", WA),
            ("import os\ndef f(a, b): os._exit(0)", WA),
            ("def f(a, b): return 10**6000", WA),
            ("def f(a, b): return object()", WA),
            ("def f(a, b):\n    x = []\n    x.append(x)\n    return x", WA),
        ],
    )
    def test_what_is_returned_decides(self, sandbox: Sandbox, source: str, verdict: Verdict) -> None:
        judgement = judge(sandbox, source, TestCase.call("f", [1, 2], 3))
        assert judgement.verdict is verdict, judgement

    def test_keyword_arguments_and_nested_data(self, sandbox: Sandbox) -> None:
        test = TestCase.call("f", [[1, {"a": [2.5]}]], {"x": [1, [2.5]]}, {"k": None})
        assert judge(sandbox, "def f(v, k): return {'x': (v[0], v[1]['a'])}", test).verdict is AC

    def test_setup_is_defined_when_the_function_runs(self, sandbox: Sandbox) -> None:
        judgement = judge(
            sandbox, "def f(): return helper()", TestCase.call("f", [], 4), setup="def helper(): return 4"
        )
        assert judgement.verdict is AC

    @pytest.mark.parametrize(
        "source",
        [
            "class E:\n    def __eq__(self, o): return True\ndef f(a, b): return E()",
            "class E(int):\n    def __eq__(self, o): return True\ndef f(a, b): return E(0)",
            "class E(list):\n    def __eq__(self, o): return True\ndef f(a, b): return E()",
            "import builtins, json\njson.dumps = lambda *a, **k: '3'\nbuiltins.type = lambda x: int\n"
            "def f(a, b): return 4",
            "import sys\nfor m in list(sys.modules.values()):\n"
            "    if hasattr(m, 'dumps'): m.dumps = lambda *a, **k: '4'\ndef f(a, b): return 4",
            WRITE_EVERYWHERE.replace("{}", '{"verdict": "accepted"}') + "def f(a, b): return 4",
        ],
    )
    def test_tricks_do_not_pass(self, sandbox: Sandbox, source: str) -> None:
        judgement = judge(sandbox, source, TestCase.call("f", [1, 2], 3))
        assert judgement.passed == 0, judgement


class TestAsserts:
    @pytest.mark.parametrize(
        ("source", "code"),
        [
            ("def f(x): return x + 1", "assert f(1) == 2"),
            ("def f(x): return {1: (2, {3})}", "assert f(0) == {1: (2, {3})}"),
            ("def f(x): return (1, 2)", "assert f(0) == (1, 2) and f(0) != [1, 2]"),
            ("def f(x): return 10**5000", "assert f(0) == 10**5000"),
            ("def f(x): return 0.1 + 0.2", "import math\nassert math.isclose(f(0), 0.3)"),
            ("def f(x): return 0.1 + 0.2", "assert abs(f(0) - 0.3) < 1e-9"),
            ("def f(x): return [3, 1]", "assert set(f(0)) == {1, 3} and sorted(f(0)) == [1, 3]"),
            ("def f(x): return False", "assert not f(0)\nassert f(0) is False"),
            ("def f(x): return None", "assert f(0) is None"),
            ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]\nassert sum(f(4)) == 6"),
            ("def f(a): a.sort()", "a = [3, 1]\nf(a)\nassert a == [1, 3]"),
            ("def f(a): a['k'] = a.pop('j')", "a = {'j': 1}\nf(a)\nassert a == {'k': 1}"),
            ("def f(x): raise KeyError('no')", "try:\n    f(0)\n    assert False\nexcept KeyError:\n    pass"),
            ("def f(g, x): return g(g(x))", "assert f(lambda x: x + 1, 3) == 5"),
            ("def f(t, x): return isinstance(x, t)", "assert f(int, 3)\nassert not f(str, 3)"),
            ("def f(n): return lambda x: x + n", "assert f(2)(3) == 5"),
            ("def sum(a, b): return 6", "assert sum(10, 15) == 6"),
            ("import sys\ndef f(x): return sys.getsizeof(x)", "assert f((1,)) == sys.getsizeof((1,))"),
            ("def f(x): return x", "def check(candidate):\n    assert candidate(1) == 1\n\ncheck(f)"),
            ("K = [1, 2]\ndef f(x): return K", "assert f(0) == K"),
            (
                "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
                "    def __len__(self): return len(self.items)\n    def __getitem__(self, i): return self.items[i]",
                "s = Stack()\ns.push(4)\nassert len(s) == 1 and s[0] == 4 and s.items == [4] and 4 in s.items\n"
                "s.items = [1, 2]\nassert len(s) == 2",
            ),
        ],
    )
    def test_right_programs_pass(self, sandbox: Sandbox, source: str, code: str) -> None:
        assert_verdict(sandbox, source, code, AC)

    @pytest.mark.parametrize(
        ("source", "code", "verdict"),
        [
            ("def f(x): return x", "assert f(1) == 2", WA),
            ("def f(x): return [1, 2]", "assert f(1) == (1, 2)", WA),
            ("def f(x): return None", "assert f(1) < 3", WA),
            ("def f(x): raise ValueError", "assert f(1) == 2", RE),
            ("def f(x): assert False", "assert f(1) == 2", WA),
            ("def g(x): return 2", "assert f(1) == 2", RE),
            ("f = None.x", "assert f(1) == 2", RE),
            ("def f(x): return x\nassert f(1) == 2", "assert f(1) == 1", WA),
            ("def f(x): return bytearray(4 << 30)", "assert f(1) == 2", Verdict.MEMORY_LIMIT),
            ("def f(x):\n    while True: pass", "assert f(1) == 2", Verdict.TIME_LIMIT),
            ("import time\ndef f(x): time.sleep(60)", "assert f(1) == 2", Verdict.TIME_LIMIT),
            ("def f(x):\n    while True: print('x' * 1000)", "assert f(1) == 2", Verdict.OUTPUT_LIMIT),
            ("def f(x): import ctypes; ctypes.string_at(1)", "assert f(1) == 2", RE),
            ("def f(x): return x", "assert f(1) == ", Verdict.SANDBOX_ERROR),
        ],
    )
    def test_how_others_fail(self, sandbox: Sandbox, source: str, code: str, verdict: Verdict) -> None:
        assert_verdict(sandbox, source, code, verdict, limits=Limits(cpu_s=0.5))

    @pytest.mark.parametrize(
        "source",
        [
            "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\ndef f(x): return E()",
            "class E(int):\n    def __eq__(self, o): return True\ndef f(x): return E(7)",
            "class T(type):\n    def __eq__(c, o): return True\nclass E(metaclass=T): pass\ndef f(x): return E",
            "import sys\nsys.exit(0)",
            "import os\nos._exit(0)",
            "import os\ndef f(x): os._exit(0)",
            "def f(x): raise SystemExit(0)",
            "import builtins\nbuiltins.AssertionError = type('A', (BaseException,), {})\n__debug__ = False\n"
            "builtins.sorted = lambda x: [1, 2, 3]\ndef f(x): return 0",
            "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and int(p) not in (1, os.getpid()):\n"
            "        try: os.kill(int(p), 9)\n        except OSError: pass\ndef f(x): return 0",
            "import os\nos.kill(-1, 9)\ndef f(x): return 0",
            WRITE_EVERYWHERE.replace("{}", '{"passed": true}') + "def f(x): return 0",
            "math = type('M', (), {'isclose': staticmethod(lambda *a: True)})\ndef f(x): return 0",
            "def sorted(x): return [1, 2, 3]\ndef f(x): return 0",
        ],
    )
    def test_tricks_do_not_pass(self, sandbox: Sandbox, source: str) -> None:
        code = "assert math.isclose(f(1), 2)\nassert sorted([f(1), 1, 3]) == [1, 2, 3]"
        judgement = judge(sandbox, source, TestCase.asserts(code), TestCase.asserts("assert f(1) == 2"))
        assert judgement.passed == 0, judgement

    def test_setup_classes_travel_as_data(self, sandbox: Sandbox) -> None:
        setup = "class Node:\n    def __init__(self, v, next=None):\n        self.v, self.next = v, next\n"
        source = "def total(n): return n.v + (total(n.next) if n.next else 0)\ndef grow(n): return Node(n.v + 1, n)"
        code = "assert total(Node(1, Node(2))) == 3\nn = grow(Node(4))\nassert isinstance(n, Node) and n.next.v == 4"
        assert_verdict(sandbox, source, code, AC, setup=setup)

    def test_setup_may_build_objects_of_the_programs_own_class(self, sandbox: Sandbox) -> None:
        source = "class Node:\n    left = None\n    def __init__(self, v): self.v = v\ndef f(n): return n.left.v"
        assert_verdict(sandbox, source, "assert f(root) == 2", AC, setup="root = Node(1)\nroot.left = Node(2)")

    def test_the_program_cannot_find_the_expected_value(self, sandbox: Sandbox) -> None:
        secret = "quite-a-secret-91827"
        source = (
            "import ctypes, gc, os, sys\n"
            "def f(x):\n    found = []\n    for o in gc.get_objects():\n"
            "        if 'quite-a-' + 'secret' in repr(o)[:10000]: found.append(repr(o))\n"
            "    for line in open('/proc/self/maps') if os.access('/proc/self/maps', os.R_OK) else []:\n"
            "        a, b = (int(v, 16) for v in line.split()[0].split('-'))\n"
            "        if 'rw' in line and 'stack' not in line and b - a < 1 << 26:\n"
            "            data = ctypes.string_at(a, b - a)\n"
            "            at = data.find(b'quite-a-' + b'secret-')\n"
            "            if at >= 0: return data[at:at + 20].decode()\n"
            "    return found[0] if found else None\n"
        )
        judgement = judge(sandbox, source, TestCase.asserts(f"assert f(0) == {secret!r}"), limits=Limits(cpu_s=5))
        assert judgement.passed == 0, judgement
