"""Section 5 of the contract: questions fail closed, and an answer allows exactly what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.sessions.errors import FiresideError
from app.sessions.events import (
    ElicitationRequestEvent,
    ElicitationResolvedEvent,
    PolicyDeniedEvent,
    ResponseCancelledEvent,
)
from app.sessions.items import FunctionCall, FunctionCallOutput
from app.sessions.turn.elicit import read_answer
from tests.app.sessions.conftest import EchoTool, Heard, MakeRoom, Room, call, listening
from tools.context import Form, ToolContext


async def ask(chat: Room, heard: Heard, result: dict[str, Any], *, count: int = 1) -> dict[str, Any]:
    """Wait for the next question and answer it; returns its parameters."""
    event: ElicitationRequestEvent = await heard.kind(ElicitationRequestEvent, count=count)
    await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, result)
    return event.params


async def one_call(chat: Room, result: dict[str, Any]) -> tuple[Heard, dict[str, Any]]:
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        params = await ask(chat, heard, result)
        await heard.status("idle")
    return heard, params


async def output_of(chat: Room) -> FunctionCallOutput:
    return [item for item in await chat.items() if isinstance(item, FunctionCallOutput)][-1]


async def test_a_call_that_writes_is_asked_about_and_shown_whole(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(text="x" * 3000)], ["ok"], tools=[tool])
    heard, params = await one_call(chat, {"action": "accept"})
    assert tool.calls == [{"text": "x" * 3000}]
    assert params["phase"] == "tool_call" and params["tool"] == "echo"
    assert params["arguments"] == {"text": "x" * 3000} and "x" * 3000 in params["preview"]
    assert len(params["content_preview"]) < 1100
    assert isinstance(await heard.kind(ElicitationResolvedEvent), ElicitationResolvedEvent)


@pytest.mark.parametrize(
    "result",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "ACCEPT"},
        {"action": "yes", "content": {"scope": "always"}},
        {},
        {"action": None},
        {"action": ["accept"]},
    ],
)
async def test_anything_but_an_exact_accept_refuses(room: MakeRoom, result: dict[str, Any]) -> None:
    tool = EchoTool(effect="execute")
    chat = await room([call()], ["I see"], tools=[tool])
    await one_call(chat, result)
    assert tool.calls == []
    assert (await output_of(chat)).denied
    assert chat.sent[1][-1]["role"] == "tool"
    assert await chat.manager.rules(chat.session_id) == []


async def test_a_refusal_takes_its_reason_to_the_model_and_the_turn_goes_on(room: MakeRoom) -> None:
    chat = await room([call()], ["fine"], tools=[EchoTool(effect="write")])
    await one_call(chat, {"action": "decline", "content": {"reason": "use the other file"}})
    assert chat.sent[1][-1]["content"] == "The user declined this call: use the other file"


async def test_refuse_and_stop_ends_the_turn_with_every_call_closed(room: MakeRoom) -> None:
    tools = [EchoTool(effect="write")]
    chat = await room([call(), call(call_id="c2")], ["next"], tools=tools)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(ElicitationRequestEvent, count=2)
        await ask(chat, heard, {"action": "decline", "content": {"stop": True}})
        await heard.kind(ResponseCancelledEvent)
        await heard.status("idle")
    outputs = [item for item in await chat.items() if isinstance(item, FunctionCallOutput)]
    assert sorted(item.call_id for item in outputs) == ["c1", "c2"]
    assert len(chat.engine.requests) == 1
    assert (await chat.manager.get(chat.session_id)).pending_elicitations == []


async def test_denying_one_of_two_leaves_a_history_the_model_can_go_on_with(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(n=1), call(call_id="c2", n=2)], ["done"], ["more"], tools=[tool])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(ElicitationRequestEvent, count=2)
        await ask(chat, heard, {"action": "decline"})
        await ask(chat, heard, {"action": "accept"}, count=2)
        await heard.status("idle")
    assert len(tool.calls) == 1
    await chat.say("go on")
    roles = [turn["role"] for turn in chat.sent[2]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]


async def test_edited_arguments_are_what_runs_and_what_the_model_sees(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(path="/etc/passwd")], ["ok"], tools=[tool])
    await one_call(
        chat, {"action": "accept", "content": {"arguments": {"path": "notes.txt"}, "scope": "always"}}
    )
    assert tool.calls == [{"path": "notes.txt"}]
    stored = next(item for item in await chat.items() if isinstance(item, FunctionCall))
    assert json.loads(stored.arguments) == {"path": "/etc/passwd"}
    assert json.loads(stored.approved_arguments or "") == {"path": "notes.txt"}
    sent = chat.sent[1][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"path": "notes.txt"}
    assert await chat.manager.rules(chat.session_id) == []


async def test_edited_arguments_that_are_no_object_run_nothing(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], tools=[tool])
    await one_call(chat, {"action": "accept", "content": {"arguments": "rm -rf"}})
    assert tool.calls == []


@pytest.mark.parametrize(
    ("content", "scope"),
    [
        ({"scope": "session"}, "session"),
        ({"scope": "always", "rule": "1"}, "always"),
        ({"scope": "always", "rule": "0"}, None),
        ({"scope": "once"}, None),
        ({"scope": "everything"}, None),
        ({"scope": "always", "rule": {"arguments": {}, "text": "anything"}}, None),
        ({"scope": "always", "rule": "7"}, None),
        ({"scope": ["always"]}, None),
    ],
)
async def test_a_scope_is_never_wider_than_what_was_offered(
    room: MakeRoom, content: dict[str, Any], scope: str | None
) -> None:
    chat = await room([call(a=1)], ["ok"], tools=[EchoTool(effect="write")])
    await one_call(chat, {"action": "accept", "content": content})
    rules = await chat.manager.rules(chat.session_id)
    assert [rule["scope"] for rule in rules] == ([scope] if scope else [])
    assert await chat.manager.rules("sess_other") == (rules if scope == "always" else [])


async def test_a_rule_covers_the_same_call_only_and_can_be_revoked(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    rounds = [[call(call_id=f"c{number}", a=a)] for number, a in enumerate([1, 1, 2, 1])]
    chat = await room(*[step for pair in rounds for step in (pair, ["ok"])], tools=[tool])
    await one_call(chat, {"action": "accept", "content": {"scope": "session"}})
    await chat.say("the same again")
    assert len(tool.calls) == 2
    await one_call(chat, {"action": "decline"})
    [rule] = await chat.manager.rules(chat.session_id)
    await chat.manager.revoke(rule["id"])
    await one_call(chat, {"action": "decline"})
    assert len(tool.calls) == 2
    with pytest.raises(FiresideError):
        await chat.manager.revoke(rule["id"])


async def test_a_rule_for_a_number_does_not_cover_true(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], [call(call_id="c2", a=True)], ["ok"], tools=[tool])
    await one_call(chat, {"action": "accept", "content": {"scope": "session"}})
    await one_call(chat, {"action": "decline"})
    assert len(tool.calls) == 1


async def test_a_changed_tool_asks_again(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call(a=1)], ["ok"], [call(call_id="c2", a=1)], ["ok"], tools=[tool])
    await one_call(chat, {"action": "accept", "content": {"scope": "always"}})
    tool.digest = "v2"
    await one_call(chat, {"action": "decline"})
    assert len(tool.calls) == 1


async def test_every_decision_is_in_the_audit_log(room: MakeRoom) -> None:
    tools = [EchoTool(effect="write"), EchoTool(name="look", effect="nothing")]
    chat = await room([call(a=1)], ["ok"], [call("look", "c2")], ["ok"], tools=tools)
    await one_call(chat, {"action": "decline", "content": {"reason": "no"}})
    await chat.say()
    entries = await chat.manager.ledger.audit(chat.session_id)
    assert [(entry.tool, entry.verdict, entry.origin) for entry in entries] == [
        ("echo", "deny", "person"),
        ("look", "allow", "mode"),
    ]


@pytest.mark.parametrize(
    ("mode", "effect", "runs"),
    [
        ("none", "nothing", False),
        ("read", "read", True),
        ("all", "write", True),
        ("plan", "read", True),
        ("plan", "write", False),
    ],
)
async def test_modes_decide_without_asking(room: MakeRoom, mode: str, effect: str, runs: bool) -> None:
    tool = EchoTool(effect=effect)
    chat = await room([call()], ["ok"], tools=[tool], approve=mode)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.status("idle")
    assert bool(tool.calls) is runs
    assert not [event for event in heard.events if isinstance(event, ElicitationRequestEvent)]
    if mode == "none":
        assert [event for event in heard.events if isinstance(event, PolicyDeniedEvent)]


@pytest.mark.parametrize("effect", ["execute", "network"])
async def test_all_asks_for_what_no_sandbox_holds(room: MakeRoom, effect: str) -> None:
    tool = EchoTool(effect=effect)
    chat = await room([call()], ["ok"], tools=[tool], approve="all")
    _, params = await one_call(chat, {"action": "decline"})
    assert params["tool"] == "echo"
    assert tool.calls == []


async def test_a_policy_that_raises_denies(room: MakeRoom) -> None:
    class Broken:
        def decide(self, *args: Any, **more: Any) -> Any:
            raise RuntimeError("bug")

    tool = EchoTool()
    chat = await room([call()], ["ok"], tools=[tool], policy=Broken(), approve="all")
    await chat.say()
    assert tool.calls == []
    assert "could not be evaluated" in chat.sent[1][-1]["content"]


async def test_time_that_runs_out_is_a_no(room: MakeRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.sessions.turn.elicit.Elicitations.ask.__kwdefaults__", {"timeout_s": 0.01})
    tool = EchoTool(effect="write")
    chat = await room([call()], ["ok"], tools=[tool])
    items = await chat.say()
    assert tool.calls == [] and any(isinstance(item, FunctionCallOutput) and item.denied for item in items)


async def test_late_and_repeated_answers_are_harmless(room: MakeRoom) -> None:
    tool = EchoTool(effect="write")
    chat = await room([call()], ["ok"], tools=[tool])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        event: ElicitationRequestEvent = await heard.kind(ElicitationRequestEvent)
        pending = (await chat.manager.get(chat.session_id)).pending_elicitations
        assert [entry["elicitation_id"] for entry in pending] == [event.elicitation_id]
        for action in ("decline", "accept", "accept"):
            await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, {"action": action})
        await heard.status("idle")
    await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, {"action": "accept"})
    assert tool.calls == []
    resolved = [event for event in heard.events if isinstance(event, ElicitationResolvedEvent)]
    assert len(resolved) == 1


async def test_a_message_does_not_slip_past_an_open_question(room: MakeRoom) -> None:
    chat = await room([call()], ["ok"], ["and you"], tools=[EchoTool(effect="write")])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(ElicitationRequestEvent)
        await chat.post("yes do it")
        assert len(await chat.manager.queue(chat.session_id)) == 1
        await ask(chat, heard, {"action": "decline"})
        await heard.status("idle")
    assert (await output_of(chat)).denied


async def test_a_tool_asks_the_person_by_a_form(room: MakeRoom) -> None:
    async def form(arguments: dict[str, Any], context: ToolContext) -> str:
        answer = await context.ask(Form("Which?"))
        return f"accept: {answer['name']}" if answer else "no"

    chat = await room([call()], ["ok"], tools=[EchoTool(action=form)])
    _, params = await one_call(chat, {"action": "accept", "content": {"name": "Ada"}})
    assert params["phase"] == "tool_input"
    assert (await output_of(chat)).output == "accept: Ada"


async def test_a_question_left_open_ends_with_its_turn(room: MakeRoom) -> None:
    chat = await room([call()], ["ok"], tools=[EchoTool(effect="write")])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(ElicitationRequestEvent)
        await chat.manager.interrupt(chat.session_id)
        await heard.kind(ElicitationResolvedEvent)
        await heard.status("idle")
    assert len([item for item in await chat.items() if isinstance(item, FunctionCallOutput)]) == 1


def test_content_that_is_no_object_is_left_out() -> None:
    assert read_answer({"action": "accept", "content": ["scope", "always"]}).content == {}
