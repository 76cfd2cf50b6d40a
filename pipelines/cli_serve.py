"""``corecode serve``: one model behind an OpenAI-compatible server, until Ctrl-C."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

from corecode.errors import InfrastructureError, UserError
from corecode.models import check_folder
from pipelines.home import home_folder, plain_name, require_free_port
from pipelines.launchers.server import ModelServer, ServerOptions, server_python

LOG_NAME = "server-{role}.log"


def serve_model(model: str, role: str, port: int, python: str | None, device: Literal["cpu", "cuda"], gpus: int) -> int:
    """Serve a model folder, or a role of the champion; returns when the server has ended.

    Raises:
        UserError: there is no such model, the port is taken, or vLLM is not installed.
        InfrastructureError: the server does not start, or dies.
    """
    plain_name(role, "--role")
    folder = home_folder() / "champion" / role if model == "champion" else Path(model).expanduser()
    if model == "champion" and not folder.is_dir():
        raise UserError(f"there is no champion with the role {role} in {home_folder()}; 'corecode run' trains one")
    check_folder(str(folder))
    require_free_port(port, "--port")
    options = ServerOptions(
        model=str(folder.absolute()),
        names=(role,),
        dtype=_dtype(folder),
        python=server_python(python),
        device=device,
        gpus=gpus,
        port=port,
    )
    log = home_folder() / LOG_NAME.format(role=role)
    log.parent.mkdir(parents=True, exist_ok=True)
    server = ModelServer.start(options, log)
    try:
        print(f"starting vLLM for {folder} (log: {log})", file=sys.stderr, flush=True)
        server.wait_ready()
        print(f"{options.url} answers for the model {role}; Ctrl-C ends it", flush=True)
        server.program.process.wait()
        raise InfrastructureError(server.complaint(f"ended with {server.program.outcome}"))
    finally:
        server.end()


def _dtype(folder: Path) -> str:
    """The type that the weights were saved in; vLLM's own choice would be another one for float32."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: this is not JSON ({error}); save the model again") from error
    return config.get("dtype") or config.get("torch_dtype") or "auto"
