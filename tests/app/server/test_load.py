"""Many clients, slow ones, and such as go away."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import backend
from app.server.admission import Admission
from app.server.errors import ApiError
from app.server.serving import Server
from backend.chat_engine import Request
from backend.engines.local import InProcessEngine
from backend.engines.scripted import Pause, ScriptedEngine, Step
from backend.types import Piece, PrefillProgress
from tests.app.server.conftest import Start, client_of, http_of

HELLO: Any = [{"role": "user", "content": "hello"}]
LONG = Pause(60)


@dataclass
class Watched(ScriptedEngine):
    """Knows which requests have ended, however they did."""

    ended: list[str] = field(default_factory=list[str])

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        steps = super().submit(request)
        try:
            async for pieces in steps:
                yield pieces
        finally:
            await steps.aclose()  # type: ignore[attr-defined]
            self.ended.append(request.id)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; the limit of the test is the limit."""
    while not condition():
        time.sleep(0.005)


def post(stream: bool, **more: Any) -> bytes:
    """A request as bytes, for a client that may go away."""
    wanted = {"messages": HELLO, "stream": stream, **more}
    body = httpx.Request("POST", "http://localhost/v1/chat/completions", json=wanted)
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body.content)}\r\n\r\n".encode() + body.content


@contextmanager
def waiting(server: Server, *, stream: bool = True, **more: Any) -> Generator[socket.socket]:
    """A client that sent a request and waits; it goes away at the end."""
    with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
        raw.sendall(post(stream, **more))
        yield raw


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", [[LONG], [PrefillProgress(1, 9, 0), LONG], ["so ", LONG]])
def test_nothing_is_decoded_for_a_client_that_went_away(
    start: Start, stream: bool, script: list[Step]
) -> None:
    engine = Watched([script, ["fine"]])
    server = start(engine)
    with waiting(server, stream=stream):
        until(lambda: engine.requests)
        assert engine.ended == []
    until(lambda: engine.ended)
    answer = client_of(server).chat.completions.create(model="scripted", messages=HELLO)
    assert answer.choices[0].message.content == "fine"


def test_the_real_engine_stops_in_the_middle(tiny_llama: Path, start: Start) -> None:
    with backend.load(tiny_llama, slots=2, kv_cache_mode="paged") as model:
        engine = InProcessEngine(model)
        server = start(engine)
        for stream in (True, False):
            endless = {str(token): -100 for token in model.eos_token_ids}
            with waiting(server, stream=stream, max_tokens=1900, logit_bias=endless):
                until(lambda: model.pipeline.stats().running)
            until(lambda: not model.pipeline.stats().running)


def test_the_queue_is_bounded_and_whoever_is_refused_is_told_when_to_come_again(start: Start) -> None:
    engine = Watched([[LONG]] * 10 + [["fine"]] * 5)
    server = start(engine, max_queued=2)  # ScriptedEngine writes 8 at once
    with ThreadPoolExecutor(1) as pool:
        clients = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(10)]
        for number, client in enumerate(clients):
            client.sendall(post(True))
            until(lambda number=number: len(engine.requests) > number)
        with http_of(server) as http:
            refused = http.post("/v1/chat/completions", json={"messages": HELLO})
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            assert refused.json()["error"]["code"] == "queue_full"
            figures = http.get("/metrics").text
        assert "fireside_replies_waiting 2.0" in figures and "fireside_replies_running 8.0" in figures
        patient = client_of(server, max_retries=5)
        later = pool.submit(patient.chat.completions.create, model="scripted", messages=HELLO)
        for client in clients:
            client.close()
        assert later.result(30).choices[0].message.content == "fine"
        until(lambda: len(engine.ended) >= 11)


def test_more_replies_than_there_is_ever_room_for_are_refused_for_good() -> None:
    admission = Admission(slots=2, max_queued=1)
    with pytest.raises(ApiError) as told, admission.place(4):
        pass
    assert told.value.status == 400
    with admission.place(3), pytest.raises(ApiError) as told, admission.place():
        pass
    assert told.value.status == 429 and admission.taken == 0 and admission.refused == 1
    admission.close()
    with pytest.raises(ApiError) as told, admission.place():
        pass
    assert told.value.status == 503


def test_two_streams_never_mix(tiny_server: Server) -> None:
    def ask(text: str) -> str:
        with openai.OpenAI(base_url=f"{tiny_server.url}/v1", api_key="none") as client:
            stream = client.chat.completions.create(
                model="tiny",
                messages=[{"role": "user", "content": text}],
                stream=True,
                max_tokens=40,
                seed=len(text),
            )
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    texts = ["the user", "and you", "is the assistant", "er"] * 2
    alone = [ask(text) for text in texts[:4]]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, texts)) == alone * 2


def test_a_slow_reader_keeps_no_place(start: Start) -> None:
    many: list[Step] = ["word " * 2000] * 400  # more than the buffers between the two take
    engine = Watched([many, ["fine"]])
    server = start(engine, max_queued=0)
    with waiting(server):
        until(lambda: engine.ended)
        with http_of(server) as http:
            until(lambda: "fireside_replies_running 0.0" in http.get("/metrics").text)


def test_the_end_waits_for_what_is_being_written_and_takes_nothing_new(start: Start) -> None:
    engine = Watched([["one ", Pause(0.3), "two"]])
    server = start(engine)
    body = {"messages": HELLO, "stream": True}
    with http_of(server) as http, http.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        closing = threading.Thread(target=server.close)
        closing.start()
        rest = "".join(lines)
    closing.join()
    assert "two" in rest and rest.endswith("[DONE]")
    with pytest.raises(httpx.ConnectError), http_of(server) as http:
        http.get("/health")


def test_the_end_does_not_wait_for_ever(start: Start) -> None:
    engine = Watched([["one ", LONG]])
    server = start(engine, grace_s=0)
    with waiting(server) as raw:
        arrived = b""
        while b"one" not in arrived:
            arrived += raw.recv(4000)
        server.close()
    assert len(engine.ended) == 1
