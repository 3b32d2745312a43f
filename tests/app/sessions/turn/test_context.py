"""Section 6 of terminal.md: exact counts, the overflow policies, and histories any template takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import clock
from app.sessions.agents import Agent
from app.sessions.events import (
    CompactionCompletedEvent,
    CompactionFailedEvent,
    CompactionInProgressEvent,
    ElicitationRequestEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    SessionNoticeEvent,
)
from app.sessions.items import (
    Compaction,
    ErrorItem,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    output_text,
    reasoning_item,
    user_message,
)
from app.sessions.turn.history import BACKGROUND, TOO_LONG, cut_middle, turns_of
from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening
from tools.context import ToolContext

WINDOW = 60


def small(window: int = WINDOW) -> ScriptedEngine:
    return ScriptedEngine(card=replace(CARD, max_seq=window))


def words(count: int, word: str = "w") -> str:
    return " ".join([word] * count)


async def talk(chat: Room, *texts: str) -> None:
    for text in texts:
        await chat.say(text)


async def overflowing(room: MakeRoom, policy: str, *scripts: Sequence[Any], window: int = 400) -> Room:
    """A chat of two turns whose third does not fit."""
    chat = await room([words(100)], [words(100)], *scripts, engine=small(window))
    await chat.manager.configure(chat.session_id, overflow=policy, system="stay terse")
    await talk(chat, words(60, "one"), words(60, "two"))
    return chat


async def test_error_tells_both_numbers_and_the_session_goes_on(room: MakeRoom) -> None:
    chat = await overflowing(room, "error", ["short"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post(words(100, "x"))
        failed: Any = await heard.status("failed")
    assert "422 tokens" in failed.error["message"] and "room for 400" in failed.error["message"]
    assert failed.error["code"] == "context_overflow" and failed.error["remediation"]
    assert len(chat.engine.requests) == 2
    stored = [item for item in await chat.items() if isinstance(item, Message)]
    assert stored[-1].text == words(100, "x")
    await chat.manager.edit(stored[-1].id, "hi")
    async with listening(chat.manager, chat.session_id) as heard:
        if (await chat.manager.get(chat.session_id)).status != "idle":
            await heard.status("idle")
    assert chat.sent[-1][-1]["content"] == "hi"


async def test_a_message_that_did_not_fit_keeps_no_later_one_from_fitting(room: MakeRoom) -> None:
    chat = await room(["first"], ["short"], ["whole"], engine=small())
    await chat.manager.configure(chat.session_id, overflow="error")
    await chat.say("hello")
    items = await chat.say(words(100, "x"))
    error = items[-1]
    assert isinstance(error, ErrorItem) and error.code == "context_overflow" and error.response_id
    stored = await chat.say("hi")
    assert (await chat.manager.get(chat.session_id)).status == "idle"
    assert [turn["role"] for turn in chat.sent[-1]] == ["user", "assistant", "user"]
    assert chat.sent[-1][-1]["content"] == f"{TOO_LONG}\n\nhi"
    assert words(100, "x") in [item.text for item in stored if isinstance(item, Message)]
    # With a larger window the very message can be tried again.
    chat.engine.card = replace(CARD, max_seq=4000)
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.retry(error.response_id)
        await heard.status("idle")
    assert chat.sent[-1][-1]["content"] == words(100, "x")


@pytest.mark.parametrize(
    ("size", "config", "fits"),
    [
        (53, {}, True),  # an eighth of the window is kept for a reply
        (54, {}, False),
        (40, {"reply_reserve": 20}, True),
        (41, {"reply_reserve": 20}, False),
        (58, {"max_new_tokens": 2}, True),  # a reply of two tokens needs no more
        (59, {"max_new_tokens": 2}, False),
        (59, {"reply_reserve": 1}, True),
        (60, {"reply_reserve": 1}, False),
        (59, {"max_new_tokens": 1000, "reply_reserve": 1}, True),
        (1, {"reply_reserve": 1000}, True),  # no reserve takes the whole window
        (2, {"reply_reserve": 1000}, False),
    ],
)
async def test_a_prompt_fits_if_the_room_that_is_kept_for_a_reply_does(
    room: MakeRoom, size: int, config: dict[str, int], fits: bool
) -> None:
    chat = await room(["ok"], engine=small())
    await chat.manager.configure(chat.session_id, overflow="error", config=config)
    await chat.say(words(size))
    assert (await chat.manager.get(chat.session_id)).status == ("idle" if fits else "failed")


async def test_drop_leaves_whole_turns_out_and_the_originals_in_the_store(room: MakeRoom) -> None:
    chat = await overflowing(room, "drop", ["third"])
    items = await chat.say(words(100, "three"))
    note = next(item for item in items if isinstance(item, Compaction))
    assert note.dropped and not note.summary
    last = chat.sent[-1]
    assert last[0] == {"role": "system", "content": "stay terse"}
    assert "one" not in str(last) and "three" in last[-1]["content"]
    assert any("one" in item.text for item in items if isinstance(item, Message))


async def test_turns_are_dropped_in_blocks_so_that_most_turns_reuse_the_cache(room: MakeRoom) -> None:
    turns = 60
    chat = await room(*[[words(20)]] * turns, engine=small(600))
    await chat.manager.configure(chat.session_id, overflow="drop", system="stay terse")
    changed: list[bool] = []
    for number in range(turns):
        items = await chat.say(words(20, f"n{number}"))
        now = chat.sent[-1]
        assert now[1]["role"] == "user"
        if any(isinstance(item, Compaction) for item in items):
            before = chat.sent[-2]
            changed.append(now[: len(before)] != before)
    assert len(changed) > 30
    assert 0 < sum(changed) <= len(changed) / 4


async def test_dropping_from_a_long_chat_counts_it_few_times(room: MakeRoom) -> None:
    turns = 60
    chat = await room(*[["ok"]] * turns, ["last"], engine=small(100_000))
    await chat.manager.configure(chat.session_id, overflow="drop")
    for number in range(turns):
        await chat.say(f"n{number} {words(20)}")
    chat.engine.card = replace(CARD, max_seq=200)
    counted, count = 0, chat.engine.count

    async def counting(*arguments: Any) -> Any:
        nonlocal counted
        counted += 1
        return await count(*arguments)

    chat.engine.count = counting  # type: ignore[method-assign]
    await chat.say("the last one")
    assert "n59" in str(chat.sent[-1]) and "n30" not in str(chat.sent[-1])
    assert counted < 12


async def test_compact_puts_a_summary_marked_as_background(room: MakeRoom) -> None:
    chat = await overflowing(room, "compact", ["they talked"], ["third"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post(words(100, "three"))
        done: CompactionCompletedEvent = await heard.kind(CompactionCompletedEvent)
        await heard.status("idle")
    assert done.summary == "they talked" and done.compacted_messages == 4
    turns = chat.sent[-1]
    assert turns[1]["role"] == "user"
    assert turns[1]["content"].startswith(f"{BACKGROUND}\nthey talked\n\nthree")
    assert chat.engine.requests[-2].config.temperature == 0.0
    assert len(await chat.items()) == 7


async def test_compact_stops_after_two_useless_rounds_and_changes_nothing(room: MakeRoom) -> None:
    useless = [words(400, "blah")]
    chat = await overflowing(room, "compact", useless, useless, ["never"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post(words(100, "three"))
        await heard.kind(CompactionFailedEvent)
        await heard.status("failed")
    assert len(chat.engine.requests) == 4
    assert not [item for item in await chat.items() if isinstance(item, Compaction)]
    await chat.say(words(100, "four"))
    assert len(chat.engine.requests) == 4


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        ({"action": "accept", "content": {"choice": "drop"}}, "idle"),
        ({"action": "decline"}, "failed"),
        ({"action": "accept", "content": {"choice": "error"}}, "failed"),
        ({"action": "accept", "content": {"choice": "eat it"}}, "failed"),
    ],
)
async def test_ask_leaves_the_choice_to_the_person(
    room: MakeRoom, result: dict[str, Any], wanted: str
) -> None:
    chat = await overflowing(room, "ask", ["third"])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post(words(100, "three"))
        event: ElicitationRequestEvent = await heard.kind(ElicitationRequestEvent)
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, result)
        await heard.status(wanted)


async def test_2_4_compact_by_hand_adds_no_message_and_starts_no_answer(room: MakeRoom) -> None:
    chat = await room([words(90)], [words(9)], ["brief"], ["ok"])
    await talk(chat, "one", "two")
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.post_event(chat.session_id, {"type": "compact", "data": {}})
        await heard.kind(CompactionInProgressEvent)
        await heard.kind(CompactionCompletedEvent)
        await heard.status("idle")
    assert not [event for event in heard.events if isinstance(event, OutputTextDeltaEvent)]
    assert not [name for name in heard.types if name == "response.created"]
    await chat.say("three")
    assert "brief" in chat.sent[-1][0]["content"]


async def test_a_huge_tool_result_is_cut_for_the_model_and_kept_whole(room: MakeRoom) -> None:
    # What runs with the client may return anything; our own tools end earlier.
    agent = Agent("client", tools=({"name": "echo", "runtime": "client"},))
    chat = await room([call()], ["ok"], agent=agent)
    flood = {"call_id": "c1", "output": "line\n" * 200_000}
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.until(
            lambda event: isinstance(event, OutputItemDoneEvent) and event.item.type == "function_call"
        )
        await chat.manager.post_event(chat.session_id, {"type": "function_call_output", "data": flood})
        await heard.status("idle")
    result = next(item for item in await chat.items() if isinstance(item, FunctionCallOutput))
    assert len(result.output) == 1_000_000
    sent = chat.sent[1][-1]["content"]
    assert len(sent) <= CARD.max_seq // 2 and "of 1000000 characters left out" in sent
    assert sent.startswith("line\n") and sent.endswith("line\n")


async def test_results_of_the_running_turn_are_cut_further_when_nothing_else_helps(room: MakeRoom) -> None:
    async def much(arguments: dict[str, Any], context: ToolContext) -> str:
        return words(900)

    chat = await room([call()], ["ok"], tools=[EchoTool(action=much)], engine=small(300))
    await chat.manager.configure(chat.session_id, overflow="drop")
    await chat.say()
    assert (await chat.manager.get(chat.session_id)).status == "idle"


async def test_each_prompt_begins_as_the_one_before_whatever_the_clock_says(
    room: MakeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.count(1_800_000_000, 61)
    monkeypatch.setattr(clock, "now", lambda: float(next(times)))
    chat = await room(["one"], ["two"], ["three"], tools=[EchoTool(), EchoTool(name="other")])
    await talk(chat, "a", "b", "c")
    for before, after in itertools.pairwise(chat.sent):
        assert after[: len(before)] == before
    tools = [request.tools for request in chat.engine.requests]
    assert tools[0] and tools.count(tools[0]) == 3


async def test_thinking_that_the_model_cannot_do_is_told_once(room: MakeRoom) -> None:
    engine = ScriptedEngine(card=replace(CARD, reasoning_mode="never"))
    chat = await room(["a"], ["b"], engine=engine)
    await chat.manager.configure(chat.session_id, config={"enable_thinking": True})
    async with listening(chat.manager, chat.session_id) as heard:
        await talk(chat, "one", "two")
        notices = [event for event in heard.events if isinstance(event, SessionNoticeEvent)]
    assert [event.code for event in notices] == ["thinking"]
    assert "cannot be made to think" in notices[0].message


async def test_a_prompt_that_leaves_no_room_for_a_reply_meets_the_policy(room: MakeRoom) -> None:
    chat = await room([words(100)], [words(100)], ["third"], engine=small(400))
    await chat.manager.configure(chat.session_id, overflow="drop", config={"reply_reserve": 100})
    await talk(chat, words(60, "one"), words(60, "two"))  # 320 tokens, and the next message has twenty
    items = await chat.say(words(20, "three"))
    assert any(isinstance(item, Compaction) and item.dropped for item in items)
    assert "one" not in str(chat.sent[-1])


async def test_what_a_chat_holds_before_its_first_message(room: MakeRoom) -> None:
    chat = await room(tools=[EchoTool()])
    bare = await chat.manager.new_context()
    told = await chat.manager.new_context(system="be kind and brief")
    assert told["total"] == bare["total"] + 4
    assert told["parts"]["history"] == told["parts"]["draft"] == 0
    await chat.manager.configure(chat.session_id, system="be kind and brief")
    assert await chat.manager.context(chat.session_id) == told


async def test_the_context_is_told_by_part(room: MakeRoom) -> None:
    chat = await room(["a b c"])
    await chat.manager.configure(chat.session_id, system="be kind")
    await chat.say("one two")
    told = await chat.manager.context(chat.session_id, "four more words here")
    assert told["parts"] == {"system": 2, "tools": 0, "history": 5, "draft": 4}
    assert told["total"] == 11 and told["exact"] and told["window"] == CARD.max_seq
    preview = await chat.manager.preview(chat.session_id, "next")
    assert preview["text"].splitlines()[-1] == "user: next"


@pytest.mark.parametrize("length", [0, 1, 50, 399, 400, 401, 1000, 5000])
def test_a_cut_text_is_never_longer_than_its_limit(length: int) -> None:
    text = "".join(chr(97 + index % 26) for index in range(length))
    cut = cut_middle(text, 400)
    assert len(cut) <= 400
    assert (cut == text) == (length <= 400)


# ---- any history at all --------------------------------------------------------------------

_IDS = st.sampled_from(["c1", "c2", "c3"])
_RESPONSES = st.sampled_from(["r1", "r2", None])
_ITEMS: st.SearchStrategy[Item] = st.one_of(
    st.builds(lambda text: user_message(text), st.sampled_from(["", "hello"])),
    st.builds(
        lambda text, response, stopped: Message(
            role="assistant", content=(output_text(text),), response_id=response, interrupted=stopped
        ),
        st.sampled_from(["", "fine"]),
        _RESPONSES,
        st.sampled_from([None, True]),
    ),
    st.builds(lambda response: reasoning_item("hm", response_id=response), _RESPONSES),
    st.builds(
        lambda call_id, response, text: FunctionCall(
            name="f", call_id=call_id, response_id=response, arguments=text
        ),
        _IDS,
        _RESPONSES,
        st.sampled_from(["{}", "", "{bad"]),
    ),
    st.builds(lambda call_id: FunctionCallOutput(call_id=call_id, output="out"), _IDS),
)


@given(items=st.lists(_ITEMS, max_size=14), data=st.data())
def test_every_history_is_well_formed_for_a_template(items: list[Item], data: st.DataObject) -> None:
    if items and data.draw(st.booleans()):
        last = data.draw(st.sampled_from(items))
        items = [*items, Compaction(summary="before", last_item_id=last.id)]
    turns = turns_of(items, system="s")
    assert turns[0]["role"] == "system"
    waiting: list[str] = []
    for before, turn in zip([None, *turns], turns, strict=False):
        role = turn["role"]
        assert role != "user" or before is None or before["role"] != "user"
        if role == "tool":
            assert turn["tool_call_id"] in waiting
            waiting.remove(turn["tool_call_id"])
            continue
        assert not waiting
        waiting = [entry["id"] for entry in turn.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
    assert not waiting


def test_a_summary_replaces_what_it_stands_for_and_nothing_else() -> None:
    old, kept = user_message("old"), user_message("kept")
    turns = turns_of([old, Compaction(summary="sum", last_item_id=old.id), kept])
    assert turns == [{"role": "user", "content": f"{BACKGROUND}\nsum\n\nkept"}]


def test_thoughts_travel_beside_the_reply_they_led_to() -> None:
    items: list[Item] = [
        user_message("q"),
        reasoning_item("hm", response_id="r1"),
        Message(role="assistant", content=(output_text("a"),), response_id="r1"),
    ]
    assert turns_of(items)[1] == {"role": "assistant", "content": "a", "reasoning_content": "hm"}
