"""The files of a deployment: valid, without a secret, and closed unless somebody opens them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.instance import SETTINGS

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
SECRETS = {"POSTGRES_PASSWORD": "a", "DAGSTER_DB_PASSWORD": "b", "MLFLOW_DB_PASSWORD": "c", "DOCKER_GID": "999"}
BUCKET = {"MLFLOW_S3_ENDPOINT_URL": "http://s3", "AWS_ACCESS_KEY_ID": "d", "AWS_SECRET_ACCESS_KEY": "e"}


@pytest.fixture(scope="module")
def compose(missing_requirement: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of Docker Compose (the engine's plugin, or the program of its own) without anybody's ``.env``."""
    nothing = tmp_path_factory.mktemp("compose") / "nothing.env"
    nothing.touch()
    command = ["docker", "compose"]
    if shutil.which("docker") is None or subprocess.run([*command, "version"], capture_output=True).returncode != 0:
        command = ["docker-compose"]
        if shutil.which("docker-compose") is None:
            missing_requirement("no Docker Compose (Debian: apt-get install --no-install-recommends docker-compose)")
    return [*command, "--env-file", str(nothing)]


def config(compose: list[str], files: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    arguments = [part for name in files for part in ("-f", str(INFRA / name))]
    return subprocess.run(
        [*compose, *arguments, "config"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", **environment},
    )


@pytest.fixture(scope="module")
def services(compose: list[str]) -> dict[str, Any]:
    done = config(compose, ["compose.yaml"], **SECRETS)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


def test_compose_accepts_both_files(compose: list[str]) -> None:
    done = config(compose, ["compose.yaml", "compose.s3.yaml"], **SECRETS, **BUCKET)
    assert done.returncode == 0, done.stderr
    mlflow = yaml.safe_load(done.stdout)["services"]["mlflow"]
    assert mlflow["environment"]["AWS_SECRET_ACCESS_KEY"] == "e"


@pytest.mark.parametrize("absent", sorted(SECRETS))
def test_without_a_secret_nothing_starts(compose: list[str], absent: str) -> None:
    given = {name: value for name, value in SECRETS.items() if name != absent}
    done = config(compose, ["compose.yaml"], **given)
    assert done.returncode != 0
    assert f"set {absent}" in done.stderr


def test_every_service_is_confined_and_watched(services: dict[str, Any]) -> None:
    lasting = {"postgres", "mlflow", "code-location", "dagster-webserver", "dagster-daemon"}
    assert lasting <= set(services)
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert any(option.startswith("no-new-privileges") for option in service["security_opt"]), name
        assert "privileged" not in service, name
        assert ("healthcheck" in service) == (name in lasting), name


def test_only_the_pages_are_published_and_only_on_the_loopback(compose: list[str], services: dict[str, Any]) -> None:
    published = {name: str(service["ports"]) for name, service in services.items() if "ports" in service}
    assert set(published) == {"mlflow", "dagster-webserver"}
    assert all("127.0.0.1" in ports for ports in published.values())
    opened = config(compose, ["compose.yaml"], **SECRETS, BIND_ADDRESS="192.0.2.7")
    assert "192.0.2.7" in str(yaml.safe_load(opened.stdout)["services"]["mlflow"]["ports"])


def test_no_file_holds_a_password() -> None:
    value = re.compile(r"(?i)(?:password|secret|token)\w*[:=]\s*(\S+)")
    for path in [*INFRA.rglob("*.yaml"), *INFRA.rglob("Dockerfile"), *INFRA.rglob("*.sh")]:
        for found in value.findall(path.read_text(encoding="utf-8")):
            assert found.startswith(("$", '"$', "?set", "{")), f"{path}: {found}"


@pytest.mark.parametrize("name", ["mlflow", "pipeline"])
def test_images_are_not_run_by_root_and_copy_what_is_there(name: str) -> None:
    lines = (INFRA / "docker" / name / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 10001:10001"
    for line in lines:
        if line.startswith("COPY"):
            assert all((ROOT / source).exists() for source in line.split()[1:-1]), line


@pytest.mark.parametrize("image", ["pipeline", "mlflow"])
def test_images_hold_the_pinned_versions_on_the_python_of_the_lock(image: str) -> None:
    python = re.findall(r"with Python (3\.\d+)\.", (ROOT / "requirements.lock").read_text(encoding="utf-8"))
    recipe = (ROOT / "infra" / "docker" / image / "Dockerfile").read_text(encoding="utf-8")
    assert re.findall(r"^FROM python:(\S+)-slim$", recipe, re.MULTILINE) == python
    installs = re.findall(r"pip install .*", recipe)
    assert installs
    assert all(re.search(r"--constraint (/tmp/)?requirements\.lock ", line) for line in installs)
    assert "!requirements.lock" in (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def test_postgres_has_the_same_settings_as_sqlite() -> None:
    settings = yaml.safe_load((INFRA / "postgres" / "dagster.yaml").read_text(encoding="utf-8"))
    assert settings.pop("storage") == {"postgres": {"postgres_url": "postgresql+psycopg2://"}}
    assert settings == SETTINGS


def test_make_env_makes_new_secrets_once(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for file in files:
        subprocess.run([str(INFRA / "make_env.sh"), str(file)], check=True, capture_output=True)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = [dict(line.split("=", 1) for line in file.read_text(encoding="utf-8").splitlines()) for file in files]
    secrets = [one[name] for one in found for name in one if name.endswith("PASSWORD")]
    assert len(set(secrets)) == 6
    assert all(re.fullmatch("[0-9a-f]{48}", secret) for secret in secrets)
    assert set(SECRETS) <= set(found[0])
    again = subprocess.run([str(INFRA / "make_env.sh"), str(files[0])], capture_output=True, text=True)
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["one", "two"]


def test_a_local_backup_comes_back(tmp_path: Path) -> None:
    home = tmp_path / "home"
    artifact = home / "mlflow" / "artifacts" / "1" / "report.html"
    artifact.parent.mkdir(parents=True)
    artifact.write_text("report", encoding="utf-8")
    database = home / "mlflow" / "mlflow.db"
    (home / "dagster" / "storage").mkdir(parents=True)
    (home / "dagster" / "lock").touch()
    (home / "runs").mkdir()
    # A writer that is at work: what it has committed lies in the log beside the file, not yet in the file.
    with contextlib.closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE runs (name TEXT)")
        writer.execute("INSERT INTO runs VALUES ('kept')")
        writer.commit()
        writer.execute("INSERT INTO runs VALUES ('not committed')")
        done = script("backup.sh", str(tmp_path / "backups"), home)
    assert done.returncode == 0, done.stderr
    backup = done.stdout.splitlines()[-1]
    assert [path.name for path in (tmp_path / "backups").iterdir()] == [Path(backup).name]

    refused = script("restore.sh", backup, home)
    assert refused.returncode == 2
    assert "is there already; move it away" in refused.stderr
    home.rename(tmp_path / "lost")
    assert script("restore.sh", backup, home).returncode == 0
    with contextlib.closing(sqlite3.connect(database)) as reader:
        assert reader.execute("SELECT name FROM runs").fetchall() == [("kept",)]
    assert artifact.read_text(encoding="utf-8") == "report"
    assert not list(home.rglob("*lock"))


def test_what_comes_and_goes_while_a_local_backup_is_made(tmp_path: Path) -> None:
    """Artifacts are looked for after the databases are copied; one that is removed then does not end the backup."""
    home = tmp_path / "home of mine"
    artifacts = home / "mlflow" / "artifacts"
    artifacts.mkdir(parents=True)
    for name in ("before", "removed"):
        (artifacts / name).write_text(name, encoding="utf-8")
    sqlite3.connect(home / "mlflow" / "mlflow.db").close()
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, shutil, sqlite3\n"
        f"artifacts = pathlib.Path({str(artifacts)!r})\n"
        "connect, copy2 = sqlite3.connect, shutil.copy2\n"
        "def connects(*given, **named):\n"
        "    (artifacts / 'meanwhile').write_text('meanwhile')\n"
        "    return connect(*given, **named)\n"
        "def copies(source, target):\n"
        "    (artifacts / 'removed').unlink(missing_ok=True)\n"
        "    return copy2(source, target)\n"
        "sqlite3.connect, shutil.copy2 = connects, copies\n",
        encoding="utf-8",
    )
    done = script("backup.sh", str(tmp_path / "backups of mine"), home, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    home.rename(tmp_path / "lost")
    assert script("restore.sh", done.stdout.splitlines()[-1], home).returncode == 0
    assert {path.name for path in artifacts.iterdir()} == {"before", "meanwhile"}
    assert {path.name for path in home.iterdir()} == {"mlflow"}


def test_artifacts_that_grow_while_they_are_copied_do_not_end_a_backup(tmp_path: Path) -> None:
    artifacts, programs = tmp_path / "artifacts", tmp_path / "bin"
    artifacts.mkdir()
    programs.mkdir()
    (artifacts / "growing").write_bytes(bytes(100_000))
    (programs / "pg_dump").write_text('#!/bin/sh\necho dump >"$5"\n', encoding="utf-8")
    (programs / "pg_dump").chmod(0o755)
    server = {
        "PGHOST": "db.example",
        "MLFLOW_ARTIFACTS": str(artifacts),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TAR_OPTIONS": f"--checkpoint=1 --checkpoint-action=exec='echo >>{artifacts}/growing'",
    }
    done = script("backup.sh", str(tmp_path / "backups"), tmp_path / "home", **server)
    assert "file changed as we read it" in done.stderr
    assert done.returncode == 0, done.stderr
    assert {path.name for path in Path(done.stdout.strip()).iterdir()} == {
        *("SHA256SUMS", "artifacts.tar", "dagster.dump", "kind", "mlflow.dump")
    }
    missing = {**server, "MLFLOW_ARTIFACTS": str(tmp_path / "nowhere"), "TAR_OPTIONS": ""}
    failed = script("backup.sh", str(tmp_path / "others"), tmp_path / "home", **missing)
    assert failed.returncode != 0
    assert list((tmp_path / "others").iterdir()) == []


def test_two_backups_in_one_second_do_not_share_a_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "date").write_text("#!/bin/sh\necho now\n", encoding="utf-8")
    (tmp_path / "bin" / "date").chmod(0o755)
    (tmp_path / "home" / "dagster").mkdir(parents=True)
    begun = tmp_path / "backups" / ".corecode-now.partial"
    begun.mkdir(parents=True)
    (begun / "kind").touch()
    refused = script("backup.sh", str(begun.parent), tmp_path / "home", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert refused.returncode != 0
    assert [path.name for path in begun.iterdir()] == ["kind"]
    assert [path.name for path in begun.parent.iterdir()] == [begun.name]


def test_a_restore_that_is_interrupted_leaves_no_half_store(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "mlflow").mkdir(parents=True)
    (home / "mlflow" / "file").write_bytes(bytes(100_000))
    backup = script("backup.sh", str(tmp_path / "backups"), home).stdout.splitlines()[-1]
    home.rename(tmp_path / "lost")
    stops = {"TAR_OPTIONS": "--checkpoint=3 --checkpoint-action=exec='kill -TERM $PPID'"}
    assert script("restore.sh", backup, home, **stops).returncode != 0
    assert not (home / "mlflow").exists()
    assert script("restore.sh", backup, home).returncode == 0
    assert (home / "mlflow" / "file").stat().st_size == 100_000


def script(name: str, argument: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {variable: value for variable, value in os.environ.items() if not variable.startswith("PG")}
    environment = {**kept, "CORECODE_HOME": str(home), **variables}
    return subprocess.run([str(INFRA / name), argument], capture_output=True, text=True, env=environment)


def test_a_damaged_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kind").write_text("sqlite\n", encoding="utf-8")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  kind\n", encoding="utf-8")
    refused = script("restore.sh", str(tmp_path), tmp_path / "home")
    assert (refused.returncode, refused.stderr.splitlines()[-1]) == (2, f"error: {tmp_path} is damaged")
    assert not (tmp_path / "home").exists()
