"""A real Postgres server on loopback, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

PASSWORD = "p@ss w/rd:1"
"""Holds what a URL would have to quote."""


def programs() -> Path | None:
    """Folder of Postgres' programs (Debian keeps them off the PATH); None where there are none."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


class Postgres:
    """A server. Postgres refuses to run as root, so root starts it as the user that the package made."""

    def __init__(self, folder: Path, port: int) -> None:
        bin_folder = programs()
        assert bin_folder is not None
        self.bin, self.folder, self.port = bin_folder, folder, port
        self.user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        folder.mkdir(parents=True)
        secret = folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        if self.user:
            for path in (folder, secret):
                shutil.chown(path, "postgres", "postgres")
        self._run(
            *("initdb", "--pgdata", str(folder / "data"), "--username", "postgres", "--encoding", "UTF8"),
            *("--locale", "C", "--auth", "scram-sha-256", "--pwfile", str(secret), "--no-sync"),
        )
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = f"-p {self.port} -h 127.0.0.1 -k '' -c fsync=off -c max_connections=60"
        self._run(
            *("pg_ctl", "start", "--wait", "--pgdata", str(self.folder / "data"), "-o", options),
            *("--log", str(self.folder / "log")),
        )

    def stop(self) -> None:
        """Stop it at once: connections are cut."""
        self._run("pg_ctl", "stop", "--wait", "--mode", "immediate", "--pgdata", str(self.folder / "data"))

    def environment(self, database: str = "postgres") -> dict[str, str]:
        """libpq's variables for a database."""
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGPASSWORD": PASSWORD,
            "PGDATABASE": database,
        }

    def query(self, statement: str, database: str = "postgres") -> list[str]:
        """Rows of a statement, columns separated by ``|``."""
        command = [str(self.bin / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]
        environment: Mapping[str, str] = {**os.environ, **self.environment(database)}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return done.stdout.splitlines()

    def _run(self, program: str, *arguments: str) -> None:
        # A file, not a pipe: the server inherits the output and would keep a pipe open.
        output = self.folder / f"{program}.out"
        with output.open("wb") as file:
            done = subprocess.run(
                [str(self.bin / program), *arguments], stdout=file, stderr=file, cwd=self.folder, **self.user
            )
        assert done.returncode == 0, output.read_text(encoding="utf-8")
