"""Which stores Dagster uses, and one sentence when they cannot be used. test_stores.py uses a real Postgres."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from corecode.errors import InfrastructureError, UserError
from pipelines.instance import dagster_home, open_instance
from pipelines.launchers.local import free_port

SETTINGS = Path(__file__).parents[2] / "infra" / "postgres" / "dagster.yaml"


def test_without_dagster_home_the_settings_are_written_into_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert dagster_home(tmp_path) == tmp_path / "dagster"
    settings = tmp_path / "dagster" / "dagster.yaml"
    settings.write_text("telemetry: {enabled: false}\n", encoding="utf-8")
    dagster_home(tmp_path)
    assert settings.read_text(encoding="utf-8") == "telemetry: {enabled: false}\n"


def test_dagster_home_has_to_hold_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "given"))
    with pytest.raises(UserError, match=r"given, which holds no dagster\.yaml; put one there or unset DAGSTER_HOME"):
        dagster_home(tmp_path / "home")
    (tmp_path / "given").mkdir()
    shutil.copy(SETTINGS, tmp_path / "given")
    assert dagster_home(tmp_path / "home") == tmp_path / "given"
    assert not (tmp_path / "home").exists()


def test_settings_that_need_a_variable_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "storage: {postgres: {postgres_url: {env: NO_SUCH_VARIABLE}}}\n"
    (tmp_path / "dagster.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"dagster\.yaml: .*NO_SUCH_VARIABLE"), open_instance(tmp_path / "home"):
        pass


@pytest.mark.parametrize(
    "address", ["postgresql+psycopg2://me:hush-hush@db:port/x", "postgresql+pg8000://me:hush-hush@db/x"]
)
def test_an_address_that_leads_nowhere_is_one_sentence(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dagster.yaml").write_text(f"storage: {{postgres: {{postgres_url: '{address}'}}}}\n", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    named = pytest.raises(UserError, match=r"dagster\.yaml names a store that cannot be opened: ")
    with named as caught, open_instance(tmp_path / "home"):
        pass
    assert "hush" not in str(caught.value)


def test_a_database_that_is_away_is_one_sentence_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(SETTINGS, tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    for name, value in {"PGHOST": "127.0.0.1", "PGPORT": str(free_port()), "PGPASSWORD": "hush"}.items():
        monkeypatch.setenv(name, value)
    refused = pytest.raises(InfrastructureError, match=r"Dagster's stores .* do not answer: .*refused")
    with refused as caught, open_instance(tmp_path / "home"):
        pass
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Retrying" not in capfd.readouterr().err


def test_other_errors_inside_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with pytest.raises(ZeroDivisionError), open_instance(tmp_path / "home"):
        raise ZeroDivisionError
