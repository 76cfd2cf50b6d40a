"""A root file system with nothing but this machine's Python: interpreter, standard library, shared libraries.

Serves both backends without a registry: bubblewrap mounts it read-only from a cache, the Docker image is its tar.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import marshal
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sandbox.errors import SandboxUnavailable

_RECIPE = "4"
"""Changes whenever this module lays out the same files in another way."""
_SKIPPED_FOLDERS = frozenset(
    {
        *("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages"),
        *("dist-packages", "__pycache__", "pydoc_data", "venv", "curses", "dbm"),
    }
)
_SKIPPED_FILES = re.compile(r"_test|_tkinter|_xxtest|_ctypes_test|xxlimited")
_SYSTEM_LIBRARIES = ("/lib", "/usr/lib")
_EMPTY_FOLDERS = ("dev", "dev/shm", "proc", "sys", "tmp", "etc")
_TEXTS = {
    "etc/passwd": "root:x:0:0::/:/bin/false\nsandbox:x:65534:65534::/tmp:/bin/false\n",
    "etc/group": "root:x:0:\nsandbox:x:65534:\n",
}


@dataclass(frozen=True)
class RootFiles:
    """What goes into the file system: ``sources`` maps a path inside, without leading slash, to a file of this host."""

    sources: dict[str, Path]
    python: str
    """Version as in ``python3.11``."""

    def digest(self) -> str:
        """Fingerprint of the contents: the same on every machine with the same Python."""
        total = hashlib.sha256(f"{_RECIPE} {self.python}".encode())
        for name, path in sorted(self.sources.items()):
            total.update(f"\n{name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
        return total.hexdigest()[:16]

    def entries(self) -> Iterator[tuple[str, bytes, bool]]:
        """Every file of the file system: path inside, content, executable; sorted."""
        for name, path in sorted(self.sources.items()):
            content = path.read_bytes()
            yield name, content, bool(path.stat().st_mode & stat.S_IXUSR)
            if name.endswith(".py"):
                compiled = _compiled(name, content)
                if compiled is not None:
                    yield _cache_name(name, self.python), compiled, False
        for name, text in sorted(_TEXTS.items()):
            yield name, text.encode(), False


def signature() -> str:
    """Cheap fingerprint of this machine's Python: changes when another one takes its place."""
    lines = [_RECIPE, sys.version]
    for path in (os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")):
        state = os.stat(path)
        lines.append(f"{path} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def host_python() -> RootFiles:
    """The files of the interpreter that runs now.

    Raises:
        SandboxUnavailable: where its shared libraries cannot be found.
    """
    executable = Path(os.path.realpath(sys.executable))
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    sources = {f"usr/local/bin/{python}": executable}
    for kind in ("stdlib", "platstdlib"):
        base = Path(sysconfig.get_path(kind))
        for path in _library_files(base):
            sources[f"usr/local/lib/{python}/{path.relative_to(base)}"] = Path(os.path.realpath(path))
    binaries = [executable, *(path for name, path in sources.items() if name.endswith(".so"))]
    for library in _shared_libraries(binaries):
        path = library if library.startswith(_SYSTEM_LIBRARIES) else f"/usr/lib/{os.path.basename(library)}"
        sources[path.lstrip("/")] = Path(os.path.realpath(library))
    return RootFiles(sources, python)


def _library_files(base: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(base):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("config-"))
        for name in sorted(names):
            if not name.endswith((".pyc", ".a")) and not _SKIPPED_FILES.match(name):
                yield Path(root, name)


def _shared_libraries(binaries: list[Path]) -> list[str]:
    """Paths of all libraries that the binaries load, and of the loader."""
    try:
        text = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailable(
            f"cannot list the libraries of {binaries[0]} ({error}): install ldd (libc-bin)"
        ) from error
    found = re.findall(r"=> (/\S+)", text) + re.findall(r"^\s+(/\S+) \(0x", text, re.MULTILINE)
    return sorted(set(found))


def _compiled(name: str, source: bytes) -> bytes | None:
    """Byte code that the interpreter takes without looking at the source, so that the content alone decides."""
    try:
        code = compile(source, "/" + name, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):  # a few library files are templates
        return None
    flags_unchecked_hash = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + flags_unchecked_hash + importlib.util.source_hash(source) + marshal.dumps(code)


def _cache_name(name: str, python: str) -> str:
    folder, _, file = name.rpartition("/")
    tag = f"cpython-{python.removeprefix('python').replace('.', '')}"
    return f"{folder}/__pycache__/{file.removesuffix('.py')}.{tag}.pyc"


def write_tar(files: RootFiles, target: Path) -> None:
    """The file system as an uncompressed tar; the same files give the same bytes."""
    entries = list(files.entries())
    folders: set[str] = set(_EMPTY_FOLDERS)
    for name, _, _ in entries:
        folders.update(str(parent) for parent in Path(name).parents if str(parent) != ".")
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for folder in sorted(folders):
            tar.addfile(_header(folder, 0o1777 if folder == "tmp" else 0o755, tarfile.DIRTYPE))
        link = _header("usr/local/bin/python3", 0o777, tarfile.SYMTYPE)
        link.linkname = files.python
        tar.addfile(link)
        for name, content, executable in entries:
            header = _header(name, 0o755 if executable else 0o644, tarfile.REGTYPE)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))


def _header(name: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.mode, header.type, header.mtime = mode, kind, 0
    return header


def cache_folder() -> Path:
    """Where built file systems are kept. A folder that uid 65534 can reach is needed when we are root."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen, "corecode", "sandbox")
    if os.getuid() == 0:
        return Path("/var/cache/corecode/sandbox")
    return Path.home() / ".cache" / "corecode" / "sandbox"


def reachable(path: Path) -> bool:
    """Whether every user of this machine may pass through the folders above ``path``."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents)


def prepare_cache() -> Path:
    """The cache folder, made if need be.

    Raises:
        SandboxUnavailable: when it cannot be written, or user 65534 could not read it.
    """
    target = cache_folder()
    remedy = "set XDG_CACHE_HOME to a folder that can be written" + (" and all users can reach" * (os.getuid() == 0))
    try:
        for part in (target.parent, target):
            if not part.is_dir():
                part.mkdir(parents=True)
                part.chmod(0o755)
    except OSError as error:
        raise SandboxUnavailable(f"cannot write to {target} ({error.strerror}): {remedy}") from error
    if os.getuid() == 0 and not reachable(target / "rootfs"):
        raise SandboxUnavailable(f"user 65534, as whom programs run, cannot reach {target}: {remedy}")
    return target


def folder() -> Path:
    """The file system of this machine's Python as a folder, built once and kept in the cache.

    Raises:
        SandboxUnavailable: when the cache cannot be written.
    """
    target = prepare_cache() / f"rootfs-{signature()}"
    if target.is_dir():
        return target
    try:
        partial = Path(tempfile.mkdtemp(prefix="partial-", dir=target.parent))
    except OSError as error:
        raise SandboxUnavailable(f"cannot write to {target.parent}: {error.strerror}") from error
    try:
        _write_folder(host_python(), partial)
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster
                raise
    except OSError as error:
        raise SandboxUnavailable(f"cannot build the sandbox's file system in {target.parent}: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _write_folder(files: RootFiles, base: Path) -> None:
    for name in _EMPTY_FOLDERS:
        (base / name).mkdir(parents=True, exist_ok=True)
    for name, content, executable in files.entries():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if executable else 0o644)
    for path, _, _ in os.walk(base):
        os.chmod(path, 0o755)
    (base / "usr/local/bin/python3").symlink_to(files.python)


@cache
def content_digest() -> str:
    """:meth:`RootFiles.digest` of this Python, remembered in the cache folder between runs."""
    memory = cache_folder() / "digests.json"
    try:
        known: dict[str, str] = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    key = signature()
    if key not in known:
        known[key] = host_python().digest()
        try:
            memory.parent.mkdir(parents=True, exist_ok=True)
            memory.write_text(json.dumps(known))
        except OSError:
            return known[key]
    return known[key]
