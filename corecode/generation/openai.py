"""Sampling from any server that speaks the OpenAI chat completions protocol (vLLM, ``transformers serve``, a hub).

One request a sample, many at a time: each sample has a seed and a token count of its own, also where a server ignores
``n``. What goes wrong for a moment (no connection, a time-out, a cut body, status 408, 429 or 5xx) is tried again
for a set time; what cannot get better is not. Nothing that fails ever becomes text.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

from corecode.config import SamplingConfig
from corecode.errors import InfrastructureError
from corecode.generation.generator import Chat, Completion, Listener, derive_seed

VLLM_OPTIONS: Mapping[str, Any] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True}
"""Request fields beyond the protocol that keep vLLM to plain sampling (a model's own defaults would change it) and make
it return token ids. Other servers may refuse them."""

_RETRIED = frozenset({408, 409, 425, 429})
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for; all in seconds."""

    request_s: float = 600.0
    """A single request, from connecting to the end of the body."""
    outage_s: float = 1200.0
    """Since the start of a call, or the last good answer to it; after it the outage is an error."""
    first_pause_s: float = 0.5
    """Pause before the first retry; doubled for each further one, up to 30 seconds."""


class _TryAgainError(Exception):
    """A failure that may pass. ``wait_s``: what the server asked for."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class _Call:
    """One call of ``generate``: when it last went well, and the failure that ends all of its requests."""

    def __init__(self, patience: Patience) -> None:
        self._patience_s = patience.outage_s
        self._well = time.monotonic()
        self._failure: InfrastructureError | None = None
        self._failed = threading.Event()

    def went_well(self) -> None:
        self._well = time.monotonic()

    def left_s(self) -> float:
        """Seconds until the silence counts as an outage."""
        return self._well + self._patience_s - time.monotonic()

    def fail(self, failure: InfrastructureError) -> None:
        """End the call; the first failure is the one that is told."""
        if self._failure is None:
            self._failure = failure
        self._failed.set()

    def wait(self, seconds: float) -> None:
        """Pause, or less when another request ends the call."""
        self._failed.wait(seconds)

    def check(self) -> None:
        """Raise the failure that has ended the call, if any."""
        if self._failure is not None:
            raise self._failure


class OpenAIGenerator:
    """A :class:`~corecode.generation.generator.Generator` over a server. Also a context manager."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        concurrency: int = 64,
        patience: Patience | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Nothing is sent before the first call.

        Args:
            base_url: up to and with ``/v1``.
            model: the name under which the server knows it.
            concurrency: requests in flight.
            options: further fields of every request, such as :data:`VLLM_OPTIONS`.
        """
        self.base_url = base_url.rstrip("/")
        self.model = model
        self._patience = patience or Patience()
        self._options = dict(options or {})
        self._concurrency = concurrency
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            # A proxy from the environment is for the world outside.
            trust_env=httpx.URL(self.base_url).host not in _LOOPBACK,
        )

    def __enter__(self) -> OpenAIGenerator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def generate(
        self,
        chats: Sequence[Chat],
        n: int,
        sampling: SamplingConfig,
        seed: int,
        listener: Listener | None = None,
    ) -> list[list[Completion]]:
        """Sample ``n`` completions of each chat; results in input order. Greedy samples of a chat are one request.

        Raises:
            InfrastructureError: when the server stays out for longer than the patience says, or refuses a request.
        """
        distinct = 1 if sampling.temperature == 0 else n
        call = _Call(self._patience)
        bodies = [
            self._body(chat, sampling, derive_seed(seed, index, sample))
            for index, chat in enumerate(chats)
            for sample in range(distinct)
        ]
        with ThreadPoolExecutor(max_workers=max(1, min(self._concurrency, len(bodies)))) as pool:

            def answer(number: int, body: dict[str, Any]) -> Completion:
                completion = self._completion(body, call)
                if listener is not None:
                    listener(number // distinct, completion)
                return completion

            completions = list(pool.map(answer, range(len(bodies)), bodies))
        groups = [completions[i : i + distinct] for i in range(0, len(completions), distinct)]
        return [group * (n // distinct) for group in groups]

    def _body(self, chat: Chat, sampling: SamplingConfig, seed: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [dict(message) for message in chat],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": seed,
            "n": 1,
            **self._options,
        }

    def _completion(self, body: dict[str, Any], call: _Call) -> Completion:
        """One sample, tried until it comes or the server counts as out."""
        pause = self._patience.first_pause_s
        while True:
            call.check()
            try:
                completion = _read(self._post(body, min(self._patience.request_s, call.left_s())))
                call.went_well()
                return completion
            except _TryAgainError as failure:
                wait = min(max(pause, failure.wait_s), _LONGEST_PAUSE_S)
                if wait > call.left_s():
                    call.fail(
                        InfrastructureError(
                            f"the model server {self.base_url} gave no good answer for {self._patience.outage_s:g} s"
                            f" ({failure}); check that it runs"
                        )
                    )
                else:
                    call.wait(wait)
                    pause *= 2
            except InfrastructureError as failure:
                call.fail(failure)

    def _post(self, body: dict[str, Any], seconds: float) -> Any:
        """Send a request and return the decoded answer.

        Raises:
            _TryAgainError: what may pass.
            InfrastructureError: what will not: the server refuses the request.
        """
        started = time.monotonic()
        try:
            # httpx limits each wait for bytes; reading in pieces lets us limit the whole.
            with self._client.stream(
                "POST", f"{self.base_url}/chat/completions", json=body, timeout=max(seconds, 0.001)
            ) as response:
                received = bytearray()
                for piece in response.iter_bytes():
                    received += piece
                    if time.monotonic() - started > seconds:
                        raise _TryAgainError(f"the answer took longer than {seconds:.3g} s")
                status, headers = response.status_code, response.headers
        except httpx.TimeoutException as error:
            raise _TryAgainError(f"no answer within {seconds:.3g} s") from error
        except httpx.HTTPError as error:
            raise _TryAgainError(f"{type(error).__name__}: {error}") from error
        text = bytes(received).decode("utf-8", errors="replace")
        if status >= 500 or status in _RETRIED:
            raise _TryAgainError(f"status {status}: {_excerpt(text)}", _retry_after(headers))
        if status != 200:
            raise InfrastructureError(
                f"the model server {self.base_url} refused a request for model {self.model!r}:"
                f" status {status}: {_excerpt(text)}"
            )
        try:
            return httpx.Response(200, content=bytes(received)).json()
        except ValueError as error:
            raise _TryAgainError(f"an answer that is not JSON: {_excerpt(text)}") from error


def _read(answer: Any) -> Completion:
    """The completion in an answer.

    Raises:
        _TryAgainError: for an answer that is not a finished completion.
    """
    try:
        (choice,) = answer["choices"]
        reason = choice["finish_reason"]
        text = choice["message"]["content"]
        token_ids = tuple(int(token) for token in choice.get("token_ids") or ())
        tokens = len(token_ids) or int(answer["usage"]["completion_tokens"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _TryAgainError(f"a malformed answer: {_excerpt(repr(answer))}") from error
    if reason not in ("stop", "length"):
        raise _TryAgainError(f"an answer that ended by {reason!r}")
    if text is not None and not isinstance(text, str):
        raise _TryAgainError(f"a malformed answer: {_excerpt(repr(answer))}")
    # JSON can escape half of a surrogate pair, as where an answer is cut inside a character: no file could hold it.
    text = (text or "").encode("utf-8", errors="replace").decode("utf-8")
    return Completion(text, token_ids, tokens, truncated=reason == "length")


def _retry_after(headers: httpx.Headers) -> float:
    """Seconds that the server asks to wait; 0 when it does not say, or says a date."""
    value = headers.get("retry-after", "")
    return float(value) if value.replace(".", "", 1).isdigit() else 0.0


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]} ..."
