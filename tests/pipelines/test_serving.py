"""A frozen role on a model server: started for the job, asked for samples, ended with it; and dying in the middle.

A stand-in for vLLM (a few lines of Python that speak the protocol) shows every way to go wrong in a second; the slow
tests do the same with the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import coin
import pytest
from processes import marked
from teams import PROFILE, make_run

from corecode.config import ModelConfig, SamplingConfig
from corecode.errors import InfrastructureError, UserError
from corecode.generation.openai import VLLM_OPTIONS, OpenAIGenerator
from corecode.stages import Job, grpo_job, make_problems, sft_jobs
from pipelines import preflight
from pipelines.launchers.local import Engine, LocalLauncher, free_port, job_environment
from pipelines.launchers.server import ModelServer, ServerOptions, server_python
from pipelines.tracking import Tracking

ROOT = Path(__file__).parents[2]
WIDTH = 64
"""vLLM on a CPU wants attention heads of 32 numbers or more."""
STAND_IN = f"""#!{sys.executable}
import json, os, sys, time
if sys.argv[1] == "-c":
    sys.exit(int(os.environ.get("STAND_IN_HAS_NO_VLLM", "0")))
assert sys.argv[1:3] == ["-m", "vllm.entrypoints.openai.api_server"], sys.argv
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
given = dict(zip(sys.argv[3::2], sys.argv[4::2]))
if os.environ.get("STAND_IN_FAILS"):
    sys.exit("no memory is left for the cache")
if os.environ.get("STAND_IN_SLEEPS"):
    time.sleep(600)

class Handler(BaseHTTPRequestHandler):
    def reply(self, value):
        text = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.reply({{"data": [{{"id": given["--served-model-name"]}}]}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {{"content": f"```python\\nprint({{asked['seed'] % 3}})\\n```"}}
        choice = {{"finish_reason": "stop", "message": message}}
        self.reply({{"choices": [choice], "usage": {{"completion_tokens": 7}}}})

    def log_message(self, *arguments):
        pass

ThreadingHTTPServer(("127.0.0.1", int(given["--port"])), Handler).serve_forever()
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> str:
    """Path of a Python that answers as one with vLLM would."""
    path = tmp_path / "python"
    path.write_text(STAND_IN, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A text that every process started in this test carries in its environment."""
    text = f"CORECODE_TEST_MARK={tmp_path.name}-{os.getpid()}"
    monkeypatch.setenv(*text.split("=", 1))
    return text


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, missing_requirement: Callable[[str], None]) -> Path:
    """A run folder with both roles warmed up by plain torch."""
    from corecode.training.job import run_job

    coin.need_sandbox(missing_requirement)
    folder = tmp_path_factory.mktemp("warm")
    settings = coin.profile(coin.write_problems(folder / "data"), WIDTH)
    make_problems(settings, folder)
    for job in sft_jobs(settings, folder):
        run_job(job.write())
    return folder


@pytest.fixture
def run(warm: Path, tmp_path: Path) -> Path:
    """A run folder of its own that goes on from the warm-up."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("data", "problems", "tokenizer", "sft_warmup"):
        (folder / name).symlink_to(warm / name)
    return folder


def planner_phase(run: Path, python: str, steps: int = 2) -> Job:
    phase = {**coin.PHASE, "steps": steps, "validate_every": 0}
    settings = coin.profile(run / "data", WIDTH, phase=phase, partner="vllm", server={"python": python})
    job = grpo_job(settings, run, "planner")
    assert job is not None
    return job


def launch(job: Job, on_metrics: Callable[[dict[str, Any]], None] = lambda line: None) -> None:
    launcher = LocalLauncher(environment=job_environment(1, "cpu", offline=True), engine=Engine(), grace_s=2)
    launcher.run([job], 1, lambda _job, line: on_metrics(dict(line)))


def steps_logged(job: Job) -> list[dict[str, float]]:
    lines = (job.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["metrics"] for line in lines]


def servers(mark: str) -> list[int]:
    """Pids of the server's own process, not of its supervisor."""
    return [pid for pid, line in marked(mark).items() if "api_server" in line and "supervise.py" not in line]


def kill_server_at(step: int, mark: str) -> Callable[[dict[str, Any]], None]:
    def act(line: dict[str, Any]) -> None:
        if line["step"] == step:
            for pid in servers(mark):
                os.kill(pid, signal.SIGKILL)

    return act


def assert_the_outage_scored_nothing(job: Job, step: int) -> None:
    """Everything that was logged has a verdict for every sample, and nothing was logged or kept after the death."""
    logged = steps_logged(job)
    assert step <= len(logged) < job.spec["grpo"]["steps"]
    assert all(line["infrastructure/lost"] == 0 for line in logged)
    assert not (job.folder / "result.json").exists()
    assert not (job.folder / "model").exists()


def test_a_phase_starts_its_partners_server_and_ends_it(run: Path, stand_in: str, mark: str) -> None:
    job = planner_phase(run, stand_in)
    launch(job)
    assert job.done
    assert [line["infrastructure/lost"] for line in steps_logged(job)] == [0, 0]
    samples = [json.loads(line) for line in (job.folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {sample["program"] for sample in samples} <= {"print(0)", "print(1)", "print(2)"}
    assert json.loads((job.folder / "job.json").read_text(encoding="utf-8"))["servers"] == {}
    assert marked(mark) == {}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_servers_of_shared_gpus_start_one_after_the_other(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that size their caches at a time would each count the other's memory as its own."""
    from pipelines.launchers import serving

    happened: list[str] = []

    class Server:
        program = None

        def __init__(self, name: str) -> None:
            self.name = name
            self.options = SimpleNamespace(url="http://127.0.0.1:1/v1", names=(name,))

        def wait_ready(self) -> None:
            happened.append(f"{self.name} is ready")

    def start(options: SimpleNamespace, log: Path) -> Server:
        happened.append(f"{options.names[0]} starts")
        return Server(options.names[0])

    class Spec(SimpleNamespace):
        def model_copy(self, update: dict[str, Any]) -> Any:
            return SimpleNamespace(model_dump=lambda mode: update)

    spec = Spec(
        kind="evaluate",
        team=("planner", "coder"),
        role="",
        weights={"planner": "a", "coder": "b"},
        folder=tmp_path,
        profile=SimpleNamespace(execution=SimpleNamespace(device=device)),
    )
    monkeypatch.setattr(serving, "read_spec", lambda _path: (spec, ""))
    monkeypatch.setattr(serving, "_options", lambda _spec, names: SimpleNamespace(names=tuple(names)))
    monkeypatch.setattr(serving, "ModelServer", SimpleNamespace(start=start))
    monkeypatch.setattr(serving, "end_all", lambda _programs: None)
    monkeypatch.setattr(serving, "_run", lambda _command, _servers: 0)
    assert serving.serve_and_run(tmp_path / "job.json", []) == 0
    first = ["planner starts", "planner is ready", "coder starts", "coder is ready"]
    assert happened[: len(first)] == first if device == "cuda" else happened[:2] == ["planner starts", "coder starts"]


def test_a_server_that_dies_ends_the_phase_and_scores_nothing(run: Path, stand_in: str, mark: str) -> None:
    job = planner_phase(run, stand_in, steps=500)
    with pytest.raises(InfrastructureError, match=r"the model server of coder .* ended with signal 9 in the middle"):
        launch(job, kill_server_at(2, mark))
    assert_the_outage_scored_nothing(job, 2)
    assert marked(mark) == {}


def test_a_server_that_does_not_start_is_said_with_its_last_words(
    run: Path, stand_in: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "1")
    with pytest.raises(InfrastructureError, match=r"ended with exit code 1 before it was ready.*no memory is left"):
        launch(planner_phase(run, stand_in))
    assert marked(mark) == {}


def test_a_server_that_stays_silent_is_given_up(stand_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_SLEEPS", "1")
    options = ServerOptions("folder", ("coder",), "float32", stand_in, port=free_port())
    server = ModelServer.start(options, tmp_path / "log")
    try:
        with pytest.raises(InfrastructureError, match=r"did not answer within 0\.6 s"):
            server.wait_ready(0.6)
    finally:
        server.end()
    assert server.program.process.poll() is not None


def test_a_python_without_vllm_is_refused_with_the_remedy(
    run: Path, stand_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_HAS_NO_VLLM", "1")
    with pytest.raises(UserError, match="has no vLLM; on a CPU run: make vllm"):
        launch(planner_phase(run, stand_in))


def test_preflight_asks_a_server_before_the_run(
    warm: Path, stand_in: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "home"))
    settings = coin.profile(warm / "data", partner="vllm", server={"python": stand_in})
    path = str(warm / "sft_warmup" / "coder" / "model")
    settings = settings.model_copy(update={"model": ModelConfig(path=path)})
    check = preflight.CHECKS[-1]
    assert [passed.fact for passed in check(settings)] == [f"vLLM at {stand_in} serves {path}"]
    monkeypatch.setenv("STAND_IN_FAILS", "1")
    with pytest.raises(InfrastructureError, match=r"the model server of preflight .* no memory is left"):
        list(check(settings))
    assert marked(mark) == {}


def corecode(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from pipelines.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_serve_answers_until_it_is_ended(
    end: signal.Signals, warm: Path, stand_in: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path / "home"))
    model, port = str(warm / "sft_warmup" / "coder" / "model"), str(free_port())
    process = corecode("serve", "--model", model, "--port", port, "--python", stand_in)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"http://127.0.0.1:{port}/v1 answers for the model coder")
    with OpenAIGenerator(line.split()[0], "coder") as generator:
        ((answer,),) = generator.generate([[{"role": "user", "content": "x"}]], 1, SamplingConfig(), seed=1)
    assert answer.text.startswith("```python")
    process.send_signal(end)
    assert process.wait(30) == 130
    assert marked(mark) == {}


def test_serve_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORECODE_HOME", str(tmp_path))
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "model.safetensors"):
        (broken / name).write_text("{", encoding="utf-8")
    for arguments, sentence in (
        ([str(tmp_path)], "holds no model"),
        ([str(broken)], "config.json: this is not JSON"),
        (["champion"], "there is no champion with the role coder"),
        (["champion", "--role", "../x"], "--role: '../x' is not a name"),
        (["champion", "--port", "99999999"], "Invalid value for '--port'"),
        (["champion", "--device", "tpu"], "Invalid value for '--device'"),
    ):
        _, errors = (process := corecode("serve", "--model", *arguments)).communicate(timeout=60)
        assert process.returncode == 2
        assert sentence in errors
        assert len(errors.splitlines()) == 1


@pytest.fixture(scope="module")
def vllm(missing_requirement: Callable[[str], None]) -> Iterator[str]:
    """A Python with the real vLLM."""
    try:
        yield server_python(None)
    except UserError as error:
        missing_requirement(str(error))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_vllm_is_the_frozen_coder_of_a_planner_phase(run: Path, vllm: str, mark: str) -> None:
    job = planner_phase(run, vllm)
    launch(job)
    assert job.done
    logged = steps_logged(job)
    assert [line["infrastructure/lost"] for line in logged] == [0, 0]
    assert all("reward/mean" in line for line in logged)
    assert marked(mark) == {}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_vllm_serves_a_registered_role_as_transformers_does_and_its_death_ends_the_phase(
    run: Path, warm: Path, vllm: str, mark: str, new_home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frozen Coder is the folder that the registry hands out. Greedy answers are those of the weights that were
    registered, in transformers; then the server is killed."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (run / "sft_warmup").unlink()
    shutil.copytree(warm / "sft_warmup", run / "sft_warmup", ignore=shutil.ignore_patterns("coder"))
    through_the_registry(new_home("registered"), warm / "sft_warmup", run / "sft_warmup" / "coder")
    job = planner_phase(run, vllm, steps=500)
    chats = [[{"role": "user", "content": text}] for text in ("Print 1.", "def main():", "k 2 mirror 7")]
    greedy = SamplingConfig(temperature=0, max_tokens=8)
    answers: list[str] = []

    def ask_and_kill(line: dict[str, Any]) -> None:
        if not answers:
            url = json.loads((job.folder / "job.served.json").read_text(encoding="utf-8"))["servers"]["coder"]
            with OpenAIGenerator(url, "coder", options=VLLM_OPTIONS) as generator:
                answers.extend(group[0].text for group in generator.generate(chats, 1, greedy, seed=0))
        kill_server_at(2, mark)(line)

    with pytest.raises(InfrastructureError, match=r"the model server of coder .* in the middle of the job"):
        launch(job, ask_and_kill)
    assert_the_outage_scored_nothing(job, 2)
    deadline = time.monotonic() + 60
    while marked(mark):
        assert time.monotonic() < deadline, marked(mark)
        time.sleep(0.1)
    assert answers == in_process(warm, chats, greedy)


def through_the_registry(home: Path, roles: Path, target: Path) -> None:
    """Register the models of both roles as a team, and put the Coder's folder of that version below ``target``."""
    import mlflow.artifacts

    from pipelines.registry.promotion import promote

    offered = make_run(home, "warm", 60)
    for role in ("planner", "coder"):
        shutil.copytree(roles / role / "model", offered / f"{role}_grpo" / "model", dirs_exist_ok=True)
    assert promote(PROFILE, offered, home, Tracking(home)).version == 1
    target.mkdir()
    shutil.rmtree(home / "champions")
    found = mlflow.artifacts.download_artifacts("models:/corecode/1/artifacts/coder", dst_path=str(target))
    Path(found).rename(target / "model")


def in_process(run: Path, chats: list[Any], sampling: SamplingConfig) -> list[str]:
    from corecode.generation.transformers import TransformersGenerator
    from corecode.training.weights import load

    model, tokenizer = load(coin.profile(run / "data", WIDTH), run, "sft_warmup/coder")
    groups = TransformersGenerator(model, tokenizer, 8).generate(chats, 1, sampling, seed=0)
    return [group[0].text for group in groups]
