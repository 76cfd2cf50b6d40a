"""Where runs live: ``$CORECODE_HOME`` (default ``./.corecode``), checked before anything is written.

runs/<name>/     one folder a run
cache/           finished jobs by what decided them, see pipelines.reuse
champions/       teams that were champion, see pipelines.registry
champion         -> the present one of them
dagster/         Dagster's stores (DAGSTER_HOME of ``corecode run`` and ``corecode up``)
mlflow/          MLflow's store and artifacts, unless MLFLOW_TRACKING_URI names a server
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from corecode.errors import UserError

VARIABLE = "CORECODE_HOME"
GIB = 1024**3
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,199}")


def home_folder() -> Path:
    """The absolute home folder; it need not exist."""
    return Path(os.environ.get(VARIABLE) or ".corecode").expanduser().absolute()


def existing_home() -> Path:
    """The home folder, for commands that look at what was made before; nothing is made.

    Raises:
        UserError: it is not there.
    """
    home = home_folder()
    if not home.is_dir():
        wrong = "is a file" if home.exists() else "does not exist"
        raise UserError(f"the home folder {home} {wrong}; set {VARIABLE} to the folder that 'corecode run' has filled")
    return home


def prepare_home(needed_bytes: int) -> Path:
    """Create the home folder after checking that it can be written and has room.

    Raises:
        UserError: it cannot be written, or less than ``needed_bytes`` are free. Nothing is left behind.
    """
    home = home_folder()
    existing = next(parent for parent in (home, *home.parents) if parent.exists())
    if not existing.is_dir():
        raise UserError(f"cannot write to {home}: {existing} is a file; set {VARIABLE} to a folder")
    with disk_errors(home):
        try:
            with tempfile.TemporaryFile(dir=existing) as probe:
                probe.write(b"x" * 4096)
                probe.flush()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            raise UserError(f"cannot write to {home}: {error.strerror}; set {VARIABLE} to a writable folder") from error
        require_room(existing, needed_bytes)
        home.mkdir(parents=True, exist_ok=True)
    os.environ[VARIABLE] = str(home)  # jobs and servers that we start see the same folder
    return home


def require_room(existing: Path, needed_bytes: int) -> None:
    """Raise UserError when the disk of an existing folder has too little room."""
    free = shutil.disk_usage(existing).free
    if free < needed_bytes:
        raise UserError(
            f"the disk is full: {existing} has {free / GIB:.2f} GiB free and this needs {needed_bytes / GIB:.2f}; "
            f"free some space or set {VARIABLE} to another disk"
        )


@contextmanager
def disk_errors(folder: Path) -> Generator[None]:
    """Turn "no space left" and "read-only" into the user's sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"the disk is full: cannot write under {folder}; free some space") from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise UserError(f"cannot write to {error.filename or folder}: {error.strerror}") from error
        raise


@contextmanager
def one_at_a_time(folder: Path) -> Generator[None]:
    """Let one process at a time into a folder; it is created when it is not there. A process that dies lets go."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_plain_name(name: str) -> bool:
    """Whether a name names something inside a folder and can lead nowhere else."""
    return _PLAIN_NAME.fullmatch(name) is not None


def plain_name(name: str, what: str) -> str:
    """The name, when it names something inside a folder and can lead nowhere else.

    Raises:
        UserError: it holds a slash, begins with a dot, or is empty; ``what`` says whose name it is.
    """
    if not is_plain_name(name):
        raise UserError(f"{what}: {name!r} is not a name; use letters, digits, '.', '-' and '_', without slashes")
    return name


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is either whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def folder_bytes(folder: Path) -> int:
    """Size of all files under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def require_free_port(port: int, option: str, host: str = "127.0.0.1") -> None:
    """Raise UserError when a TCP port is taken; ``option`` is how the user names another."""
    if not port_is_free(port, host):
        raise UserError(f"port {port} is taken; choose another with {option} PORT")


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
