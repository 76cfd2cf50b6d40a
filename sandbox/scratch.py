"""The writable folders of a sandbox, emptied after every test. Inside the sandbox only."""

from __future__ import annotations

import os
import time

CLEAN_S = 2.0
"""A cleaning that takes longer than this gives up: the sandbox is then replaced."""


class Scratch:
    """``folders``: every place a program can write to; the first one is its working directory."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders
        self.owned = [os.stat(folder).st_uid == os.getuid() for folder in folders]
        self.home = folders[0]

    def file(self, content: bytes) -> int:
        """A nameless file with this content, positioned at its start."""
        fd = os.open(self.home, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def put(self, name: str, content: bytes) -> None:
        """A file in the working directory."""
        with open(os.path.join(self.home, name), "wb") as file:
            file.write(content)

    def clean(self) -> bool:
        """Remove everything a program left, and what it changed on the folders; False when that takes too long."""
        end = time.monotonic() + CLEAN_S
        try:
            for folder, owned in zip(self.folders, self.owned, strict=True):
                if owned:
                    os.chmod(folder, 0o1777)
                if os.listdir(folder):
                    _empty(folder, end)
                if owned:
                    os.utime(folder, (0, 0))
        except OSError:
            return False
        return True


def _empty(folder: str, end: float) -> None:
    """Remove a hostile tree without recursion: subfolders move up to ``folder``, so no path grows long."""
    serial = 0
    while True:
        names = os.listdir(folder)
        if not names:
            return
        for name in names:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
            else:
                serial = _flatten(path, folder, serial, end)
            if time.monotonic() > end:
                raise TimeoutError("too many files")


def _flatten(path: str, folder: str, serial: int, end: float) -> int:
    os.chmod(path, 0o700)
    for entry in list(os.scandir(path)):
        if entry.is_dir(follow_symlinks=False):
            serial += 1
            os.chmod(entry.path, 0o700)
            os.rename(entry.path, os.path.join(folder, f".{serial}-{time.monotonic_ns()}"))
        else:
            os.unlink(entry.path)
        if time.monotonic() > end:
            raise TimeoutError("too many files")
    os.rmdir(path)
    return serial
