"""Counting steps changes nothing for honest programs that start threads, and counts what those do."""

from __future__ import annotations

import pytest

from sandbox import Limits, Program, TestCase, Verdict, open_sandbox

WORK = """
import _thread, threading, time
finished = []
def work():
    total = 0
    for number in range(5000):
        total += number
    finished.append(total)
{start}
while len(finished) < 1:
    time.sleep(0.001)
print(finished[0])
"""


@pytest.mark.parametrize(
    "start",
    ["thread = threading.Thread(target=work); thread.start(); thread.join()", "_thread.start_new_thread(work, ())"],
    ids=["threading", "_thread"],
)
def test_threads_run_and_are_counted(backend: str, start: str) -> None:
    program = Program(WORK.format(start=start), (TestCase.stdio("", "12497500"),), limits=Limits(cpu_s=10))
    with open_sandbox(backend, workers=1, cost="steps") as opened:
        (judgement,) = opened.judge([program])
    assert judgement.verdict is Verdict.ACCEPTED, judgement
    assert judgement.steps is not None
    assert judgement.steps > 5000
