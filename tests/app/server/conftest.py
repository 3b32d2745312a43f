"""Servers that real clients talk to: on a tiny model, and on a script where the reply has to be known."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import backend
from app.server.models import Models
from app.server.security import Access
from app.server.serving import Options, Server
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.chat_engine import ChatEngine
from backend.engines.scripted import ScriptedEngine, Step
from fireside import serve

Start = Callable[..., Server]


@pytest.fixture(scope="session")
def tiny_server(tiny_llama: Path) -> Generator[Server]:
    """A random model of a few thousand weights, served by the library's door."""
    with (
        backend.load(tiny_llama, slots=4, kv_cache_mode="paged") as model,
        model.chat_session() as session,
        serve(session.engine, model_id="tiny") as server,
    ):
        yield server


@pytest.fixture
def start() -> Generator[Start]:
    """Starts a server on an engine; it ends with the test."""
    servers: list[Server] = []

    def begin(engine: ChatEngine, *, access: Access | None = None, **options: Any) -> Server:
        def make() -> tuple[SessionManager, Models]:
            manager = SessionManager(engine=engine, store=Store(None))
            return manager, Models("scripted", None, others=False)

        wanted = {"grace_s": 5, **options}
        servers.append(Server(make, Options(access=access or Access(), **wanted)))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


@pytest.fixture
def scripted(start: Start) -> Callable[..., tuple[Server, ScriptedEngine]]:
    """Starts a server whose replies are scripts, in order; also its engine, which knows what it was asked."""

    def begin(*scripts: Sequence[Step], **options: Any) -> tuple[Server, ScriptedEngine]:
        engine = ScriptedEngine(scripts)
        return start(engine, **options), engine

    return begin


_CLIENTS: list[openai.OpenAI] = []


@pytest.fixture(autouse=True)
def closed_clients() -> Generator[None]:
    """Closes the clients of a test."""
    yield
    while _CLIENTS:
        _CLIENTS.pop().close()


def client_of(server: Server, **options: Any) -> openai.OpenAI:
    """OpenAI's own client of a server, closed with the test."""
    wanted = {"api_key": "none", "max_retries": 0, **options}
    _CLIENTS.append(openai.OpenAI(base_url=f"{server.url}/v1", **wanted))
    return _CLIENTS[-1]


def http_of(server: Server, **options: Any) -> httpx.Client:
    """A plain client of a server."""
    return httpx.Client(base_url=server.url, **options)
