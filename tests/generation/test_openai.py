"""The client of model servers, against a small server in this process that misbehaves on request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from corecode.config import SamplingConfig
from corecode.errors import InfrastructureError
from corecode.generation.generator import Completion
from corecode.generation.openai import VLLM_OPTIONS, OpenAIGenerator, Patience

Answer = tuple[int, Any]
"""Status and body; bytes go out as they are."""

SAMPLING = SamplingConfig(temperature=0.7, top_p=0.9, max_tokens=64)
QUICK = Patience(request_s=5.0, outage_s=20.0, first_pause_s=0.01)


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def completion(text: Any, reason: str | None = "stop", tokens: int = 3, **choice: Any) -> Answer:
    message = {"role": "assistant", "content": text}
    return 200, {
        "choices": [{"index": 0, "message": message, "finish_reason": reason, **choice}],
        "usage": {"prompt_tokens": 5, "completion_tokens": tokens},
    }


class Server:
    """Answers by a function of the request and of how many came before it; keeps what it got."""

    def __init__(self, answer: Callable[[dict[str, Any], int], Answer]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    number = len(outer.requests)
                    outer.requests.append(body)
                    outer.headers.append({**dict(self.headers), "path": self.path})
                status, reply = answer(body, number)
                data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data) + (1000 if status == 299 else 0)))
                if status == 429:
                    self.send_header("Retry-After", "0.2")
                self.end_headers()
                if status == 298:  # a byte at a time
                    for byte in data[:40]:
                        self.wfile.write(bytes([byte]))
                        time.sleep(0.03)
                    self.close_connection = True
                else:
                    self.wfile.write(data)
                if status == 299:  # less than was announced
                    self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Clients that leave early are part of the tests."""

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"


@contextmanager
def serving(answer: Callable[[dict[str, Any], int], Answer]) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def echo(body: dict[str, Any], _number: int) -> Answer:
    return completion(f"{body['messages'][0]['content']}/{body['seed']}")


def test_results_keep_the_order_of_the_chats_and_each_sample_has_its_seed() -> None:
    def slow_first(body: dict[str, Any], number: int) -> Answer:
        time.sleep(0.15 if number < 2 else 0)
        return echo(body, number)

    chats = [chat(f"chat {i}") for i in range(6)]
    with serving(slow_first) as server, OpenAIGenerator(server.url, "m", concurrency=4) as generator:
        results = generator.generate(chats, 3, SAMPLING, seed=7)
        heard: list[tuple[int, Completion]] = []
        again = generator.generate(chats, 3, SAMPLING, 7, lambda index, answer: heard.append((index, answer)))
        other = generator.generate(chats, 3, SAMPLING, seed=8)
    texts = [[sample.text for sample in group] for group in results]
    assert [{text.split("/")[0] for text in group} for group in texts] == [{f"chat {i}"} for i in range(6)]
    assert len({text for group in texts for text in group}) == 18
    assert again == results
    told = sorted(heard, key=lambda one: (one[0], one[1].text))
    assert told == [(i, answer) for i, group in enumerate(again) for answer in sorted(group, key=lambda one: one.text)]
    assert {text for group in texts for text in group}.isdisjoint({s.text for group in other for s in group})


def test_a_request_says_what_the_profile_says() -> None:
    with serving(echo) as server:
        generator = OpenAIGenerator(server.url + "/", "planner", api_key="key", options=VLLM_OPTIONS)
        generator.generate([chat("x")], 1, SAMPLING, seed=1)
        generator.close()
    (request,) = server.requests
    seed = request.pop("seed")
    assert 0 <= seed < 2**63
    assert request == {
        "model": "planner",
        "messages": chat("x"),
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 64,
        "n": 1,
        **VLLM_OPTIONS,
    }
    assert server.headers[0]["Authorization"] == "Bearer key"
    assert server.headers[0]["path"] == "/v1/chat/completions"


def test_counts_and_the_finish_reason_are_kept() -> None:
    answers = [completion("cut", "length", tokens=64), completion("", tokens=1), completion(None, "length", tokens=9)]
    answers.append(completion("ids", token_ids=[4, 5, 2], tokens=99))
    with serving(lambda body, _number: answers[int(body["messages"][0]["content"])]) as server:
        results = OpenAIGenerator(server.url, "m").generate([chat(str(i)) for i in range(4)], 1, SAMPLING, seed=0)
    cut, empty, nothing, ids = (group[0] for group in results)
    assert (cut.text, cut.tokens, cut.truncated, cut.token_ids) == ("cut", 64, True, ())
    assert (empty.text, empty.tokens, empty.truncated) == ("", 1, False)
    assert (nothing.text, nothing.truncated) == ("", True)
    assert (ids.tokens, ids.token_ids) == (3, (4, 5, 2))


def test_half_a_character_becomes_a_question_mark() -> None:
    with serving(lambda _body, _number: completion("print('\ud83d')  # 👩")) as server:
        ((answer,),) = OpenAIGenerator(server.url, "m").generate([chat("x")], 1, SAMPLING, seed=0)
    assert answer.text == "print('?')  # 👩"


def test_greedy_samples_of_a_chat_are_asked_for_once() -> None:
    with serving(echo) as server:
        greedy = SamplingConfig(temperature=0)
        results = OpenAIGenerator(server.url, "m").generate([chat("a"), chat("b")], 3, greedy, seed=0)
    assert len(server.requests) == 2
    assert [len(group) for group in results] == [3, 3]
    assert results[0][0] == results[0][2] != results[1][0]


def test_no_chats_is_no_request() -> None:
    assert OpenAIGenerator("http://127.0.0.1:9/v1", "m").generate([], 2, SAMPLING, seed=0) == []


TRANSIENT: list[Answer] = [
    (500, {"error": "out of memory"}),
    (503, b"<html>starting</html>"),
    (429, {"error": "slow down"}),
    (299, b'{"choices": [{"mess'),
    (200, b'{"choices": [{"mess'),
    (200, {"choices": []}),
    (200, {"error": "engine died"}),
    (200, []),
    completion("text", reason=None),
    completion("text", reason="abort"),
    completion({"not": "text"}),
    (200, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}),
]


@pytest.mark.parametrize("failure", TRANSIENT)
def test_what_may_pass_is_tried_again_with_the_same_seed(failure: Answer) -> None:
    def twice_wrong(body: dict[str, Any], number: int) -> Answer:
        return failure if number < 2 else echo(body, number)

    with serving(twice_wrong) as server:
        result = OpenAIGenerator(server.url, "m", patience=QUICK).generate([chat("x")], 1, SAMPLING, seed=0)
    assert result[0][0].text.startswith("x/")
    assert len(server.requests) == 3
    assert server.requests[0] == server.requests[2]


@pytest.mark.parametrize("failure", TRANSIENT)
def test_an_outage_is_an_error_and_never_text(failure: Answer) -> None:
    patience = Patience(request_s=0.5, outage_s=0.3, first_pause_s=0.05)
    with serving(lambda _body, _number: failure) as server:
        generator = OpenAIGenerator(server.url, "m", patience=patience)
        started = time.monotonic()
        with pytest.raises(InfrastructureError, match=r"gave no good answer for 0\.3 s \(.+\); check that it runs"):
            generator.generate([chat("x"), chat("y")], 2, SAMPLING, seed=0)
        assert time.monotonic() - started < 20
    assert len(server.requests) >= 2


def silent(_body: dict[str, Any], _number: int) -> Answer:
    time.sleep(1.0)
    return completion("late")


def dripping(_body: dict[str, Any], _number: int) -> Answer:
    return 298, completion("late")[1]


@pytest.mark.parametrize("behaviour", [silent, dripping])
def test_a_silent_and_a_dripping_server_are_left(behaviour: Any) -> None:
    patience = Patience(request_s=0.1, outage_s=0.5, first_pause_s=0.02)
    with serving(behaviour) as server:
        with pytest.raises(InfrastructureError, match=r"no answer within [\d.e-]+ s|took longer than [\d.e-]+ s"):
            OpenAIGenerator(server.url, "m", patience=patience).generate([chat("x")], 1, SAMPLING, seed=0)
        assert len(server.requests) >= 2


def test_a_slow_server_that_answers_is_no_outage() -> None:
    def slow(body: dict[str, Any], number: int) -> Answer:
        time.sleep(0.1)
        return echo(body, number)

    patience = Patience(request_s=5.0, outage_s=1.0, first_pause_s=0.01)
    with serving(slow) as server:
        generator = OpenAIGenerator(server.url, "m", concurrency=1, patience=patience)
        assert len(generator.generate([chat("x")] * 12, 1, SAMPLING, seed=0)) == 12


def test_a_server_that_is_not_there_is_an_outage() -> None:
    with serving(echo) as server:
        url = server.url
    with pytest.raises(InfrastructureError, match=r"gave no good answer for 0\.2 s \(ConnectError"):
        OpenAIGenerator(url, "m", patience=Patience(outage_s=0.2, first_pause_s=0.02)).generate(
            [chat("x")], 1, SAMPLING, seed=0
        )


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_not_tried_again(status: int) -> None:
    with serving(lambda _body, _number: (status, {"error": {"message": "no such model"}})) as server:
        with pytest.raises(InfrastructureError, match=rf"model 'm': status {status}: .*no such model"):
            OpenAIGenerator(server.url, "m", concurrency=1).generate([chat("x")] * 5, 2, SAMPLING, seed=0)
        assert len(server.requests) == 1


def test_one_failed_sample_fails_the_call() -> None:
    def one_bad(body: dict[str, Any], number: int) -> Answer:
        return (400, {"error": "too long"}) if body["messages"][0]["content"] == "bad" else echo(body, number)

    with serving(one_bad) as server, pytest.raises(InfrastructureError, match="too long"):
        OpenAIGenerator(server.url, "m").generate([chat("good"), chat("bad"), chat("good")], 2, SAMPLING, seed=0)
