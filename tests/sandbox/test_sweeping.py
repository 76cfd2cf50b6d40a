"""What a killed owner leaves behind is removed, and nothing of a living one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import sandbox
from sandbox import cgroup

PROGRAM = """
import sys
from sandbox.cgroup import ControlGroup
group = ControlGroup.create(0)
print(*(group._folders.values() if group else ()), flush=True)
sys.stdin.read()
"""


def test_groups_of_a_killed_owner_go_and_those_of_a_living_one_stay(missing_requirement: Callable[[str], None]) -> None:
    if cgroup.usable() is None:
        missing_requirement("no control group can be made here")
    owners = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    groups: list[list[Path]] = []
    for owner in owners:
        assert owner.stdout is not None
        groups.append([Path(word) for word in owner.stdout.readline().split()])
    dead, alive = groups
    try:
        assert dead
        assert all(group.is_dir() for group in dead + alive)
        owners[0].kill()
        owners[0].wait()
        sandbox.sweep()
        assert not any(group.exists() for group in dead)
        assert all(group.is_dir() for group in alive)
    finally:
        for owner in owners:
            owner.kill()
            owner.communicate()
        sandbox.sweep()
    assert not any(group.exists() for group in alive)
