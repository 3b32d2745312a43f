"""What is allowed holds as it is now: in a running turn, for open questions, at the very start of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sessions.events import ElicitationRequestEvent, ElicitationResolvedEvent, PolicyDeniedEvent
from app.sessions.items import FunctionCallOutput
from app.sessions.tools_adapter import ToolsAdapter
from app.sessions.turn.live import LiveSession
from app.sessions.turn.toolbox import MODES, bounded, is_as_wide
from backend.engines.scripted import Pause
from backend.types import ToolCall
from tests.app.sessions.conftest import EchoTool, Heard, MakeRoom, Room, call, listening
from tools.context import ToolContext
from tools.definition import tool
from tools.permission.rules import Mode


async def outputs(chat: Room) -> list[FunctionCallOutput]:
    return [item for item in await chat.items() if isinstance(item, FunctionCallOutput)]


async def configure(chat: Room, **changes: Any) -> None:
    await chat.manager.configure(chat.session_id, **changes)


def tighten(live: LiveSession) -> None:
    """As `configure` does, between two steps of the event loop."""
    live.record = replace(live.record, settings={**live.record.settings, "approve": "plan"})
    live.services.changes.tell()


NARROWINGS: list[tuple[str, dict[str, Any]]] = [
    ("all", {"approve": "plan"}),
    ("all", {"approve": "none"}),
    ("read", {"approve": "plan"}),
    ("ask", {"approve": "plan"}),
    ("ask", {"approve": "none"}),
    ("all", {"tools": ["other"]}),
    ("ask", {"tools": []}),
]


@pytest.mark.parametrize(("before", "change"), NARROWINGS)
async def test_a_reply_that_runs_obeys_the_tighter_mode(
    room: MakeRoom, before: str, change: dict[str, Any]
) -> None:
    """The mode changes while the model writes, before it calls."""
    tool, other = EchoTool(effect="write"), EchoTool(name="other", effect="read")
    written = asyncio.Event()
    steps = ["I will", Pause(until=written), call(a=1)]
    chat = await room(steps, ["ok"], tools=[tool, other], approve=before)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.until(lambda event: event.type == "response.output_text.delta")
        await configure(chat, **change)
        written.set()
        await heard.status("idle")
    assert tool.calls == []
    [found] = await outputs(chat)
    assert found.denied and "refused" in found.output
    assert any(isinstance(event, PolicyDeniedEvent) for event in heard.events)
    assert not any(isinstance(event, ElicitationRequestEvent) for event in heard.events)
    # The next round of the same turn is asked with what holds now.
    offered = {one["function"]["name"] for one in chat.engine.requests[1].tools}
    assert "echo" not in offered or change.get("approve") == "none"


async def test_the_next_round_of_a_turn_is_told_that_it_plans(room: MakeRoom) -> None:
    async def look(arguments: dict[str, Any], context: ToolContext) -> str:
        await configure(rooms[0], approve="plan")
        return "seen"

    rooms: list[Room] = []
    tools = [EchoTool(name="look", effect="read", action=look), EchoTool(effect="write")]
    chat = await room([call("look")], [call("echo", "c2")], ["ok"], tools=tools, approve="all")
    rooms.append(chat)
    await chat.say()
    assert "planning" not in str(chat.sent[0]) and "planning" in str(chat.sent[1][0])
    assert [one["function"]["name"] for one in chat.engine.requests[1].tools] == ["look"]
    assert tools[1].calls == [] and (await outputs(chat))[-1].denied


@pytest.mark.parametrize(("before", "change"), NARROWINGS[3:5] + NARROWINGS[6:])
async def test_an_open_question_is_answered_by_the_mode(
    room: MakeRoom, before: str, change: dict[str, Any]
) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1), call(call_id="c2", a=2)], ["ok"], tools=[tool], approve=before)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        asked = await heard.kind(ElicitationRequestEvent, count=2)
        await configure(chat, **change)
        await heard.kind(ElicitationResolvedEvent, count=2)
        await heard.status("idle")
        # A late yes changes nothing.
        await chat.manager.resolve_elicitation(chat.session_id, asked.elicitation_id, {"action": "accept"})
    assert tool.calls == [] and all(item.denied for item in await outputs(chat))
    assert (await chat.manager.get(chat.session_id)).pending_elicitations == []


async def test_a_question_that_the_tighter_mode_still_asks_stays_open(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], tools=[tool], approve="read")
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        asked = await heard.kind(ElicitationRequestEvent)
        await configure(chat, approve="ask")
        await configure(chat, tools=["ec*"])
        assert (await chat.manager.get(chat.session_id)).pending_elicitations
        await chat.manager.resolve_elicitation(chat.session_id, asked.elicitation_id, {"action": "accept"})
        await heard.status("idle")
    assert tool.calls == [{"a": 1}]


async def test_a_wider_mode_counts_from_the_next_call(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], [call(call_id="c2", a=2)], ["ok"], tools=[tool])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        asked = await heard.kind(ElicitationRequestEvent)
        await configure(chat, approve="all")
        assert tool.calls == [] and (await chat.manager.get(chat.session_id)).pending_elicitations
        await chat.manager.resolve_elicitation(chat.session_id, asked.elicitation_id, {"action": "decline"})
        await heard.status("idle")
    assert tool.calls == [{"a": 2}]
    assert sum(isinstance(event, ElicitationRequestEvent) for event in heard.events) == 1


async def test_an_accept_that_comes_with_the_tighter_mode_runs_nothing(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], tools=[tool])
    live = await chat.manager.live(chat.session_id)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        asked = await heard.kind(ElicitationRequestEvent)
        # Answered, and refused before whoever waits for the answer has looked.
        live.elicitations.resolve(asked.elicitation_id, {"action": "accept"})
        tighten(live)
        await heard.status("idle")
    assert tool.calls == [] and (await outputs(chat))[0].denied


# ---- the moment of running -----------------------------------------------------------------


async def late(
    chat: Room, monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any], act: Callable[[Heard], Any]
) -> None:
    """Let something change after the decision was written down, before the call begins."""
    ledger, add = chat.manager.ledger, chat.manager.ledger.add

    async def after(rule: Any, entry: Any) -> None:
        await add(rule, entry)
        await change()

    monkeypatch.setattr(ledger, "add", after)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await act(heard)
        await heard.status("idle")


async def nothing(heard: Heard) -> None:
    return


@pytest.mark.parametrize(
    ("before", "change", "runs"),
    [
        ("all", {"approve": "plan"}, False),
        ("all", {"approve": "none"}, False),
        ("all", {"approve": "ask"}, False),
        ("all", {"tools": []}, False),
        ("all", {"approve": "all"}, True),
    ],
)
async def test_what_changes_after_the_decision_is_seen_at_the_start(
    room: MakeRoom, monkeypatch: pytest.MonkeyPatch, before: str, change: dict[str, Any], runs: bool
) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], tools=[tool], approve=before)
    await late(chat, monkeypatch, lambda: configure(chat, **change), nothing)
    assert bool(tool.calls) == runs
    assert ((await outputs(chat))[0].denied is None) == runs


async def test_a_person_s_yes_outlives_what_narrows_something_else(
    room: MakeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], tools=[tool], approve="read")

    async def accept(heard: Heard) -> None:
        asked = await heard.kind(ElicitationRequestEvent)
        await chat.manager.resolve_elicitation(chat.session_id, asked.elicitation_id, {"action": "accept"})

    await late(chat, monkeypatch, lambda: configure(chat, approve="ask"), accept)
    assert tool.calls == [{"a": 1}]


async def test_a_rule_that_is_revoked_runs_nothing_more(
    room: MakeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], [call(call_id="c2", a=1)], ["ok"], tools=[tool])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        asked = await heard.kind(ElicitationRequestEvent)
        answer = {"action": "accept", "content": {"scope": "session"}}
        await chat.manager.resolve_elicitation(chat.session_id, asked.elicitation_id, answer)
        await heard.status("idle")
    [rule] = await chat.manager.rules(chat.session_id)
    await late(chat, monkeypatch, lambda: chat.manager.revoke(rule["id"]), nothing)
    assert len(tool.calls) == 1 and (await outputs(chat))[-1].denied


async def test_a_tool_that_is_still_getting_ready_does_not_begin(
    room: MakeRoom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last look is right before its own code: its workspace and sandbox take a while to find."""
    chat = await room(
        [ToolCall("c1", "write_file", {"path": "a", "content": "x"})],
        ["ok"],
        tools="write_file",
        workspace=tmp_path,
        approve="all",
    )
    live = await chat.manager.live(chat.session_id)
    folder = ToolsAdapter.folder

    def narrowing(self: ToolsAdapter, name: str) -> Path | None:
        tighten(live)
        return folder(self, name)

    monkeypatch.setattr(ToolsAdapter, "folder", narrowing)
    await chat.say()
    assert not (tmp_path / "a").exists()
    [found] = await outputs(chat)
    assert found.denied and "planning" in found.output


# ---- children ------------------------------------------------------------------------------


async def test_a_child_never_has_more_than_its_parent_has_now(room: MakeRoom) -> None:
    begun, changed = asyncio.Event(), asyncio.Event()

    async def hand_on(arguments: dict[str, Any], context: ToolContext) -> str:
        assert context.delegation is not None
        return await context.delegation.start("do it", (), 60, context)

    async def look(arguments: dict[str, Any], context: ToolContext) -> str:
        begun.set()
        await changed.wait()
        return "seen"

    tools = [
        EchoTool(name="hand_on", action=hand_on),
        EchoTool(name="look", effect="read", action=look),
        EchoTool(effect="write"),
    ]
    chat = await room(
        [call("hand_on")], [call("look", "c2")], [call("echo", "c3")], ["child done"], ["done"],
        tools=tools, approve="all",
    )  # fmt: skip
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await begun.wait()
        await configure(chat, approve="plan")
        changed.set()
        await heard.status("idle")
    assert tools[2].calls == []
    assert [one["function"]["name"] for one in chat.engine.requests[2].tools] == ["hand_on", "look"]
    [child] = (await chat.manager.live(chat.session_id)).services.children.of(chat.session_id)
    assert child.settings.approve == "plan"
    await chat.manager.configure(child.id, approve="all")
    assert (await chat.manager.settings(child.id))["approve"]["value"] == "plan"


async def test_a_question_of_a_child_falls_with_the_right_of_its_parent(room: MakeRoom) -> None:
    async def hand_on(arguments: dict[str, Any], context: ToolContext) -> str:
        assert context.delegation is not None
        return await context.delegation.start("do it", (), 60, context)

    tools = [EchoTool(name="hand_on", action=hand_on), EchoTool(effect="write")]
    chat = await room([call("hand_on")], [call("echo", "c2")], ["no"], ["done"], tools=tools)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(ElicitationRequestEvent)
        await configure(chat, tools=["hand_on"])
        await heard.kind(ElicitationResolvedEvent)
        await heard.status("idle")
    assert tools[1].calls == []


@given(own=st.sampled_from(MODES), above=st.sampled_from(MODES))
def test_a_mode_below_another_never_allows_more(own: Mode, above: Mode) -> None:
    found = bounded(own, above)
    assert is_as_wide(above, found)
    assert is_as_wide(own, found) or (own, above) == ("ask", "plan")
    assert bounded(own, own) == own and bounded(own, "all") == own


async def test_what_planning_withholds_is_told_as_refused(room: MakeRoom) -> None:
    @tool(does="write")
    def keep(n: int) -> None: ...

    unread = ToolCall("c2", "keep", {}, "{", "there is no tool named 'keep'; offered: none")
    chat = await room(
        [ToolCall("c1", "keep", {"n": "wrong"}), unread, ToolCall("c3", "none_such", {})],
        ["ok"],
        tools=[keep],
        approve="plan",
    )
    await chat.say()
    found = {item.call_id: item for item in await outputs(chat)}
    assert found["c1"].denied and found["c2"].denied and "planning" in found["c1"].output
    assert found["c3"].is_error and not found["c3"].denied
