"""``corecode promote``, ``rollback`` and ``champions``: what they print and their exit codes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from teams import make_run

Outcome = tuple[int, str, str]


def test_a_life_of_a_registry(
    corecode: Callable[..., Outcome], new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_home("life")
    monkeypatch.setenv("CORECODE_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    for name, right in (("first", 60), ("noise", 61), ("second", 120)):
        make_run(home, name, right)
    make_run(home, "other", 190, statement="Print 2.")

    assert corecode("promote", "first") == (0, "first, version 1: the first champion\n", "")
    assert corecode("promote", "first") == (0, "first, version 1: already the champion\n", "")
    code, out, _ = corecode("promote", "noise")
    assert code == 1
    assert out.startswith("noise, version 2: held: not better beyond chance than first: +0.5 points [")
    code, out, err = corecode("promote", "other")
    assert (code, out) == (2, "")
    assert err.startswith("error: refused: the champion first was measured on other problems, or otherwise")
    assert err.endswith("evaluate both alike, or give --force REASON\n")
    code, out, _ = corecode("promote", str(home / "runs" / "second"))
    assert code == 0
    assert re.match(r"second, version 4: better than first: \+30\.0 points \[\d+\.\d, \d+\.\d\]\n", out)
    assert out.endswith("champion before: first\n")
    code, out, _ = corecode("rollback", "--reason", "too slow")
    assert (code, out) == (0, "first, version 5: rolled back from second: too slow\nchampion before: second\n")
    assert corecode("promote", "other", "--force", "a new test set")[0] == 0

    code, out, _ = corecode("champions")
    assert code == 0
    lines = [line.split() for line in out.splitlines() if re.match(r"\s*\*?\s*\d", line)]
    assert [line[0] for line in lines] == ["1", "2", "3", "4", "5", "*"]
    assert "forced: a new test set" in out
    assert "the alias" not in out
    from pipelines.tracking import Tracking

    Tracking(home).client.set_registered_model_alias("corecode", "champion", "2")
    assert "the alias 'champion' points to version 2, the history says 6" in corecode("champions")[1]


def test_mistakes(corecode: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("CORECODE_HOME", str(home))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def refused(sentence: str, *arguments: str) -> None:
        code, out, err = corecode(*arguments)
        assert (code, out, len(err.splitlines())) == (2, "", 1), arguments
        assert sentence in err

    for command in (["promote", "nothing"], ["rollback"], ["champions"], ["runs"], ["runs", "--json"], ["rerun", "x"]):
        refused(f"the home folder {home} does not exist; set CORECODE_HOME", *command)
    refused("--force: give the reason", "promote", "nothing", "--force", " ")
    refused("Invalid value", "promote", "nothing", "--margin", "2")
    refused("Invalid value", "promote", "nothing", "--margin", "nan")
    refused("Invalid value", "rollback", "--to", "x")
    assert not home.exists()
    home.mkdir()
    refused("there is no run nothing: cannot read", "promote", "nothing")
    refused("is not a name", "promote", "..evil")
    refused("there is no champion to go back from", "rollback")
    refused("there is no run x in MLflow", "rerun", "x")
    assert corecode("champions")[:2] == (
        0,
        f"no team was offered yet in MLflow at sqlite:///{home}/mlflow/mlflow.db; 'corecode promote RUN' offers one\n",
    )
    assert list(home.iterdir()) == []
    home.rmdir()
    home.touch()
    refused(f"the home folder {home} is a file", "runs")
