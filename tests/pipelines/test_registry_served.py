"""The champion answers from the registry alone: loaded by MLflow, over HTTP, and role by role in transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from servers import mlflow_server, serving
from teams import PROFILE, command, make_run

from corecode.models import new_model, save_model, train_tokenizer
from corecode.stored import StoredTeam
from pipelines.launchers.local import free_port

PROBLEMS_ASKED = ["Read a number and print it.", 'def f(x: int) -> int:\n    """Double x."""\n']
LOAD = """
import json, sys
import mlflow, pandas, transformers
model = mlflow.pyfunc.load_model("models:/corecode@champion")
import corecode
problems = json.loads(sys.argv[1])
listed = model.predict(problems, params={"seed": 3})
framed = model.predict(pandas.DataFrame({"problem": problems}), params={"seed": 3})
assert listed.equals(framed)
role = mlflow.artifacts.download_artifacts("models:/corecode@champion/artifacts/planner", dst_path=".")
planner = transformers.AutoModelForCausalLM.from_pretrained(role)
tokenizer = transformers.AutoTokenizer.from_pretrained(role)
print(json.dumps({
    "answers": listed.to_dict("records"), "code": corecode.__file__, "parameters": planner.num_parameters(),
    "tokens": len(tokenizer), "signature": model.metadata.signature.to_dict(), "example": model.input_example,
    "files": [str(path) for path in __import__("pathlib").Path(role).parent.rglob("*")],
}))
"""


def tiny_pair(run: Path) -> None:
    """Two real models of two layers with random weights in the place of the run's."""
    scratch = PROFILE.model.scratch
    assert scratch is not None
    tokenizer = train_tokenizer(["Read a number and print it.", "print(1)", "Steps:\n1. read"], scratch.vocabulary)
    for seed, role in enumerate(("planner", "coder")):
        save_model(new_model(scratch, tokenizer, seed), tokenizer, run / f"{role}_grpo" / "model")


def post(url: str, body: dict[str, Any]) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_champion_answers_from_the_registry_alone(
    new_home: Callable[[str], Path], memory: Path, tmp_path: Path
) -> None:
    home = memory / "trained-here"
    run = make_run(home, "tiny", 60)
    tiny_pair(run)
    with mlflow_server(new_home("served")) as uri:
        code, out, err = command(home, "promote", "tiny", MLFLOW_TRACKING_URI=uri)
        assert code == 0, err
        assert out == "tiny, version 1: the first champion\n"
        team = StoredTeam((home / "champion").resolve())
        expected = [
            {"thought": one.thought or "", "program": one.program or ""} for one in team.answer(PROBLEMS_ASKED, 3)
        ]
        assert expected[0]["thought"]
        home.rename(memory / "out-of-reach")

        left = ("CORECODE_HOME", "PYTHONPATH", "MLFLOW_TRACKING_URI")
        bare = {name: value for name, value in os.environ.items() if name not in left}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # MLflow calls uvicorn by name
        bare |= {"MLFLOW_TRACKING_URI": uri, "HF_HUB_OFFLINE": "1", "PATH": path}
        loaded = subprocess.run(
            [sys.executable, "-c", LOAD, json.dumps(PROBLEMS_ASKED)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=bare,
            timeout=500,
        )
        assert loaded.returncode == 0, loaded.stderr
        found = json.loads(loaded.stdout.splitlines()[-1])
        assert found["answers"] == expected
        assert "/code/corecode/" in found["code"]
        assert found["parameters"] > 10_000
        assert found["tokens"] > 258
        assert json.loads(found["signature"]["outputs"]) == [
            {"type": "string", "name": name, "required": True} for name in ("thought", "program")
        ]
        assert found["example"]
        assert not [file for file in found["files"] if file.endswith((".pkl", ".bin", ".pt"))]

        port = free_port()
        address = f"http://127.0.0.1:{port}"
        serve = [
            *(sys.executable, "-m", "mlflow", "models", "serve", "-m", "models:/corecode@champion"),
            *("--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)),
        ]
        with serving(serve, f"{address}/ping", tmp_path, bare):
            body = {"inputs": PROBLEMS_ASKED, "params": {"seed": 3}}
            assert post(f"{address}/invocations", body) == (200, {"predictions": expected})
            split = {"columns": ["problem"], "data": [[text] for text in PROBLEMS_ASKED]}
            assert post(f"{address}/invocations", {"dataframe_split": split, "params": {"seed": 3}})[1] == {
                "predictions": expected
            }
            status, refused = post(f"{address}/invocations", {"inputs": ["Print 1.", " "]})
            assert status == 400
            assert "problem 1 is not a statement" in json.dumps(refused)
            status, refused = post(f"{address}/invocations", {"inputs": ["Print 1.", "and 1 " * 3000]})
            assert status == 400
            assert "does not fit: the planner's model reads 2048" in json.dumps(refused)
            assert post(f"{address}/invocations", {"inputs": PROBLEMS_ASKED[:1], "params": {"seed": None}})[0] == 200
