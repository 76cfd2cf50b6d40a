"""Finding processes by what their environment carries, and where they listen."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

_LISTEN = "0A"


def marked(mark: str) -> dict[int, str]:
    """Pid and command line of every living process but this one whose environment holds a text."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_text(encoding="utf-8").replace("\0", " ").strip()
        except OSError:
            continue
    return found


def listening(pids: Iterable[int]) -> set[str]:
    """Addresses (IPv4 and IPv6) that the processes accept TCP connections on."""
    inodes: set[str] = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(os.readlink(descriptor).removeprefix("socket:[").rstrip("]"))
            except OSError:
                continue
    found: set[str] = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text(encoding="utf-8").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and fields[9] in inodes:
                words = bytes.fromhex(fields[1].partition(":")[0])
                # The kernel prints each 32-bit word in the machine's own byte order.
                packed = b"".join(
                    struct.pack(">I", *struct.unpack("=I", words[i : i + 4])) for i in range(0, len(words), 4)
                )
                found.add(socket.inet_ntop(family, packed))
    return found
