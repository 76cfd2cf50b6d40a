"""The image of the docker backend, made from this machine's Python without any registry."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from sandbox import rootfs
from sandbox.errors import SandboxUnavailable

REPOSITORY = "corecode-sandbox"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


def tag() -> str:
    """Name of the image of this Python; it follows from the contents alone."""
    return f"{REPOSITORY}:{rootfs.content_digest()}"


def build(client: Any = None) -> str:
    """Make the image unless the engine has it already; its name.

    Args:
        client: a ``docker.DockerClient``; None connects as ``DOCKER_HOST`` says.

    Raises:
        SandboxUnavailable: when no engine answers, or it refuses the image.
    """
    import docker.errors

    if client is None:
        client = connect()
    name = tag()
    if present(client, name):
        return name
    changes = [f"ENV {key}={value}" for key, value in ENVIRONMENT.items()]
    changes += ["USER 65534:65534", "WORKDIR /tmp", 'CMD ["python3", "-I"]']
    with tempfile.TemporaryDirectory(prefix="corecode-image-") as folder:
        archive = Path(folder, "rootfs.tar")
        rootfs.write_tar(rootfs.host_python(), archive)
        repository, _, version = name.partition(":")
        try:
            client.api.import_image_from_file(str(archive), repository, version, changes)
        except (docker.errors.DockerException, OSError) as error:
            raise SandboxUnavailable(f"the Docker engine refuses the sandbox image ({error}): see its log") from error
    if not present(client, name):
        raise SandboxUnavailable(f"the Docker engine did not keep the image {name}: look for space on its disk")
    return name


def present(client: Any, name: str) -> bool:
    """Whether the engine has the image; nothing is pulled."""
    import docker.errors

    try:
        client.images.get(name)
    except docker.errors.ImageNotFound:
        return False
    except (docker.errors.DockerException, OSError) as error:
        raise SandboxUnavailable(f"the Docker engine does not answer ({error}): set DOCKER_HOST") from error
    return True


def connect(timeout_s: int = 20) -> Any:
    """A client of the engine that ``DOCKER_HOST`` names (default: the local socket).

    Raises:
        SandboxUnavailable: when the docker package is missing or no engine answers.
    """
    try:
        import docker
        import docker.errors
    except ImportError as error:
        raise SandboxUnavailable("the docker backend needs the docker package: pip install docker") from error
    try:
        client = docker.from_env(timeout=timeout_s)
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        raise SandboxUnavailable(
            f"no Docker engine answers ({error}): start one (as root: infra/docker/start_engine.sh) "
            "and set DOCKER_HOST, or use the bubblewrap backend"
        ) from error
    return client
