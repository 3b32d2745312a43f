"""Checked first, then asked: a call that cannot run is told to the model and asks nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator

from app.sessions.agents import Agent
from app.sessions.events import (
    ClientTaskCancelEvent,
    ElicitationRequestEvent,
    OutputItemDoneEvent,
    PolicyDeniedEvent,
    SessionNoticeEvent,
)
from app.sessions.items import FunctionCall, FunctionCallOutput
from backend.types import ToolCall
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening
from tools.definition import Tool, tool

MODES = ("ask", "read", "all", "plan")
FILES = "read_file,write_file,edit_file,list_files,run_shell,run_python,search_text,fetch_page"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "ws"
    found.mkdir()
    (found / "a.txt").write_text("one\ntwo\n")
    (found / "sub").mkdir()
    return found


async def outputs(chat: Room) -> list[FunctionCallOutput]:
    return [item for item in await chat.items() if isinstance(item, FunctionCallOutput)]


async def unasked(chat: Room) -> FunctionCallOutput:
    """The result of one call that nobody may be asked about."""
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.until(
            lambda event: (
                isinstance(event, ElicitationRequestEvent)
                or (event.type == "session.status" and getattr(event, "status", "") in ("idle", "failed"))
            )
        )
    assert not any(isinstance(event, ElicitationRequestEvent | PolicyDeniedEvent) for event in heard.events)
    assert (await chat.manager.get(chat.session_id)).status == "idle"
    [found] = await outputs(chat)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read_file", {}, "path is missing"),
        ("read_file", {"path": 7.5, "lines": 3}, "lines is not a parameter"),
        ("read_file", {"path": "none.txt"}, "There is no none.txt"),
        ("read_file", {"path": "sub"}, "not a regular file"),
        ("read_file", {"path": "a.txt/b"}, "a.txt"),
        ("list_files", {"path": "a.txt"}, "a file"),
        ("search_text", {"text": ""}, "no text to look for"),
    ],
)
async def test_a_reading_call_that_cannot_run_asks_nobody(
    room: MakeRoom, folder: Path, mode: str, name: str, arguments: dict[str, Any], said: str
) -> None:
    chat = await room([ToolCall("c1", name, arguments)], ["ok"], tools=FILES, workspace=folder, approve=mode)
    found = await unasked(chat)
    assert said in found.output or mode in ("read", "all", "plan")
    assert found.is_error and not found.denied


@pytest.mark.parametrize("mode", ["ask", "read", "all"])
@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("write_file", {"path": "b.txt"}, "content is missing"),
        ("write_file", {"path": "sub", "content": ""}, "is a folder"),
        ("write_file", {"path": "a.txt/b", "content": ""}, "a file"),
        ("write_file", {"path": "b.txt", "content": ["x"]}, "content"),
        ("edit_file", {"path": "no.txt", "old_text": "a", "new_text": "b"}, "There is no file no.txt"),
        (
            "edit_file",
            {"path": "a.txt", "old_text": "three", "new_text": "b"},
            "a.txt does not contain old_text",
        ),
        ("edit_file", {"path": "a.txt", "old_text": "o", "new_text": "b"}, "2 times"),
        ("run_shell", {"command": " "}, "empty"),
        ("run_shell", {"command": "ls", "network": "perhaps"}, "network"),
        ("run_python", {"code": ""}, "empty"),
        ("fetch_page", {"url": "ftp://x"}, "http"),
        ("nothing_of_ours", {}, "No tool named"),
    ],
)
async def test_a_call_that_cannot_run_asks_nobody(
    room: MakeRoom, folder: Path, mode: str, name: str, arguments: dict[str, Any], said: str
) -> None:
    chat = await room([ToolCall("c1", name, arguments)], ["ok"], tools=FILES, workspace=folder, approve=mode)
    found = await unasked(chat)
    assert said in found.output and found.is_error and not found.denied
    assert "JSON" not in found.output
    assert chat.sent[1][-1]["content"] == found.output


@pytest.mark.parametrize(
    ("error", "raw"),
    [
        ("the call is malformed: its brackets or quotes are not closed", "{'a': "),
        ("n must be integer, not string", '{"n": "x"}'),
        (None, "null"),
        (None, '{"n": 1e999}'),
    ],
)
async def test_what_the_engine_could_not_read_is_told_in_words_that_fit(
    room: MakeRoom, error: str | None, raw: str
) -> None:
    @tool(does="write")
    def keep(n: float) -> None: ...

    arguments = {} if error else {"n": json.loads(raw)["n"]} if raw != "null" else {"n": None}
    chat = await room([ToolCall("c1", "keep", arguments, raw, error)], ["ok"], tools=[keep])
    found = await unasked(chat)
    assert found.is_error and "JSON" not in found.output and "keep" in found.output
    assert error is None or error in found.output


def mcp_like() -> Tool:
    async def run(arguments: dict[str, Any]) -> str:
        return "ran"

    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}
    return Tool("far_away", run, frozenset(("execute",)), summary="x", schema_override=schema, source="MCP x")


@pytest.mark.parametrize("arguments", [{}, {"n": "1"}, {"n": 0}, {"n": [1]}, {"n": float("inf")}])
@pytest.mark.parametrize("kind", ["mcp", "session tool", "client tool"])
async def test_tools_that_are_not_ours_are_checked_by_their_schema(
    room: MakeRoom, kind: str, arguments: dict[str, Any]
) -> None:
    made = mcp_like()
    entry = {"type": "function", "name": "far_away", "description": "x", "parameters": made.parameters}
    own = EchoTool(name="far_away", effect="execute", parameters=made.parameters)
    options: dict[str, Any] = {"mcp": {"tools": [made]}, "session tool": {"tools": [own]}}.get(
        kind, {"agent": Agent("client", tools=({**entry, "runtime": "client"},))}
    )
    chat = await room([ToolCall("c1", "far_away", arguments)], ["ok"], **options)
    found = await unasked(chat)
    assert found.is_error and "n" in found.output and "far_away" in found.output
    assert own.calls == []


async def test_arguments_that_are_not_asked_about_reach_no_client(room: MakeRoom) -> None:
    entry = {"name": "look", "parameters": {"type": "object", "required": ["n"]}, "runtime": "client"}
    chat = await room([call("look")], ["ok"], agent=Agent("client", tools=(entry,)))
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.status("idle")
    told = [event.item for event in heard.events if isinstance(event, OutputItemDoneEvent)]
    assert not any(item.status == "action_required" for item in told)
    assert not any(isinstance(event, ClientTaskCancelEvent) for event in heard.events)


async def test_what_is_shown_decided_kept_and_run_is_one_value(room: MakeRoom) -> None:
    took: list[Any] = []

    @tool(does="execute")
    def launch(command: str, network: bool = False, times: int = 1) -> str:
        took.append((command, network, times))
        return "done"

    written = {"command": "ls", "network": "true", "times": "2"}
    chat = await room([ToolCall("c1", "launch", written)], ["ok"], tools=[launch])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        event = await heard.kind(ElicitationRequestEvent)
        assert event.params["arguments"] == {"command": "ls", "network": True, "times": 2}
        assert "network │ true" in event.params["preview"]
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, {"action": "accept"})
        await heard.status("idle")
    assert took == [("ls", True, 2)]
    [entry] = await chat.manager.ledger.audit(chat.session_id)
    assert json.loads(entry.arguments) == {"command": "ls", "network": True, "times": 2}


async def test_a_rule_made_of_one_spelling_covers_the_other(room: MakeRoom) -> None:
    @tool(does="write")
    def keep(n: int) -> str:
        return str(n)

    calls = [[ToolCall(f"c{number}", "keep", {"n": n})] for number, n in enumerate(("1", 1, "1 ", 1.0))]
    chat = await room(*[step for one in calls for step in (one, ["ok"])], tools=[keep])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        event = await heard.kind(ElicitationRequestEvent)
        answer = {"action": "accept", "content": {"scope": "session"}}
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, answer)
        await heard.status("idle")
        for number in range(2, 5):
            await chat.post("again")
            await heard.status("idle", count=number)
    assert sum(isinstance(event, ElicitationRequestEvent) for event in heard.events) == 1
    assert [item.output for item in await outputs(chat)] == ["1"] * 4


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        ({"path": "a.txt"}, "content is missing"),
        ({"path": "a.txt", "content": "x", "more": 1}, "more is not a parameter"),
        ({"path": "sub", "content": "x"}, "is a folder"),
        ({"path": "", "content": "x"}, "1 to 4,096"),
        ([], "not an object"),
        ("rm", "not an object"),
    ],
)
async def test_edited_arguments_that_cannot_run_are_told_to_the_person(
    room: MakeRoom, folder: Path, edited: Any, said: str
) -> None:
    asked = {"path": "new.txt", "content": "x"}
    chat = await room([ToolCall("c1", "write_file", asked)], ["ok"], tools="write_file", workspace=folder)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        event = await heard.kind(ElicitationRequestEvent)
        answer = {"action": "accept", "content": {"arguments": edited}}
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, answer)
        notice = await heard.kind(SessionNoticeEvent)
        await heard.status("idle")
    assert said in notice.message
    [found] = await outputs(chat)
    assert found.denied and said in found.output
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "sub"]


async def test_edited_arguments_are_converted_too(room: MakeRoom) -> None:
    took: list[Any] = []

    @tool(does="write")
    def keep(n: int) -> None:
        took.append(n)

    chat = await room([ToolCall("c1", "keep", {"n": 1})], ["ok"], tools=[keep])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        event = await heard.kind(ElicitationRequestEvent)
        answer = {"action": "accept", "content": {"arguments": {"n": "2"}}}
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, answer)
        await heard.status("idle")
    stored = next(item for item in await chat.items() if isinstance(item, FunctionCall))
    assert json.loads(stored.approved_arguments or "") == {"n": 2} and took == [2]


async def test_a_workspace_that_is_gone_or_a_file_asks_nobody(room: MakeRoom, folder: Path) -> None:
    write = ToolCall("c1", "write_file", {"path": "b", "content": ""})
    chat = await room([write], ["ok"], tools="write_file", workspace=folder / "a.txt")
    assert "not a folder" in (await unasked(chat)).output
    gone = await room([write], ["ok"], tools="write_file", workspace=folder / "gone")
    assert "cannot be used" in (await unasked(gone)).output
    none = await room([write], ["ok"], tools="write_file")
    assert "no workspace" in (await unasked(none)).output


def broken(value: Any) -> Any:
    raise RuntimeError("no such luck")


@tool(does="write")
def unlucky(n: Annotated[int, BeforeValidator(broken)]) -> None: ...


async def test_a_type_that_fails_in_its_own_way_is_an_answer_too(room: MakeRoom) -> None:
    chat = await room([ToolCall("c1", "unlucky", {"n": 1})], ["ok"], tools=[unlucky])
    assert "no such luck" in (await unasked(chat)).output


async def test_where_everything_is_refused_that_is_the_answer(room: MakeRoom, folder: Path) -> None:
    call = ToolCall("c1", "write_file", {})
    chat = await room([call], ["ok"], tools="write_file", workspace=folder, approve="none")
    await chat.say()
    [found] = await outputs(chat)
    assert found.denied and "refused" in found.output
