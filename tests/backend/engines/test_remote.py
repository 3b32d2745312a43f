"""A model of a server as an engine: over a real connection to a server that says what a test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from backend.chat_engine import LoadSpec, Request
from backend.engines.remote import RemoteEngine
from backend.engines.servers import Server, Servers
from backend.types import (
    ChatOutcome,
    GenerationConfig,
    ModelLoadError,
    Piece,
    ReasoningPiece,
    TextPiece,
)
from tests.backend.engines.scripted_server import ScriptedServer, json_reply, says

TURN = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("toy", "other") as made:
        yield made


_ENGINES: list[RemoteEngine] = []


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Every engine of a test is unloaded at its end."""
    yield
    while _ENGINES:
        await _ENGINES.pop().unload()


async def loaded(server: ScriptedServer, model: str = "", **fields: Any) -> RemoteEngine:
    one = Server((f"{server.url}/v1",), **fields)
    engine = RemoteEngine(Servers(chosen=one))
    _ENGINES.append(engine)
    await engine.load(LoadSpec(one.source_of(model)))
    return engine


async def answer(engine: RemoteEngine, request: Request | None = None, **config: Any) -> list[Piece]:
    request = request or Request(messages=TURN, config=GenerationConfig(**config))
    return [piece async for pieces in engine.submit(request) for piece in pieces]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def outcome_of(pieces: list[Piece]) -> ChatOutcome:
    assert isinstance(pieces[-1], ChatOutcome)
    return pieces[-1]


async def test_a_reply_is_streamed_and_ends_with_its_outcome(server: ScriptedServer) -> None:
    server.chat(says("Hel", "lo ", "you"))
    engine = await loaded(server)
    pieces = await answer(engine)
    outcome = outcome_of(pieces)
    assert text_of(pieces) == outcome.text == "Hello you"
    assert (outcome.finish, outcome.prompt_tokens, outcome.new_tokens) == ("stop", 21, 5)
    assert server.bodies[0]["model"] == "toy" and server.bodies[0]["stream"] is True
    await engine.unload()
    assert engine.closed


async def test_the_first_model_is_used_or_the_named_one_and_no_other(server: ScriptedServer) -> None:
    assert (await loaded(server)).card.model_id == "toy"
    assert (await loaded(server, "other")).card.model_id == "other"
    with pytest.raises(ModelLoadError, match="has no model 'nobody'") as caught:
        await loaded(server, "nobody")
    assert "toy, other" in caught.value.remedy


async def test_a_thought_in_the_text_is_told_as_thought(server: ScriptedServer) -> None:
    server.chat(says("<th", "ink>\nso", "</thi", "nk>\n\nYes"))
    pieces = await answer(await loaded(server))
    thought = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece))
    assert (thought, text_of(pieces)) == ("so", "Yes")


async def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    engine = RemoteEngine(Servers())
    with pytest.raises(ModelLoadError, match="cannot be reached: nothing answers there") as caught:
        await engine.load(LoadSpec("http://127.0.0.1:9"))
    assert caught.value.cause == "unreachable"
    assert engine.closed


async def test_what_is_not_known_is_said_to_be_unknown(server: ScriptedServer) -> None:
    card = (await loaded(server)).card
    assert (card.max_seq, card.parameters, card.quantization) == (0, 0, "")
    server.replies["/v1/models"] = [json_reply({"data": [{"id": "toy", "max_model_len": 4096}]})]
    assert (await loaded(server)).card.max_seq == 4096
