"""Whatever a str of Python may hold goes through a chat: nothing ends the turn, the store, an export, the
engine in its process."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.characters import Joiner, clean, clean_text
from app.sessions.agents import Agent
from app.sessions.events import (
    ElicitationRequestEvent,
    FunctionCallOutputDeltaEvent,
    OutputTextDeltaEvent,
    SessionEvent,
)
from app.sessions.items import FunctionCall, FunctionCallOutput, Item, Message, input_text
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.terminal.output import sanitize
from backend.chat_engine import LoadSpec, Request
from backend.engines import wire
from backend.engines.host import EngineHost
from backend.engines.scripted import ScriptedEngine
from backend.types import ChatOutcome, GenerationConfig, Piece, ReasoningPiece, TextPiece, ToolCall
from tests.app.sessions.conftest import EchoTool, Heard, MakeRoom, Room, call, listening
from tools.context import ToolContext
from tools.output import clean_text as clean_of_tools

ODD = (
    "\ud800",
    "\udfff",
    "\ud83d",
    "\ude00",
    "\ud83d\ude00",
    "\ude00\ud83d",
    "\0",
    "\udc80é",
    "\u2028",
    "\ufffe",
)
ANY = st.text(
    st.one_of(st.characters(exclude_categories=()), st.sampled_from("\ud800\udfff\ud83d\ude00\0")),
    max_size=12,
)
OPTIONS = {"slots": 1, "threads": 1, "max_seq": 2048, "tool_call_format": "generic"}
PAIRS = "grinning \ud83d\ude00 in two halves"


def encodes(value: Any) -> bool:
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return True


@given(text=ANY)
@example(PAIRS)
def test_the_doors_of_the_three_rooms_are_one(text: str) -> None:
    cleaned = clean_text(text)
    assert cleaned.encode().decode() == cleaned == clean_text(cleaned)
    assert clean_of_tools(text) == clean_text(text) == cleaned
    assert json.loads(wire.dumps({"text": text})) == {"text": cleaned}
    assert len(cleaned.replace("\ufffd", "")) <= len(text)
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert cleaned is text
    assert sanitize(text).encode().decode() == sanitize(text)


@given(pieces=st.lists(ANY, max_size=5))
def test_a_pair_in_two_pieces_is_one_character(pieces: list[str]) -> None:
    door = Joiner()
    told = [door.feed(piece) for piece in pieces] + [door.end()]
    assert "".join(told) == clean_text("".join(pieces))
    assert encodes(told)


@given(
    value=st.recursive(
        ANY | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)
    )
)
def test_whole_values_pass_it_keys_too(value: Any) -> None:
    cleaned = clean(value)
    assert encodes(cleaned) and clean(cleaned) is cleaned


class Wired(ScriptedEngine):
    """Hears and says everything through the lines that an engine in its own process has."""

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        async for pieces in super().submit(wire.loads(wire.dumps(request))):
            yield pieces


async def answer(
    manager: SessionManager, session_id: str, heard: Heard, result: dict[str, Any], count: int
) -> None:
    event = await heard.kind(ElicitationRequestEvent, count=count)
    await manager.resolve_elicitation(session_id, event.elicitation_id, result)


async def everywhere(text: str, folder: Path) -> None:
    """One chat with `text` in every place that takes one."""

    async def act(arguments: dict[str, Any], context: ToolContext) -> str:
        context.progress(text)
        context.progress(text[:1])
        if "fail" in arguments:
            raise RuntimeError(text)
        return text

    engine = Wired(
        [
            [
                ReasoningPiece(text),
                TextPiece(text),
                TextPiece(text[:1]),
                call(a=text, **{f"k{text}": [text]}),
            ],
            [ToolCall(f"id{text}", f"no{text}", {"a": text})],
            [ToolCall("c3", "echo", {}, f'{{"a": "{text}', f"broken {text}")],
            [call(call_id="c4", a=1)],
            [ToolCall("c5", "echo", {"a": json.loads('"\\ud800"')})],
            [call(call_id="c6", fail=1)],
            [text],
        ]
    )
    tool = EchoTool(effect="write", action=act, description=text)
    path = folder / "chats.db"
    agent = Agent(f"odd{text}", instructions=text)
    manager = SessionManager(engine=engine, store=Store(path), tools=[tool], workspace=folder)
    async with manager:
        made = await manager.create(agent, title=text or None, labels={"l": text})
        async with listening(manager, made.id) as heard:
            await manager.rename(made.id, text or None)
            await manager.set_draft(made.id, text)
            data = {"role": "user", "content": [input_text(text), input_text("x")]}
            await manager.post_event(made.id, {"type": "message", "data": data})
            edited = {"action": "accept", "content": {"arguments": {"a": text, text: text}}}
            await answer(manager, made.id, heard, edited, 1)
            await answer(manager, made.id, heard, {"action": "decline", "content": {"reason": text}}, 2)
            saved = {"action": "accept", "content": {"scope": "always"}}
            await answer(manager, made.id, heard, saved, 3)
            await answer(manager, made.id, heard, {"action": "accept"}, 4)
            await heard.status("idle", "failed")
        ended = [event for event in heard.events if event.type.startswith("response.complet")]
        assert len(ended) == 1 and not any(event.type == "response.failed" for event in heard.events)
        for event in heard.events:
            assert encodes(event.to_wire())
        items = await manager.list_items(made.id, limit=100)
        check_items(items, text)
        await manager.search(text)
        await manager.queue(made.id)
        assert encodes((await manager.get(made.id)).draft) and encodes(await manager.rules())
        assert encodes([vars(entry) for entry in await manager.ledger.audit(made.id)])
        await manager.preview(made.id, text)
        await manager.context(made.id, text)
        for kind in ("jsonl", "markdown", "html"):
            assert (await manager.export(made.id, kind)).encode()
        exported = folder / "out.jsonl"
        exported.write_text(await manager.export(made.id), encoding="utf-8", newline="")
        [taken] = await manager.import_(exported)
        assert len(await manager.list_items(taken, limit=100)) == len(items)
    again = Store(path)
    record = await again.session(made.id)
    assert await again.branch(record.leaf_id) == items
    assert record.draft == clean_text(text)
    await again.close()
    deltas(heard.events, text)


def check_items(items: list[Item], text: str) -> None:
    assert encodes([item.to_wire() for item in items])
    user = next(item for item in items if isinstance(item, Message) and item.role == "user")
    assert user.text == clean_text(text) + "x"
    calls = [item for item in items if isinstance(item, FunctionCall)]
    results = [item for item in items if isinstance(item, FunctionCallOutput)]
    assert len(calls) == len(results) == 6
    assert json.loads(calls[0].approved_arguments or "")["a"] == clean_text(text)
    assert results[0].output == clean_text(text)
    said = [item for item in items if isinstance(item, Message) and item.role == "assistant"]
    assert said[0].text == clean_text(text + text[:1])


def deltas(events: list[SessionEvent], text: str) -> None:
    """What was told in pieces is what was kept."""
    told: dict[str, str] = {}
    for event in events:
        if isinstance(event, OutputTextDeltaEvent) and event.message_id:
            told[event.message_id] = told.get(event.message_id, "") + event.delta
    assert clean_text(text + text[:1]) in [*told.values(), ""]
    assert encodes([event.delta for event in events if isinstance(event, FunctionCallOutputDeltaEvent)])


@settings(max_examples=12, deadline=None)
@given(text=ANY)
@example(PAIRS)
@example("\ud83d")
@example("\ude00")
@example("\0")
def test_a_chat_takes_any_text_everywhere(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(everywhere(text, Path(folder)))


async def test_a_pair_that_two_escapes_write_is_one_character(room: MakeRoom) -> None:
    tool = EchoTool()
    raw = r'{"a": "\ud83d\ude00", "b": "\ud83d", "\ude00": 1}'
    chat = await room([ToolCall("c1", "echo", json.loads(raw))], ["ok"], tools=[tool])
    await chat.say()
    assert tool.calls == [{"a": "\U0001f600", "b": "\ufffd", "\ufffd": 1}]
    sent = json.loads(chat.sent[1][1]["tool_calls"][0]["function"]["arguments"])
    assert sent == tool.calls[0]


async def test_escapes_of_a_call_that_could_not_be_read_reach_no_model(room: MakeRoom) -> None:
    bad = ToolCall("c1", "echo", {}, r'{"a": "\ud800"}', "a is wrong")
    chat = await room([bad], ["ok"], tools=[EchoTool()])
    await chat.say()
    assert json.loads(chat.sent[1][1]["tool_calls"][0]["function"]["arguments"]) == {"a": "\ufffd"}


async def test_arguments_without_a_bottom_end_no_turn(room: MakeRoom) -> None:
    deep = "[" * 5000 + "]" * 5000
    for error in (None, "odd"):
        nested: Any = []
        for _ in range(300):
            nested = [nested]
        bad = ToolCall("c1", "echo", {"a": nested}, f'{{"a": {deep}}}', error)
        chat: Room = await room([bad], ["ok"], tools=[EchoTool(effect="write")])
        await chat.say()
        [found] = [item for item in await chat.items() if isinstance(item, FunctionCallOutput)]
        assert found.is_error and (await chat.manager.get(chat.session_id)).status == "idle"


async def test_a_file_with_a_name_that_is_no_text_is_kept(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room(["ok"])
    file = await chat.manager.files.add(chat.session_id, "caf\udce9.txt", b"x")
    assert file.name == "caf\ufffd.txt"
    block = {"type": "input_file", "file_id": file.id, "filename": "caf\udce9.txt"}
    data = {"role": "user", "content": [input_text("look"), block]}
    await chat.manager.post_event(chat.session_id, {"type": "message", "data": data})
    async with listening(chat.manager, chat.session_id) as heard:
        await heard.status("idle", "failed")
    assert encodes([item.to_wire() for item in await chat.items()])


@pytest.mark.timeout(60)
async def test_the_engine_in_its_process_survives(tiny_llama: Path, tmp_path: Path) -> None:
    host = EngineHost(log=tmp_path / "engine.log")
    await host.load(LoadSpec(str(tiny_llama), OPTIONS))
    config = GenerationConfig(temperature=0.0, max_new_tokens=4, ignore_eos=True)
    try:
        for odd in (*ODD, "".join(ODD)):
            asked = {
                "id": odd,
                "type": "function",
                "function": {"name": odd, "arguments": json.dumps({odd: odd})},
            }
            messages = [
                {"role": "system", "content": odd},
                {"role": "user", "content": odd},
                {"role": "assistant", "content": odd, "tool_calls": [asked]},
                {"role": "tool", "tool_call_id": odd, "name": odd, "content": odd},
            ]
            parameters = {"type": "object", "properties": {odd: {"type": "string", "description": odd}}}
            tools = [
                {"type": "function", "function": {"name": "f", "description": odd, "parameters": parameters}}
            ]
            asked_for = Request(messages=messages, tools=tools, config=config)
            pieces = [piece async for several in host.submit(asked_for) for piece in several]
            assert isinstance(pieces[-1], ChatOutcome)
    finally:
        await host.unload()
