"""What the control plane must never do, in every file of the project. The linter sees to the rest (pyproject.toml)."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from corecode.config import DatasetConfig
from corecode.datasets import load
from corecode.errors import UserError

ROOT = Path(__file__).parents[2]
ROOMS = ("corecode", "assets", "pipelines", "sandbox")


def calls() -> Iterator[tuple[str, str, dict[str, ast.expr]]]:
    """Place, dotted name and keywords of every call in the project's rooms."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node.func), keywords


def test_what_is_loaded_runs_no_code() -> None:
    seen = 0
    for place, name, keywords in calls():
        seen += 1
        if name in ("torch.load", "numpy.load", "np.load"):
            safe = "weights_only" if name == "torch.load" else "allow_pickle"
            assert ast.unparse(keywords.get(safe, ast.Constant(None))) == str(name == "torch.load"), place
        if "trust_remote_code" in keywords:
            assert ast.unparse(keywords["trust_remote_code"]) == "False", place
    assert seen > 1000


def test_a_problem_file_is_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[Path]]:
            return (Path.touch, (tmp_path / "sprung",))

    for split in ("sft", "rl", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(UserError, match=r"\.jsonl"):
        load(DatasetConfig(name="file", path=str(tmp_path)))
    assert not (tmp_path / "sprung").exists()
