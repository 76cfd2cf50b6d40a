"""What DeepSpeed compiles on first use, built ahead of the ranks.

On a CPU DeepSpeed compiles a shared-memory transport with g++ (about a minute) when its first rank starts. Torch guards
the build by a plain file named ``lock``; a build that is killed leaves it behind, and every later run then waits for
ever without a word. So it is built here, once, and a lock that no process holds is removed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from corecode.errors import InfrastructureError
from pipelines.launchers.process import start
from pipelines.launchers.tail import last_lines

_BUILD = """
import deepspeed
from deepspeed.accelerator import get_accelerator
builder = get_accelerator().create_op_builder("ShareMemCommBuilder")
if builder is not None and deepspeed.ops.__compatible_ops__.get(builder.NAME, False):
    builder.load(verbose=False)
"""
_built: set[tuple[str, ...]] = set()


def extensions_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where torch keeps compiled extensions; the folder need not exist."""
    given = environment.get("TORCH_EXTENSIONS_DIR")
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(given or f"{cache}/torch_extensions").expanduser()


def stale_locks(folder: Path) -> list[Path]:
    """Locks under the folder that no process of this machine holds: what a killed build left behind."""
    locks = [path for depth in ("*/lock", "*/*/lock") for path in folder.glob(depth)]
    if not locks:
        return []
    held = _open_files()
    return sorted(lock for lock in locks if str(lock.resolve()) not in held)


def _open_files() -> set[str]:
    """Files that a process has open, of all processes that we may look into."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found |= {os.readlink(entry) for entry in (process / "fd").iterdir()}
        except OSError:
            continue  # it ended, or belongs to another user
    return found


def build_extensions(environment: Mapping[str, str]) -> None:
    """Build what DeepSpeed needs on a CPU; nothing to do for GPUs, and only once in a process.

    Args:
        environment: of the jobs, added to this process' environment.

    Raises:
        InfrastructureError: when the compiler fails; the message holds its last lines.
    """
    whole = {**os.environ, **environment}
    folder = extensions_folder(whole)
    key = (str(folder), whole.get("DS_ACCELERATOR", ""))
    if key[1] != "cpu" or key in _built:
        return
    for lock in stale_locks(folder):
        lock.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as private:
        program = start([sys.executable, "-c", _BUILD], environment, Path(private) / "build.log", grace_s=1.0)
        try:
            code = program.process.wait()
        finally:
            program.end()
        if code:
            raise InfrastructureError(
                f"DeepSpeed could not compile its CPU transport ({program.outcome}); it needs g++ and ninja"
                f" (apt-get install g++ ninja-build). The last lines:\n{last_lines(program.log)}"
            )
    _built.add(key)
