"""Without the hub nothing waits for it, nothing is said of its retries, and what was downloaded before still works."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from corecode import hub
from corecode.config import ModelConfig, ScratchConfig
from corecode.models import load_config, load_tokenizer, new_model, save_model, train_tokenizer

ROOT = Path(__file__).parents[2]
DOCTOR = "import sys; from pipelines.cli import main; sys.argv = ['corecode', *sys.argv[1:]]; main()"
PROFILE = """\
name: hub
dataset: {name: humaneval, sft: 0, rl: 8, validation: 4, test: 8}
model: {path: nobody/no-such-model}
sft: {enabled: false}
"""


@pytest.fixture
def closed() -> Generator[str]:
    """An address of this machine where nobody listens (the port is held, so that nobody can)."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def answering(status: int) -> Generator[str]:
    """A server that answers everything with this status."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_counts_as_an_answer(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def answers(endpoint: str) -> bool:
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        return hub.hub_answers()

    assert not answers(closed)
    with answering(200) as there:
        assert answers(there)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert not answers(there)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with answering(502) as gateway:
        assert not answers(gateway)
    monkeypatch.setattr(hub, "ANSWER_S", 0.2)
    with socket.socket() as silent:  # takes the connection and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert not answers(f"http://127.0.0.1:{silent.getsockname()[1]}")


def test_the_doctor_says_it_in_one_line_without_noise(closed: str, tmp_path: Path) -> None:
    (tmp_path / "hub.yaml").write_text(PROFILE, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", DOCTOR, "doctor", str(tmp_path / "hub.yaml")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HF_ENDPOINT": closed, "HF_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        timeout=120,
    )
    assert ended.returncode == 1
    assert ended.stderr == ""
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("fail")]
    assert "the hub does not answer, nor is it in its cache  -> download it on a connected machine" in line


def test_a_model_that_was_downloaded_before_is_used(
    closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", closed)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    scratch = ScratchConfig(width=32, layers=1, heads=2, vocabulary=300)
    tokenizer = train_tokenizer(["print 1"], 300)
    repository, revision = tmp_path / "models--somebody--tiny", "0123456789" * 4
    snapshot = repository / "snapshots" / revision
    save_model(new_model(scratch, tokenizer, 0), tokenizer, tmp_path / "made")
    shutil.copytree(tmp_path / "made", snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(revision, encoding="utf-8")
    config = ModelConfig(path="somebody/tiny")
    assert load_config(config).hidden_size == 32
    assert len(load_tokenizer(config)) == len(tokenizer)
