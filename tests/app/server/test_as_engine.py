"""Fireside's own server as the engine of a chat: what one says, the other reads."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.cli import main as cli
from app.server.security import Access
from app.server.serving import Server
from backend.chat_engine import LoadSpec, Request
from backend.engines import servers as addresses
from backend.engines.remote import RemoteEngine
from backend.types import (
    ChatOutcome,
    EngineError,
    GenerationConfig,
    Piece,
    ReasoningPiece,
    TextPiece,
    ToolCall,
)

TURN = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


@pytest.fixture
async def engine() -> AsyncIterator[RemoteEngine]:
    made = RemoteEngine(addresses.Servers())
    yield made
    await made.unload()


async def answer(engine: RemoteEngine, **fields: Any) -> list[Piece]:
    fields = {"messages": TURN, **fields}
    return [piece async for pieces in engine.submit(Request(**fields)) for piece in pieces]


async def test_text_thoughts_and_calls_come_through(scripted: Any, engine: RemoteEngine) -> None:
    calls = [ToolCall("c1", "add", {"a": 1}), ToolCall("c2", "add", {"a": 2})]
    server, _ = scripted([ReasoningPiece("so"), "Hel", "lo"], calls)
    await engine.load(LoadSpec(server.url))
    pieces = await answer(engine)
    outcome = pieces[-1]
    assert isinstance(outcome, ChatOutcome)
    assert (outcome.reasoning, outcome.text, outcome.finish) == ("so", "Hello", "stop")
    outcome = (await answer(engine, tools=[TOOL]))[-1]
    assert isinstance(outcome, ChatOutcome) and outcome.finish == "tool_calls"
    assert [(call.id, call.name, call.arguments) for call in outcome.tool_calls] == [
        ("c1", "add", {"a": 1}),
        ("c2", "add", {"a": 2}),
    ]


async def test_a_real_model_answers_alike_and_as_many_tokens_as_it_may(
    tiny_server: Server, engine: RemoteEngine
) -> None:
    await engine.load(LoadSpec(tiny_server.url))
    config = GenerationConfig(temperature=0.0, max_new_tokens=12, ignore_eos=True)
    first, second = [(await answer(engine, config=config))[-1] for _ in range(2)]
    assert isinstance(first, ChatOutcome) and isinstance(second, ChatOutcome)
    assert (first.text, first.new_tokens, first.finish) == (second.text, 12, "length")
    assert first.prompt_tokens > 0


async def test_a_key_opens_the_door(scripted: Any, engine: RemoteEngine) -> None:
    server, _ = scripted(["Hello"], access=Access(api_key="open-sesame-0123456789"))
    with pytest.raises(EngineError, match="wants a key"):
        await engine.load(LoadSpec(server.url))
    known = addresses.Server((f"{server.url}/v1",), "lab", addresses.Key(text="open-sesame-0123456789"))
    with_key = RemoteEngine(addresses.Servers({"lab": known}))
    await with_key.load(LoadSpec("server:lab"))
    pieces = await answer(with_key)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == "Hello"
    await with_key.unload()


def test_a_one_shot_is_answered_by_a_server_of_our_own(scripted: Any, capsys: Any) -> None:
    server, engine = scripted(["Hello"])
    assert cli.main(["-p", "Hi", "--server", server.url, "-s", "Be brief."]) == 0
    assert capsys.readouterr().out == "Hello\n"
    assert [turn["role"] for turn in engine.requests[0].messages] == ["system", "user"]
