"""What may be posted to a session: anything else is a 400 with a sentence, and starts no turn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.sessions.agents import Agent
from app.sessions.chat import SessionsChat
from app.sessions.errors import InvalidInputError
from app.sessions.inputs import (
    Compact,
    Input,
    Interrupt,
    Resolution,
    input_from_wire,
    input_to_wire,
    posted_message,
)
from app.sessions.items import FunctionCallOutput, Message, SlashCommand, TerminalCommand
from backend.engines.scripted import ScriptedEngine
from tests.app.sessions.conftest import MakeRoom, Room, call

EMPTY: list[Any] = [
    "",
    " \n\t",
    [],
    [{"type": "input_text", "text": ""}],
    [{"type": "input_text", "text": " "}, {"type": "text", "text": ""}],
]
WRONG: list[tuple[Any, str]] = [
    (None, "content must be a text or a list of blocks, not None"),
    (5, "content must be a text or a list of blocks, not int"),
    (True, "content must be a text or a list of blocks, not bool"),
    (b"x", "content must be a text or a list of blocks, not bytes"),
    ({"type": "input_text", "text": "x"}, "content must be a text or a list of blocks, not dict"),
    (["x"], "A content block must be an object with a type, not str"),
    ([None], "A content block must be an object with a type, not None"),
    ([["x"]], "A content block must be an object with a type, not list"),
    ([{}], "There is no content block type 'None'"),
    ([{"text": "x"}], "There is no content block type 'None'"),
    ([{"type": ["x"]}], "There is no content block type"),
    ([{"type": "levitate"}], "There is no content block type 'levitate'"),
    ([{"type": "output_text", "text": "x"}], "output_text is what a model says"),
    ([{"type": "input_text"}], "input_text needs text"),
    ([{"type": "input_text", "text": 5}], "input_text needs text"),
    ([{"type": "input_text", "text": None}], "input_text needs text"),
    ([{"type": "input_image"}], "needs a file_id"),
    ([{"type": "input_file", "file_id": 5}], "needs a file_id"),
    ([{"type": "input_text", "text": "x"}, {"type": "input_file"}], "needs a file_id"),
    ([{"type": "input_text", "text": "x"}] * 300, "at most 256 content blocks"),
]
EVENTS: list[tuple[Any, str]] = [
    (None, "An event must be an object with a type, not None"),
    (5, "An event must be an object with a type, not int"),
    ("message", "An event must be an object with a type, not str"),
    ([], "An event must be an object with a type, not list"),
    ({}, "There is no input type 'None'"),
    ({"type": None}, "There is no input type 'None'"),
    ({"type": ["message"]}, "There is no input type"),
    ({"type": "levitate", "data": {}}, "There is no input type 'levitate'"),
    ({"type": "message"}, "content must be a text or a list of blocks, not None"),
    ({"type": "message", "data": None}, "content must be a text or a list of blocks, not None"),
    ({"type": "message", "data": "hello"}, "The data of an event must be an object, not str"),
    ({"type": "message", "data": ["hello"]}, "The data of an event must be an object, not list"),
    ({"type": "interrupt", "data": 5}, "The data of an event must be an object, not int"),
    ({"type": "message", "data": {"role": "assistant", "content": "x"}}, "Only messages of the user"),
    ({"type": "message", "data": {"role": 5, "content": "x"}}, "Only messages of the user"),
    ({"type": "message", "data": {"role": None, "content": "x"}}, "Only messages of the user"),
    ({"type": "function_call_output", "data": {}}, "needs a call_id"),
    (
        {"type": "function_call_output", "data": {"call_id": "c", "output": 5}},
        "needs a call_id",
    ),
    (
        {"type": "function_call_output", "data": {"call_id": 5, "output": "x"}},
        "needs a call_id",
    ),
    ({"type": "approval", "data": {}}, "An approval needs the elicitation_id"),
    ({"type": "approval", "data": {"elicitation_id": 5}}, "An approval needs the elicitation_id"),
    ({"type": "slash_command", "data": {"kind": "command"}}, "lacks"),
    ({"type": "terminal_command", "data": {"kind": 5}}, "terminal_command.kind"),
]


async def refused(chat: Room, event: Any, told: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        await chat.manager.post_event(chat.session_id, event)
    assert told in str(raised.value), event
    assert raised.value.status_code == 400
    assert len(str(raised.value)) < 300


async def untouched(chat: Room) -> bool:
    snapshot = await chat.manager.get(chat.session_id)
    waiting = await chat.manager.queue(chat.session_id)
    return (snapshot.status, list(snapshot.items), waiting, chat.engine.requests) == ("idle", [], [], [])


async def test_an_empty_message_starts_no_turn(room: MakeRoom) -> None:
    chat = await room([])
    for content in EMPTY:
        await refused(chat, {"type": "message", "data": {"content": content}}, "The message is empty")
    assert await untouched(chat)


async def test_a_message_of_anything_else_starts_no_turn(room: MakeRoom) -> None:
    chat = await room([])
    for content, told in WRONG:
        await refused(chat, {"type": "message", "data": {"role": "user", "content": content}}, told)
    assert await untouched(chat)


async def test_an_event_that_is_none_changes_nothing(room: MakeRoom) -> None:
    chat = await room([])
    for event, told in EVENTS:
        await refused(chat, event, told)
    assert await untouched(chat)


async def test_a_message_is_edited_to_nothing_empty_or_odd_either(room: MakeRoom) -> None:
    chat = await room(["Hi."])
    first, *_ = await chat.say("hello")
    for content in (*EMPTY, 5, None):
        with pytest.raises(InvalidInputError):
            await chat.manager.edit(first.id, content)
    assert (await chat.items())[0].id == first.id
    assert len(chat.engine.requests) == 1


async def test_the_helper_raises_it_while_it_is_iterated(room: MakeRoom) -> None:
    chat = await room([])
    helper = SessionsChat.bind(chat.manager, await chat.manager.get(chat.session_id))
    for content in EMPTY:
        with pytest.raises(InvalidInputError, match="The message is empty"):
            await helper.query(content)
    wrong: Any
    for wrong in (5, None, b"x", {"type": "input_text"}, [5], [None]):
        with pytest.raises(TypeError, match="input must be a text or a list of content blocks"):
            await helper.query(wrong)
    for wrong in ({"type": "message", "data": {"content": 5}}, 5):
        with pytest.raises(InvalidInputError):
            await helper.post_event(wrong)
    for wrong in ("notes.txt", b"notes.txt", 5, [5], [None], Path("notes.txt")):
        with pytest.raises(TypeError, match="files must be a list of paths"):
            await helper.query("hello", files=wrong)
    assert await untouched(chat)


async def test_a_file_without_words_is_a_message(room: MakeRoom) -> None:
    chat = await room(["I see."])
    file = await chat.manager.files.add(chat.session_id, "a.txt", b"words")
    blocks = [{"type": "input_text", "text": ""}, {"type": "input_file", "file_id": file.id}]
    ack = await chat.manager.post_event(chat.session_id, {"type": "message", "data": {"content": blocks}})
    assert ack.queued
    assert ack.item_id


async def test_within_one_process_inputs_are_values(room: MakeRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unused(*args: Any) -> Any:
        raise AssertionError("the shape of the wire was made")

    chat = await room([call("look")], ["seen"])
    monkeypatch.setattr(chat.manager, "post_event", unused)
    agent = Agent("client", tools=({"name": "look", "runtime": "client"},))
    helper = await chat.manager.sessions_chat(agent=agent, tool_callables={"look": lambda info: "a bird"})
    assert (await helper.query("hello")).text == "seen"
    await helper.cancel()
    for wrong in (posted_message("x"), Message(role="assistant", content=({"type": "text", "text": "x"},))):
        spoiled = replace(wrong, content=()) if wrong.role == "user" else wrong
        with pytest.raises(InvalidInputError):
            await chat.manager.post(chat.session_id, spoiled)
    assert await untouched(replace(chat, engine=ScriptedEngine()))


@pytest.mark.parametrize(
    "given",
    [
        posted_message([{"type": "input_text", "text": "x"}, {"type": "input_file", "file_id": "f"}]),
        FunctionCallOutput(call_id="c", output="seen"),
        SlashCommand(kind="command", name="help"),
        TerminalCommand(kind="input", input="ls"),
        Interrupt(),
        Compact(),
        Resolution("e", {"action": "decline", "content": {"reason": "no"}}),
    ],
)
def test_what_is_written_for_the_wire_is_read_from_it(given: Input) -> None:
    wire = json.loads(json.dumps(input_to_wire(given)))
    again = input_from_wire(wire)
    assert type(again) is type(given) and input_to_wire(again)["type"] == wire["type"]
    told, read = ({**event["data"], "id": "", "created_at": 0} for event in (wire, input_to_wire(again)))
    assert told == read
