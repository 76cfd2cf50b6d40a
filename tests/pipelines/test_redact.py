"""Secrets reach no tag, parameter, artifact, message or report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from servers import mlflow_server
from teams import ROOT, command

from corecode.errors import InfrastructureError, UserError
from pipelines.home import plain_name
from pipelines.profiles import load_profile
from pipelines.redact import reason, redact, shown_cause
from pipelines.settings import RunSettings
from pipelines.tracking import Tracking, run_key

TOKEN, PASSWORD = "hf_ThisIsNoRealToken", "sword-fish-42"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "falsely")


@pytest.mark.usefixtures("secrets")
def test_what_is_masked_and_what_stays() -> None:
    assert redact(f"401 for {TOKEN} at http://me:{PASSWORD}@host:5000/x") == "401 for *** at http://host:5000/x"
    assert redact("postgresql+psycopg2://u:p%40w@db/mlflow is down") == "postgresql+psycopg2://db/mlflow is down"
    kept = "sqlite:////home/a/mlflow.db pass@1 falsely http://host/a@b"
    assert redact(kept) == kept


def test_every_form_of_a_secret_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    odd, in_address = 'p@ss "w\\rd-ü/9', "sword/fish:42"
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", odd)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{in_address}@host:5000")
    for secret in (odd, in_address):
        for text in (secret, quote(secret, safe=""), json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
            assert redact(f"no {text}!") in ("no ***!", 'no "***"!')
        assert redact(f"bad value {secret!r}") == "bad value '***'"
    for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name)
    assert redact(f"postgresql://me:{in_address}@db:5432/x is down") == "postgresql://db:5432/x is down"
    kept = "http://[::1]:5000/a@b http://host:5000/a@b s3://bucket/a:b@c"
    assert redact(kept) == kept


@pytest.mark.usefixtures("secrets")
def test_a_profile_holds_no_secret() -> None:
    for field, value in (
        ("description", f"as {TOKEN}"),
        ("model", f"{{path: 'https://me:{PASSWORD}@host/model'}}"),
        ("execution.server.python", f"/opt/{TOKEN}/bin/python"),
    ):
        with pytest.raises(UserError, match=rf"profile smoke: {field}\S* holds a password or a token") as caught:
            load_profile("smoke", [f"{field}={value}"])
        assert TOKEN not in str(caught.value)
        assert PASSWORD not in str(caught.value)


@pytest.mark.usefixtures("secrets")
def test_tags_parameters_and_problems(new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = Tracking(new_home("masked"))
    run = store.open(run_key("masked"), "masked", {"note": f"as {TOKEN}"})
    address = f"http://me:{PASSWORD}@host/v1"
    run.tags({"server": address})
    run.parameters({"server": address, "long": f"{TOKEN} " * 400, "list": [address]})

    def fails(client: Any) -> None:
        raise ConnectionError(f"no route to {address}")

    run.attempt("a thing", fails)
    run.end("FINISHED")
    found = store.client.get_run(run.id)
    artifacts = Path(store.client.download_artifacts(run.id, "parameters.json")).read_text(encoding="utf-8")
    written = json.dumps([found.data.tags, found.data.params, artifacts, run.problems])
    assert TOKEN not in written
    assert PASSWORD not in written
    assert "http://host/v1" in written
    assert "no route to http://host/v1" in run.problems[0]


@pytest.mark.parametrize("before", range(275, 301))
def test_half_a_secret_is_not_shown_either(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long message is cut, wherever its end falls: within a token, or within an address before its @."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    for secret, text in ((TOKEN, TOKEN), (PASSWORD, f"http://me:{PASSWORD}@host/api")):
        store = Tracking(Path("unused"))
        with pytest.raises(InfrastructureError) as raised, store.answers():
            raise ConnectionError("x" * before + text + " refused" * 40)
        shown = str(raised.value)
        assert "x" * before in shown
        assert secret[:4] not in shown


def test_a_secret_of_several_lines_is_masked_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPLOY_KEY", "-----BEGIN-----\nabc  def\n-----END-----")
    assert reason("refused:\n-----BEGIN-----\nabc  def\n-----END----- is no key") == "refused: *** is no key"


def test_a_cause_that_holds_a_secret_is_not_shown() -> None:
    plain, secret = ValueError("no answer"), ConnectionError(f"http://me:{PASSWORD}@host/api refused")
    assert shown_cause(plain) is plain
    assert shown_cause(secret) is None
    plain.__context__ = secret
    assert shown_cause(plain) is None


def test_a_whole_run_and_its_champion_leave_no_secret(new_home: Callable[[str], Path], memory: Path) -> None:
    """Every file of the home and of the server is searched, and what was printed."""
    home, kept = memory / "secretive", new_home("secretive-server")
    with mlflow_server(kept) as uri:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CORECODE_HOME": str(home),
            "HF_TOKEN": TOKEN,
            "MLFLOW_TRACKING_URI": uri.replace("http://", f"http://me:{PASSWORD}@"),
        }
        done = subprocess.run(
            [
                sys.executable,
                str(Path(__file__).with_name("fake_chain.py")),
                "run",
                "smoke",
                "--set",
                "dataset.test=60",
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            timeout=500,
        )
    assert done.returncode == 0, done.stderr
    assert "champion: the first champion" in done.stderr
    texts = {path: path.read_bytes() for root in (home, kept) for path in root.rglob("*") if path.is_file()}
    assert any(b"first champion" in text for text in texts.values())
    texts[Path("printed")] = (done.stdout + done.stderr).encode()
    assert [path for path, text in texts.items() if PASSWORD.encode() in text or TOKEN.encode() in text] == []


def test_an_address_with_a_password_is_said_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.launchers.local import free_port

    uri = f"http://me:{PASSWORD}@127.0.0.1:{free_port()}"
    environment = {"MLFLOW_TRACKING_URI": uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    code, out, err = command(tmp_path, "champions", **environment)
    assert code == 1
    assert "MLflow at http://127.0.0.1" in err
    assert PASSWORD not in out + err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    store = Tracking(tmp_path)
    assert PASSWORD not in store.ui + store.shown


@pytest.mark.parametrize("name", ["..", "../x", "/etc", "a/b", "", ".hidden", "a\nb", "x" * 300])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="is not a name"):
        plain_name(name, "run")
    with pytest.raises(UserError, match="profile smoke: name"):
        load_profile("smoke", [f"name={json.dumps(name)}"])
    run = SimpleNamespace(run_id="x", tags={})
    context = SimpleNamespace(run=run, instance=SimpleNamespace(get_run_by_id=lambda _: None))
    if name:
        with pytest.raises(UserError, match="is not a name"):
            RunSettings(run=name).open_folder(context)


def test_artifacts_stay_inside_their_run(new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = new_home("inside")
    store = Tracking(home)
    run = store.open(run_key("inside"), "inside", {})
    file = home / "file.json"
    file.write_text("{}", encoding="utf-8")
    run.artifact(file, "../../outside")
    run.table([{"a": 1}], "../outside.json")
    run.end("FINISHED")
    assert len(run.problems) == 2
    assert not list(home.rglob("outside*"))
    assert store.client.list_artifacts(run.id) == []


def test_an_outage_of_the_registry_is_none_of_its_answers(
    new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException

    from pipelines.registry.ledger import Ledger

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = Tracking(new_home("out"))

    def down(*args: Any, **kwargs: Any) -> None:
        raise MlflowException(f"no answer from http://me:{PASSWORD}@host")

    monkeypatch.setattr(store.client, "search_model_versions", down)
    with pytest.raises(InfrastructureError, match=r"failed: no answer from http://host$"):
        Ledger(store).settle()
