"""Runs every attacking program on both backends, and honest programs after each of them."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import host_state
import pytest
from catalogue import KINDS, Attack, complaints, read_attacks

from sandbox import Limits, Program, Sandbox, SandboxUnavailable, TestCase, Verdict, open_sandbox

ATTACKS = read_attacks()
SLACK_S = 30.0
"""How much longer than its wall limits an attack may keep the judge busy, on a loaded machine."""

HONEST = Program("a, b = map(int, input().split())\nprint(a + b)", (TestCase.stdio("2 3\n", "5"),))
WRONG = Program("a, b = map(int, input().split())\nprint(a - b)", (TestCase.stdio("2 3\n", "5"),))
FUNCTION = Program(
    "def add(a, b):\n    return a + b", (TestCase.call("add", [1, 2], 3), TestCase.asserts("assert add(2, 2) == 4"))
)
NEIGHBOURS = ((HONEST, Verdict.ACCEPTED), (WRONG, Verdict.WRONG_ANSWER), (FUNCTION, Verdict.ACCEPTED))


class Arena:
    """One sandbox of one worker for each way to count costs, so that an attack and its successor share a worker."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._open: dict[str, Sandbox] = {}

    def sandbox(self, cost: str) -> Sandbox:
        if cost not in self._open:
            self._open[cost] = open_sandbox(self._backend, workers=1, cost=cost)
        return self._open[cost]

    def close(self) -> None:
        for opened in self._open.values():
            opened.close()


@pytest.fixture(scope="module")
def arena(backend: str) -> Iterator[Arena]:
    """Checks at its end that the host is as it was."""
    host_state.adopt_orphans()
    os.environ["HOSTILE_CANARY"] = "a credential of the judge's own"
    before = host_state.left_behind()
    opened = Arena(backend)
    yield opened
    opened.close()
    del os.environ["HOSTILE_CANARY"]
    host_state.check_nothing_left(before)


def check_neighbours(sandbox: Sandbox) -> None:
    judgements = sandbox.judge([program for program, _ in NEIGHBOURS])
    assert [judgement.verdict for judgement in judgements] == [verdict for _, verdict in NEIGHBOURS], judgements


def test_the_catalogue_covers_every_kind() -> None:
    files = {attack.name.split(" as ")[0] for attack in ATTACKS}
    assert len(files) >= 60
    counts = Counter(name.split("/")[0] for name in files)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 10


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_contained(attack: Attack, arena: Arena) -> None:
    sandbox = arena.sandbox(attack.cost)
    for _ in range(attack.runs):
        program = attack.program()
        limits = program.limits
        longest = (limits.wall_s or 3 * limits.cpu_s + 1) * len(program.tests)
        started = time.monotonic()
        judgement = sandbox.judge([program])[0]
        took = time.monotonic() - started
        assert complaints(attack, judgement) == [], judgement
        assert took < longest + SLACK_S, judgement
    check_neighbours(sandbox)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("print('5')\0", Verdict.RUNTIME_ERROR),
        ("print('\ud800')", Verdict.RUNTIME_ERROR),
        ("# coding: nonsense\nprint(5)", Verdict.RUNTIME_ERROR),
        ("\ufeffprint(5)", Verdict.ACCEPTED),
        ("print(5)\r\n", Verdict.ACCEPTED),
        ("", Verdict.NO_CODE),
        ("(" * 5000, Verdict.RUNTIME_ERROR),
        ("x = " + "-" * 200_000 + "1", Verdict.RUNTIME_ERROR),
        ("x = a" + ".b" * 200_000, Verdict.RUNTIME_ERROR),
        ("x = [" + "1," * 100_000 + "]\nprint(5)", Verdict.ACCEPTED),
        ("  print(5)", Verdict.RUNTIME_ERROR),
        (None, Verdict.NO_CODE),
    ],
    ids=["nul", "surrogate", "coding", "mark", "crlf", "empty", "open", "unary", "dotted", "long", "indented", "none"],
)
def test_odd_sources(source: str | None, verdict: Verdict, arena: Arena) -> None:
    sandbox = arena.sandbox("cpu_time")
    # A source that no compiler can follow may also run out of memory or time; it is never accepted.
    harmless = (
        {verdict} if verdict is not Verdict.RUNTIME_ERROR else {verdict, Verdict.MEMORY_LIMIT, Verdict.TIME_LIMIT}
    )
    assert sandbox.judge([Program(source, (TestCase.stdio("", "5"),))])[0].verdict in harmless
    check_neighbours(sandbox)


def test_a_program_beside_another_learns_nothing(backend: str) -> None:
    spy = next(attack for attack in ATTACKS if attack.name == "spying/neighbour")
    token = f"token-{secrets.token_hex(8)}"
    victim = (
        "import os, sys, time\n"
        f"held = '{token}'\n"
        "for folder in ('/tmp', '/dev/shm'):\n"
        "    open(folder + '/' + held, 'w').write(held)\n"
        "    os.chmod(folder + '/' + held, 0o777)\n"
        "sys.argv[:] = [held]\n"
        "os.environ['HELD'] = held\n"
        "time.sleep(1.2)\n"
        "print(input())\n"
    )
    limits = Limits(cpu_s=3, wall_s=6)
    with open_sandbox(backend, workers=2) as opened:
        seen, spied = opened.judge(
            [
                Program(victim, (TestCase.stdio(token, token),), limits=limits),
                Program(spy.source, (TestCase.stdio("", token),), limits=limits),
            ]
        )
    assert seen.verdict is Verdict.ACCEPTED, seen
    assert spied.verdict is Verdict.WRONG_ANSWER, spied
    assert spied.tests[0].stdout == "nothing\n"


def test_a_fork_bomb_on_a_starved_machine_is_still_judged(missing_requirement: Callable[[str], None]) -> None:
    """A program whose many processes keep the sandbox's own from running must not get away as a sandbox error."""
    bomb = next(attack for attack in ATTACKS if attack.name == "denial/fork_bomb")
    before = host_state.control_groups()
    try:
        opened = open_sandbox("bubblewrap", workers=1)
    except SandboxUnavailable as error:
        missing_requirement(str(error))
    with opened:
        quotas = [
            (Path(group, name), text)
            for group in host_state.control_groups() - before
            for name, text in (("cpu.max", "6000 100000"), ("cpu.cfs_quota_us", "6000"))
            if Path(group, name).exists()
        ]
        if not quotas:
            pytest.skip("no control group to starve: the sandbox uses resource limits here")
        for path, text in quotas:
            path.write_text(text)
        (judgement,) = opened.judge([bomb.program()])
        assert judgement.verdict in (Verdict.TIME_LIMIT, Verdict.RUNTIME_ERROR), judgement
        check_neighbours(opened)


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def honest_program(number: int) -> tuple[Program, Verdict]:
    """An honest program whose right verdict depends on its number; every one differs."""
    right = number % 3 != 0
    shift = 0 if right else 1
    verdict = Verdict.ACCEPTED if right else Verdict.WRONG_ANSWER
    if number % 2:
        source = f"n = int(input())\nprint(n * {number} + {shift})"
        return Program(source, (TestCase.stdio(f"{number}\n", str(number * number)),)), verdict
    source = f"def times(n):\n    return n * {number} + {shift}"
    return Program(source, (TestCase.call("times", [number], number * number),)), verdict


def test_a_thousand_programs_a_third_of_them_hostile(backend: str) -> None:
    shuffled = random.Random(20260508)
    quick = [attack for attack in ATTACKS if not attack.waits and attack.cost == "cpu_time"]
    slow = [attack for attack in ATTACKS if attack.waits and attack.limits.cpu_s <= 0.5]
    hostile = shuffled.choices(quick, k=313) + shuffled.choices(slow, k=20)
    jobs: list[tuple[Program, Verdict | Attack]] = [honest_program(number) for number in range(667)]
    jobs += [(attack.program(), attack) for attack in hostile]
    shuffled.shuffle(jobs)
    host_state.adopt_orphans()
    before = host_state.left_behind()
    with open_sandbox(backend, workers=8) as opened:
        opened.judge([program for program, _ in jobs[:50]])  # what a pool needs once is not growth
        resident = resident_mb()
        judgements = opened.judge([program for program, _ in jobs])
        grown = resident_mb() - resident
    wrong = [
        (expected.name if isinstance(expected, Attack) else program.source, judgement)
        for (program, expected), judgement in zip(jobs, judgements, strict=True)
        if (
            judgement.verdict in (Verdict.ACCEPTED, Verdict.SANDBOX_ERROR) and "answer" not in expected.headers
            if isinstance(expected, Attack)
            else judgement.verdict is not expected
        )
    ]
    assert wrong == []
    assert grown < 40, f"the judge grew by {grown:.0f} MiB"
    host_state.check_nothing_left(before)


def test_many_awaited_at_once_keep_their_own_results(backend: str) -> None:
    programs = [honest_program(number) for number in range(60)]

    async def judge_all(opened: Sandbox) -> list[Verdict]:
        judgements = await asyncio.gather(*(opened.judge_one(program) for program, _ in programs))
        return [judgement.verdict for judgement in judgements]

    with open_sandbox(backend, workers=2) as opened:
        assert asyncio.run(judge_all(opened)) == [verdict for _, verdict in programs]
