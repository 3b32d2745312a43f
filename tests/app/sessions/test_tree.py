"""Section 1.8 of the contract and decisions.md 3: the tree, the collection, settings."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.sessions.agents import Agent
from app.sessions.errors import ConflictError, FiresideError, InvalidInputError
from app.sessions.events import (
    OutputTextDeltaEvent,
    ResponseEvent,
    SessionBranchEvent,
    SessionModelEvent,
    SessionTitleEvent,
)
from app.sessions.items import Item, Message, Reasoning
from app.sessions.records import now
from app.sessions.store.rows import Change
from app.sessions.store.store import DELETED_KEPT_S, Store
from backend.engines.scripted import CARD, Pause, ScriptedEngine
from backend.types import ReasoningPiece, TextPiece, TokenLogprob, usual_reserve
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening


def texts(items: list[Item]) -> list[str]:
    return [item.text for item in items if isinstance(item, Message)]


async def after(chat: Room, action: Any) -> list[str]:
    """Start something that answers, and wait until the session rests; the texts of its path."""
    async with listening(chat.manager, chat.session_id) as heard:
        await action
        await heard.status("idle", "failed")
    return texts(await chat.items())


async def test_an_edit_is_a_branch_and_the_old_one_is_kept(room: MakeRoom) -> None:
    chat = await room(["one"], ["two"])
    old = await chat.say("first")
    assert await after(chat, chat.manager.edit(old[0].id, "second")) == ["second", "two"]
    siblings = await chat.manager.siblings((await chat.items())[0].id)
    assert [entry["active"] for entry in siblings] == [False, True]
    await chat.manager.select(old[0].id)
    assert texts(await chat.items()) == ["first", "one"]
    assert len(await chat.manager.store.tree(chat.session_id)) == 4


async def test_a_retry_answers_the_same_message_on_a_new_branch(room: MakeRoom) -> None:
    chat = await room(["one"], ["two"])
    reply = (await chat.say("q"))[1]
    assert reply.response_id
    assert await after(chat, chat.manager.retry(reply.response_id)) == ["q", "two"]
    assert chat.sent[0] == chat.sent[1]
    siblings = await chat.manager.siblings(reply.id)
    assert [entry["active"] for entry in siblings] == [False, True]


async def test_several_retries_are_written_at_once_on_branches_of_their_own(room: MakeRoom) -> None:
    together, running = asyncio.Event(), 0

    class Counting(ScriptedEngine):
        async def submit(self, request: Any) -> Any:
            nonlocal running
            running += 1
            if running == 4:
                together.set()
            async for pieces in super().submit(request):
                yield pieces

    variants = [[f"v{number}", Pause(until=together)] for number in range(3)]
    chat = await room(["one"], *variants, engine=Counting())
    reply = (await chat.say("q"))[1]
    assert reply.response_id
    async with listening(chat.manager, chat.session_id) as heard:
        ids = await chat.manager.retry(reply.response_id, n=3)
        await heard.status("idle")
    ends = [event.response.id for event in heard.events if event.type == "response.completed"]
    assert sorted(ends) == sorted(ids)
    found = []
    for entry in await chat.manager.siblings(reply.id):
        await chat.manager.select(entry["item_id"])
        found += texts(await chat.items())[1:]
    assert sorted(found) == ["one", "v0", "v1", "v2"]


async def test_a_cut_reply_goes_on_where_it_ended(room: MakeRoom) -> None:
    chat = await room(["Once upon"], [" a time"])
    reply = (await chat.say("tell"))[1]
    assert reply.response_id
    found = await after(chat, chat.manager.continue_reply(reply.response_id))
    assert found == ["tell", "Once upon a time"]
    request = chat.engine.requests[1]
    assert request.continue_reply and not request.add_generation_prompt
    assert request.messages and request.messages[-1]["content"] == "Once upon"
    assert (await chat.manager.store.node(reply.id)).item == reply


async def test_a_reply_can_be_written_from_another_token_on(room: MakeRoom) -> None:
    words = [TextPiece(word, (TokenLogprob(ord(word[-1]), word, -0.1),)) for word in ("a", "b", "c")]
    chat = await room(words, ["!"])
    reply = (await chat.say("q"))[1]
    assert await after(chat, chat.manager.continue_from(reply.id, 1, ord("X"))) == ["q", "aX!"]
    again = (await chat.items())[1]
    assert isinstance(again, Message) and again.tokens is None, "the new end has no recorded tokens"
    with pytest.raises(InvalidInputError):
        await chat.manager.continue_from(reply.id, 9, 1)


async def test_a_reply_is_written_from_a_token_twice_and_keeps_its_beginning(room: MakeRoom) -> None:
    def recorded(*words: str) -> list[TextPiece]:
        return [
            TextPiece(word, (TokenLogprob(ord(word[-1]), word, -0.1, ((88, "X", -3.0),)),)) for word in words
        ]

    chat = await room(recorded("a", "b", "c"), recorded("d", "e"), recorded("f"))
    reply = (await chat.say("q"))[1]
    assert await after(chat, chat.manager.continue_from(reply.id, 1, ord("X"))) == ["q", "aXde"]
    second = (await chat.items())[1]
    assert isinstance(second, Message) and second.tokens is not None
    assert [token["text"] for token in second.tokens] == ["a", "X", "d", "e"]
    assert second.tokens[1]["logprob"] == -3.0
    assert await after(chat, chat.manager.continue_from(second.id, 3, ord("X"))) == ["q", "aXdXf"]


async def test_the_events_of_a_continued_reply_make_up_its_text(room: MakeRoom) -> None:
    chat = await room(["Once upon"], [" a", " time"])
    reply = (await chat.say("tell"))[1]
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.continue_reply(reply.response_id or "")
        await heard.status("idle")
    deltas = [event for event in heard.events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == "Once upon a time"
    assert [event.repeated for event in deltas] == [True, None, None]


async def test_a_reply_is_divided_anew_into_thought_and_answer(room: MakeRoom) -> None:
    chat = await room([ReasoningPiece("hmm"), " so\nit is 4"], ["next"])
    await chat.say("2+2")
    await chat.say("and")
    before = await chat.items()
    message = before[2]
    new_id = await chat.manager.resplit(message.id, len("hmm so\n"))
    items = await chat.items()
    thought, answer = items[1:3]
    assert isinstance(thought, Reasoning) and thought.text == "hmm so\n"
    assert isinstance(answer, Message) and (answer.id, answer.text) == (new_id, "it is 4")
    assert texts(items)[2:] == texts(before)[2:]
    await chat.manager.select(message.id)
    assert texts(await chat.items()) == texts(before)


async def test_the_tree_is_left_alone_while_a_reply_is_written(room: MakeRoom) -> None:
    chat = await room(["one"], ["two", Pause(until=asyncio.Event())])
    old = await chat.say("first")
    assert old[1].response_id
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("second")
        await heard.kind(OutputTextDeltaEvent)
        for action in (
            chat.manager.edit(old[0].id, "x"),
            chat.manager.retry(old[1].response_id),
            chat.manager.compact(chat.session_id),
        ):
            with pytest.raises(ConflictError):
                await action
        await chat.manager.select(old[0].id)
        assert isinstance(await heard.kind(SessionBranchEvent), SessionBranchEvent)
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")


async def test_a_fork_is_an_idle_copy_that_shares_nothing(room: MakeRoom) -> None:
    chat = await room([call()], ["one"], ["two"], [" and more"], tools=[EchoTool()])
    await chat.say("q")
    first = next(item for item in await chat.items() if item.response_id).response_id
    await chat.say("r")
    await chat.manager.fork(chat.session_id)
    copy = await chat.manager.fork(chat.session_id, "again", up_to_response_id=first)
    snapshot = await chat.manager.get(copy)
    assert (snapshot.title, snapshot.status) == ("again", "idle")
    assert texts(list(snapshot.items)) == ["q", "one"]
    ids = {item.id for item in await chat.items()}
    assert not ids & {item.id for item in snapshot.items}
    [reply] = [item for item in await chat.items() if texts([item]) == ["two"]]
    assert await after(chat, chat.manager.continue_reply(reply.response_id or "")) == [
        *["q", "one", "r"],
        "two and more",
    ]
    assert texts(list((await chat.manager.get(copy)).items)) == ["q", "one"]
    with pytest.raises(InvalidInputError):
        await chat.manager.fork(chat.session_id, up_to_response_id="resp_unknown")


async def test_a_fork_of_a_running_chat_has_every_call_closed(room: MakeRoom) -> None:
    started = asyncio.Event()

    async def hang(arguments: Any, context: Any) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    chat = await room([call()], tools=[EchoTool(action=hang)])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await started.wait()
        copy = await chat.manager.fork(chat.session_id)
        items = await chat.manager.list_items(copy)
        assert [item.type for item in items] == ["message", "function_call", "function_call_output"]
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")


# ---- the collection ------------------------------------------------------------------------


async def test_titles_come_from_the_first_message_and_can_be_changed(room: MakeRoom) -> None:
    chat = await room(["a"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("how do I\nlight   a fire? " + "x" * 100)
        assert (await heard.kind(SessionTitleEvent)).title.startswith("how do I light a fire? xx")
        await heard.status("idle")
        await chat.manager.rename(chat.session_id, "  My\nfire ")
        assert (await heard.kind(SessionTitleEvent, count=2)).title == "My fire"
    assert (await chat.manager.list())[0].title == "My fire"


async def test_pinned_archived_deleted_and_taken_back(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room(["quill"])
    await chat.say("parchment")
    manager, session_id = chat.manager, chat.session_id
    await manager.pin(session_id)
    await manager.archive(session_id)
    assert await manager.list() == []
    assert (await manager.list(include_archived=True))[0].pinned
    await manager.archive(session_id, False)
    assert {hit["item_id"] for hit in await manager.search("parchment")}
    await manager.delete(session_id)
    assert await manager.list() == [] and await manager.search("parchment") == []
    assert [entry.id for entry in await manager.deleted()] == [session_id]
    with pytest.raises(FiresideError):
        await manager.get(session_id)
    await manager.undelete(session_id)
    assert texts(list((await manager.get(session_id)).items)) == ["parchment", "quill"]
    await manager.delete(session_id)
    assert await manager.store.purge(now() - DELETED_KEPT_S) == []
    assert await manager.store.purge(now() + 1) == [session_id]


async def test_taken_back_a_chat_is_where_it_was(room: MakeRoom) -> None:
    chat = await room(["quill"])
    await chat.say("parchment")
    manager, session_id = chat.manager, chat.session_id
    await manager.store.apply(session_id, Change(fields={"updated_at": 1000}))
    await manager.delete(session_id)
    await manager.undelete(session_id)
    await manager.pin(session_id)
    await manager.pin(session_id, False)
    assert [entry.updated_at for entry in await manager.list()] == [1000]


async def test_deleting_a_running_chat_stops_it_first(room: MakeRoom) -> None:
    chat = await room(["a", Pause(until=asyncio.Event())])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(OutputTextDeltaEvent)
        await chat.manager.delete(chat.session_id)
    assert [event for event in heard.events if isinstance(event, ResponseEvent)][-1].response.status == (
        "cancelled"
    )


async def test_a_draft_survives_the_process_and_changes_nothing_else(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room(["a"], store=Store(tmp_path / "d.db"))
    before = (await chat.manager.get(chat.session_id)).updated_at
    await chat.manager.set_draft(chat.session_id, "half a thou")
    other = await room(store=Store(tmp_path / "d.db"))
    snapshot = await other.manager.get(chat.session_id)
    assert (snapshot.draft, snapshot.updated_at) == ("half a thou", before)


async def test_a_snapshot_of_a_long_chat_holds_its_newest_items(room: MakeRoom) -> None:
    chat = await room(["a"])
    store = chat.manager.store
    many = [Message(role="user", content=({"type": "input_text", "text": str(n)},)) for n in range(500)]
    await store.apply(chat.session_id, Change(items=many))
    snapshot = await chat.manager.get(chat.session_id)
    assert snapshot.has_more_items and texts(list(snapshot.items))[-1] == "499"
    assert len(snapshot.items) == 200
    page = await chat.manager.list_items(chat.session_id, order="desc", after=snapshot.items[0].id, limit=3)
    assert texts(page) == ["299", "298", "297"]


# ---- settings ------------------------------------------------------------------------------


async def test_each_setting_tells_where_it_comes_from(room: MakeRoom) -> None:
    agent = Agent("poet", instructions="rhyme", model="small")
    chat = await room(agent=agent, approve="read", tools=[EchoTool()])
    await chat.manager.configure(chat.session_id, config={"temperature": 0.1}, tools=["echo"])
    found = await chat.manager.settings(chat.session_id)
    assert found["system"] == {"value": "rhyme", "origin": "agent"}
    assert found["approve"] == {"value": "read", "origin": "manager"}
    assert found["config"] == {"value": {"temperature": 0.1}, "origin": "session"}
    assert found["tools"]["origin"] == "session" and found["reasoning_effort"]["origin"] == "default"


async def test_a_setting_goes_back_to_where_it_came_from(room: MakeRoom, tmp_path: Path) -> None:
    agent = Agent("poet", instructions="rhyme")
    chat = await room(agent=agent, approve="read", tools=[EchoTool()], workspace=tmp_path)
    before = await chat.manager.settings(chat.session_id)
    other = tmp_path / "other"
    other.mkdir()
    await chat.manager.configure(
        chat.session_id, config={"temperature": 0.1}, system="no", approve="all", workspace=other
    )
    changed = await chat.manager.settings(chat.session_id)
    assert changed["workspace"] == {"value": str(other), "origin": "session"}
    assert (await chat.manager.get(chat.session_id)).workspace == str(other)
    await chat.manager.configure(chat.session_id, reset=["config", "system", "workspace"], approve="ask")
    found = await chat.manager.settings(chat.session_id)
    assert found == {**before, "approve": {"value": "ask", "origin": "session"}}


async def test_tools_work_in_the_folder_a_chat_was_moved_to(room: MakeRoom, tmp_path: Path) -> None:
    places: list[Path | None] = []

    async def look(arguments: dict[str, Any], context: Any) -> str:
        places.append(context.workspace)
        return "seen"

    chat = await room([call()], ["a"], [call()], ["b"], tools=[EchoTool(action=look)], workspace=tmp_path)
    await chat.say()
    (tmp_path / "other").mkdir()
    await chat.manager.configure(chat.session_id, workspace=tmp_path / "other")
    await chat.say()
    assert places == [tmp_path, tmp_path / "other"]


@pytest.mark.parametrize(
    "bad",
    [
        {"workspace": "/nowhere/at/all"},
        {"reset": ["warmth"]},
        {"reset": ["approve"], "approve": "all"},
        {"config": {"temperature": -1}},
        {"config": {"warmth": 1}},
        {"approve": "sometimes"},
        {"overflow": "explode"},
        {"tools": ["nothing*"]},
        {"max_rounds": 0},
    ],
)
async def test_unfit_settings_are_refused_and_change_nothing(room: MakeRoom, bad: dict[str, Any]) -> None:
    chat = await room(tools=[EchoTool()])
    before = await chat.manager.settings(chat.session_id)
    with pytest.raises(InvalidInputError):
        await chat.manager.configure(chat.session_id, **bad)
    assert await chat.manager.settings(chat.session_id) == before


@pytest.mark.parametrize(
    ("effort", "thinking", "budget"), [("none", False, None), ("low", True, 1024), ("max", True, None)]
)
async def test_effort_becomes_thinking_and_a_budget(
    room: MakeRoom, effort: str, thinking: bool, budget: int | None
) -> None:
    chat = await room(["a"])
    await chat.manager.set_reasoning_effort(chat.session_id, effort)
    await chat.say()
    config = chat.engine.requests[0].config
    assert (config.enable_thinking, config.reasoning_budget) == (thinking, budget)


async def test_effort_leaves_a_model_without_thoughts_alone(room: MakeRoom) -> None:
    card = replace(CARD, supports_thinking=False)
    chat = await room(["a"], engine=ScriptedEngine(card=card))
    await chat.manager.set_reasoning_effort(chat.session_id, "high")
    await chat.say()
    assert chat.engine.requests[0].config.as_dict() == {"reply_reserve": usual_reserve(card.max_seq)}


async def test_a_model_override_is_loaded_for_the_next_turn(room: MakeRoom) -> None:
    chat = await room(["a"], ["b"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.set_model_override(chat.session_id, "bigger")
        assert (await heard.kind(SessionModelEvent)).model == "bigger"
        await chat.post("hi")
        await heard.status("idle")
    assert chat.engine.card.model_id == "bigger"
    assert "session.model_load" in heard.types
    with pytest.raises(InvalidInputError):
        await chat.manager.set_model_override(chat.session_id, " ")
    await chat.manager.set_model_override(chat.session_id, None)
    assert (await chat.manager.get(chat.session_id)).model_override is None


async def test_a_turn_on_another_model_waits_for_the_running_one(room: MakeRoom) -> None:
    gate = asyncio.Event()
    chat = await room(["a", Pause(until=gate)], ["b"])
    other = replace_room(chat, (await chat.manager.create()).id)
    await chat.manager.set_model_override(other.session_id, "bigger")
    async with (
        listening(chat.manager, chat.session_id) as first,
        listening(chat.manager, other.session_id) as second,
    ):
        await chat.post("one")
        await first.kind(OutputTextDeltaEvent)
        await other.post("two")
        await second.until(lambda event: event.type == "response.queued")
        gate.set()
        await first.status("idle")
        await second.status("idle")
    assert chat.engine.card.model_id == "bigger"


def replace_room(chat: Room, session_id: str) -> Room:
    return Room(chat.manager, chat.engine, session_id)


async def test_a_turn_that_waits_for_another_model_can_be_stopped(room: MakeRoom) -> None:
    chat = await room(["a", Pause(until=asyncio.Event())])
    other = replace_room(chat, (await chat.manager.create()).id)
    await chat.manager.set_model_override(other.session_id, "bigger")
    async with (
        listening(chat.manager, chat.session_id) as first,
        listening(chat.manager, other.session_id) as second,
    ):
        await chat.post("one")
        await first.kind(OutputTextDeltaEvent)
        await other.post("two")
        await second.until(lambda event: event.type == "response.queued")
        await chat.manager.interrupt(other.session_id)
        await second.status("idle")
    assert chat.engine.card.model_id == "scripted"


async def test_plan_offers_reading_tools_only_and_says_so(room: MakeRoom) -> None:
    tools = [EchoTool("look", effect="read"), EchoTool("change", effect="write")]
    chat = await room(["a"], tools=tools, approve="plan")
    await chat.say()
    assert [entry["function"]["name"] for entry in chat.engine.requests[0].tools] == ["look"]
    assert "planning" in chat.sent[0][0]["content"]


async def test_tools_are_offered_only_to_a_model_that_calls(room: MakeRoom) -> None:
    card = replace(CARD, supports_tools=False)
    chat = await room(["a"], engine=ScriptedEngine(card=card), tools=[EchoTool()])
    await chat.say()
    assert chat.engine.requests[0].tools == []


async def test_tools_chosen_for_a_model_that_cannot_call_are_an_error_with_a_way_out(room: MakeRoom) -> None:
    card = replace(CARD, supports_tools=False)
    chat = await room(["a"], engine=ScriptedEngine(card=card), tools=[EchoTool()])
    await chat.manager.configure(chat.session_id, tools=["echo"])
    await chat.say()
    error = (await chat.manager.get(chat.session_id)).last_task_error
    assert error and error["code"] == "no_tools" and "--tool-format generic" in error["message"]
    await chat.manager.configure(chat.session_id, tools=[])
    await chat.say()
    assert (await chat.manager.get(chat.session_id)).status == "idle"


async def test_a_released_chat_can_be_written_by_another_process(room: MakeRoom, tmp_path: Path) -> None:
    first = await room(["one"], ["three"], store=Store(tmp_path / "s.db"))
    second = await room(["two"], store=Store(tmp_path / "s.db"))
    second.session_id = first.session_id
    await first.say("a")
    await first.manager.release(first.session_id)
    assert texts(await second.say("b")) == ["a", "one", "b", "two"]
    await second.manager.release(first.session_id)
    assert texts(await first.say("c"))[-2:] == ["c", "three"]


async def test_process_wide_calls(room: MakeRoom) -> None:
    chat = await room(["a"])
    await chat.manager.warm(chat.session_id, "next")
    assert chat.engine.warmed[0][-1]["content"] == "next"
    assert (await chat.manager.load_model("third")).model_id == "third"
    stats = await chat.manager.engine_stats()
    assert stats and stats.slots == CARD.max_active
    with pytest.raises(InvalidInputError):
        await chat.manager.embed(["x"])
    await chat.manager.unload_model()
    assert await chat.manager.engine_stats() is None
    await chat.say()
    assert chat.engine.requests[-1].conversation == chat.session_id
    assert chat.engine.card.model_id == "third"
