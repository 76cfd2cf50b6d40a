"""A team as a model of MLflow: made, stored, fetched. The version in the store is all that serving needs."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pipelines.registry.team import SCORES, link_tree

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOGGED_NAME = "team"
REQUIREMENTS = ("mlflow", "torch", "transformers", "tokenizers", "safetensors", "numpy", "pandas", "pydantic")
"""Packages that answering needs; what they need themselves comes along."""
TIMEOUT = "MLFLOW_HTTP_REQUEST_TIMEOUT"
UPLOAD_S = 3600
EXAMPLE = "Read a number and print it."


def store_model(client: MlflowClient, experiment: str, folder: Path, run_id: str | None, tags: dict[str, str]) -> str:
    """Put a team's folder into the store as a logged model; return the model's id."""
    model = client.create_logged_model(
        experiment, name=LOGGED_NAME, source_run_id=run_id, tags=tags, model_type="corecode-team"
    )
    with tempfile.TemporaryDirectory(prefix="model.", dir=folder.parent) as made:
        saved = Path(made) / "model"
        _save(folder, saved, model.model_id, run_id)
        local = _local_folder(model.artifact_location)
        if local is None:
            with _patience():
                client.log_model_artifacts(model.model_id, str(saved))
        else:
            link_tree(saved, local)  # no second copy of large weights on one disk
    client.finalize_logged_model(model.model_id, "READY")
    return model.model_id


@contextmanager
def _patience() -> Generator[None]:
    """Give a server time: it answers when it has stored a whole file, and weights are large."""
    before = os.environ.get(TIMEOUT)
    os.environ[TIMEOUT] = str(UPLOAD_S)
    try:
        yield
    finally:
        if before is None:
            del os.environ[TIMEOUT]
        else:
            os.environ[TIMEOUT] = before


def _save(folder: Path, saved: Path, model_id: str, run_id: str | None) -> None:
    """Write the model's folder: MLflow describes it with the small files only, and the weights are linked in."""
    import mlflow.pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    import corecode
    import sandbox
    from pipelines.registry import served

    code = [str(Path(package.__file__ or "").parent) for package in (corecode, sandbox)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow would like type hints from which it derives the signature given here
        mlflow.pyfunc.save_model(
            saved,
            mlflow_model=Model(model_id=model_id, run_id=run_id),
            python_model=served.__file__,
            artifacts={"team": (folder / "team.json").as_uri(), "scores": (folder / SCORES).as_uri()},
            code_paths=code,
            signature=ModelSignature(
                Schema([ColSpec("string")]),
                Schema([ColSpec("string", "thought"), ColSpec("string", "program")]),
                ParamSchema([ParamSpec("seed", "long", 0)]),
            ),
            input_example=[EXAMPLE],
            pip_requirements=[f"{name}=={metadata.version(name).partition('+')[0]}" for name in REQUIREMENTS],
        )
    link_tree(folder, saved / "artifacts", ignore=lambda at, names: {"team.json", SCORES} & set(names))
    described = Model.load(str(saved))
    flavor = described.flavors["python_function"]
    names = {
        "team": "team.json",
        "scores": SCORES,
        **{path.name: path.name for path in folder.iterdir() if path.is_dir()},
    }
    # Paths of the machine that made the model say nothing elsewhere.
    flavor["artifacts"] = {key: {"path": f"artifacts/{name}", "uri": name} for key, name in names.items()}
    flavor["model_code_path"] = Path(served.__file__).name
    described.model_size_bytes = sum(path.stat().st_size for path in saved.rglob("*") if path.is_file())
    described.save(str(saved / "MLmodel"))


def fetch(uri: str, target: Path) -> None:
    """Bring a folder or file of the store to ``target``, whole or not at all."""
    import mlflow.artifacts

    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    local = _local_folder(uri)
    try:
        if local is not None and local.is_dir():
            link_tree(local, partial / "found")
            found = partial / "found"
        else:
            found = Path(mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=str(partial)))
        found.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _local_folder(uri: str) -> Path | None:
    """The path of a ``file:`` location; None for one that a server or an object store keeps."""
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path))
