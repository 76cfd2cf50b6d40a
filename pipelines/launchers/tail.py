"""Follow a JSON-lines file while another process writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class JsonTail:
    """Yields each complete line once. A line that is still being written waits for its end; a file that was replaced
    (by a job that begins again, or continues from a checkpoint) or became shorter is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._file = 0
        """Inode of the file that was read."""

    def lines(self) -> Iterator[dict[str, Any]]:
        """All lines that were completed since the last call. A line that is not a JSON object is passed over: a
        process killed in the middle of a write may leave half of one."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._file or found.st_size < self._position:
                    self._position = 0
                self._file = found.st_ino
                file.seek(self._position)
                fresh = file.read()
        except FileNotFoundError:
            return
        complete = fresh[: fresh.rfind(b"\n") + 1]
        self._position += len(complete)
        for line in complete.splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


def last_lines(path: Path, count: int = 15, window: int = 16384) -> str:
    """The last lines of a log, for an error message; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - window))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-count:])
