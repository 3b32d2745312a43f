"""The model sees the results of parallel calls in the order of the calls, whichever ended first."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.sessions.events import ElicitationRequestEvent, OutputItemDoneEvent
from app.sessions.items import FunctionCall, FunctionCallOutput, Item, user_message
from app.sessions.turn.history import turns_of
from backend.chat import ChatTemplate
from backend.types import ToolCall
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, call, listening
from tests.backend.chat import published
from tools.context import ToolContext

CITIES = ("Paris", "Oslo", "Rome", "Bern")


def result_turns(turns: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(turn["tool_call_id"], turn["content"]) for turn in turns if turn["role"] == "tool"]


def items_of(
    rounds: list[list[int]], *, ids: str = "own", missing: frozenset[int] = frozenset()
) -> list[Item]:
    """A turn of several rounds; each is the order in which the calls for its cities ended."""
    items: list[Item] = [user_message("weather?")]
    for number, order in enumerate(rounds):
        names = [
            "same" if ids == "same" else f"{ids}{number if ids == 'own' else ''}{at}"
            for at in range(len(order))
        ]
        for at in range(len(order)):
            text = json.dumps({"city": CITIES[at]})
            items.append(FunctionCall(name="weather", call_id=names[at], arguments=text, response_id="r"))
        for at in order:
            if at not in missing:
                # Of calls with one name, results come as the calls do.
                items.append(
                    FunctionCallOutput(call_id=names[at], output=f"in {CITIES[at]}", response_id="r")
                )
    return items


ROUNDS = st.lists(
    st.integers(1, 4).flatmap(lambda count: st.permutations(list(range(count)))), min_size=1, max_size=3
)


@given(rounds=ROUNDS, ids=st.sampled_from(["own", "again"]), missing=st.frozensets(st.integers(0, 3)))
def test_results_stand_in_the_order_of_their_calls(
    rounds: list[list[int]], ids: str, missing: frozenset[int]
) -> None:
    turns = turns_of(items_of(rounds, ids=ids, missing=missing))
    while turns:
        turn = turns.pop(0)
        calls = turn.get("tool_calls", ())
        for asked in calls:
            answered = turns.pop(0)
            assert answered["tool_call_id"] == asked["id"]
            city = json.loads(asked["function"]["arguments"])["city"]
            assert answered["content"] in (f"in {city}", "[This call has no result.]")


@pytest.mark.parametrize("name", published.names())
def test_every_published_template_shows_them_so(name: str) -> None:
    template = published.template(name)
    for order in ([2, 0, 1], [1, 2, 0], [2, 1, 0]):
        check_rendered(template, order)


CALLS = "{% for c in m.tool_calls %}[{{ c.function.arguments | tojson }}]{% endfor %}</s>{% endfor %}"
OTHERS = "{{ m.content }}{% else %}<{{ m.role }}>{{ m.content }}{% endif %}"
TOYS = {
    "by order": "{% for m in messages %}<{{ m.role }}>{{ m.content }}" + CALLS,
    "by number": "{% set n = namespace(i=0) %}{% for m in messages %}{% if m.role == 'tool' %}"
    "{% set n.i = n.i + 1 %}<result {{ n.i }}>" + OTHERS + CALLS,
    "by place": "{% for m in messages %}{% if m.role == 'tool' %}{% set before = messages[loop.index0 - 1] %}"
    "<result of {{ before.tool_calls[0].id if before.tool_calls else '?' }}>" + OTHERS + CALLS,
}


@pytest.mark.parametrize("name", list(TOYS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(order=st.permutations([0, 1, 2]))
def test_templates_that_link_by_order_show_them_so(name: str, order: list[int]) -> None:
    check_rendered(ChatTemplate(TOYS[name]), order)


def check_rendered(template: ChatTemplate, order: list[int]) -> None:
    text = template.render(turns_of(items_of([order])), tools=[])
    found = [text.find(f"in {city}") for city in CITIES[:3]]
    assert -1 not in found and found == sorted(found)


def test_the_library_orders_them_too() -> None:
    turns = turns_of(items_of([[0, 1, 2]]))
    shuffled = [*turns[:2], turns[4], turns[2], turns[3]]
    template = ChatTemplate(TOYS["by order"])
    assert template.render(shuffled) == template.render(turns)


@pytest.mark.parametrize("kind", ["markdown", "html"])
async def test_an_export_shows_each_result_behind_its_call(room: MakeRoom, kind: Any) -> None:
    chat = await room(["ok"])
    shown = [item.to_wire() for item in items_of([[2, 0, 1], [1, 0]], ids="again")]
    made = await chat.manager.create(initial_items=shown)
    text = await chat.manager.export(made.id, kind)
    places = re.findall(rf"(?<!in )({'|'.join(CITIES)})|in ({'|'.join(CITIES)})", text)
    assert len(places) == 10
    for (called, _), (_, answered) in zip(places[::2], places[1::2], strict=True):
        assert called == answered


# ---- in a session ------------------------------------------------------------------------


async def weather(arguments: dict[str, Any], context: ToolContext) -> str:
    """Ends in an order of its own: the last call first."""
    await GATES[arguments["city"]].wait()
    if arguments["city"] == "Rome":
        raise RuntimeError("no sensors in Rome")
    return f"in {arguments['city']}"


GATES: dict[str, asyncio.Event] = {}


async def three_calls(
    room: MakeRoom, *, effect: str = "nothing", ids: tuple[str, ...] = ("a", "b", "c")
) -> Room:
    GATES.clear()
    GATES.update({city: asyncio.Event() for city in CITIES})
    calls = [ToolCall(name, "weather", {"city": city}) for name, city in zip(ids, CITIES, strict=False)]
    tool = EchoTool(name="weather", effect=effect, action=weather)
    return await room(calls, ["ok"], ["more"], ["and more"], tools=[tool])


async def ended_in_reverse(chat: Room) -> None:
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("weather?")

        def done(event: Any) -> bool:
            return isinstance(event, OutputItemDoneEvent) and isinstance(event.item, FunctionCallOutput)

        for number, city in enumerate(("Rome", "Oslo", "Paris")):
            GATES[city].set()
            await heard.until(done, count=number + 1)
        await heard.status("idle")


EXPECTED = ["in Paris", "in Oslo", "The tool weather failed. RuntimeError: no sensors in Rome"]


@pytest.mark.parametrize("ids", [("a", "b", "c"), ("a", "a", "a"), ("", "", "")])
async def test_calls_that_end_in_reverse_keep_their_results(room: MakeRoom, ids: tuple[str, ...]) -> None:
    chat = await three_calls(room, ids=ids)
    await ended_in_reverse(chat)
    stored = [item for item in await chat.items() if isinstance(item, FunctionCallOutput)]
    assert [item.output for item in stored] == EXPECTED[::-1]
    asked = chat.sent[1][1]["tool_calls"]
    assert len({one["id"] for one in asked}) == 3
    assert result_turns(chat.sent[1]) == list(zip([one["id"] for one in asked], EXPECTED, strict=True))


async def test_they_do_so_after_a_reload_a_fork_and_an_import(room: MakeRoom, tmp_path: Path) -> None:
    chat = await three_calls(room)
    await ended_in_reverse(chat)
    await chat.say("and now?")
    forked = Room(chat.manager, chat.engine, await chat.manager.fork(chat.session_id))
    await forked.say("and now?")
    exported = tmp_path / "chat.jsonl"
    exported.write_text(await chat.manager.export(chat.session_id))
    [found] = await chat.manager.import_(exported)
    imported = Room(chat.manager, chat.engine, found)
    await imported.say("and now?")
    for sent in chat.sent[1:]:
        assert [content for _, content in result_turns(sent)][:3] == EXPECTED


async def test_refused_and_allowed_ones_among_each_other(room: MakeRoom) -> None:
    chat = await three_calls(room, effect="write")
    for gate in GATES.values():
        gate.set()
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("weather?")
        await heard.kind(ElicitationRequestEvent, count=3)
        asked = [event for event in heard.events if isinstance(event, ElicitationRequestEvent)]
        by_city = {event.params["arguments"]["city"]: event.elicitation_id for event in asked}
        for city, action in (("Rome", "decline"), ("Oslo", "accept"), ("Paris", "decline")):
            await chat.manager.resolve_elicitation(chat.session_id, by_city[city], {"action": action})
            await heard.until(
                lambda event, city=city: (
                    isinstance(event, OutputItemDoneEvent)
                    and isinstance(event.item, FunctionCall)
                    and event.item.status == "completed"
                    and city in event.item.arguments
                )
            )
        await heard.status("idle")
    contents = [content for _, content in result_turns(chat.sent[1])]
    assert contents == ["The user declined this call.", "in Oslo", "The user declined this call."]


async def test_two_rounds_with_the_same_ids_stay_apart(room: MakeRoom) -> None:
    first = [call("echo", "functions.echo:0", n=1), call("echo", "functions.echo:1", n=2)]
    second = [call("echo", "functions.echo:0", n=3), call("echo", "functions.echo:1", n=4)]
    chat = await room(first, second, ["ok"], tools=[EchoTool()])
    await chat.say()
    contents = [content for _, content in result_turns(chat.sent[2])]
    assert contents == [f"echo {{'n': {n}}}" for n in (1, 2, 3, 4)]


async def test_an_import_with_one_id_for_two_calls_keeps_both(room: MakeRoom, tmp_path: Path) -> None:
    shown: list[dict[str, Any]] = [user_message("hi").to_wire()]
    for n in (1, 2):
        shown.append(
            {"type": "function_call", "name": "w", "call_id": "x", "arguments": json.dumps({"n": n})}
        )
    shown += ({"type": "function_call_output", "call_id": "x", "output": str(n)} for n in (1, 2))
    chat = await room(["ok"])
    made = await chat.manager.create(initial_items=shown)
    exported = tmp_path / "chat.jsonl"
    exported.write_text(await chat.manager.export(made.id))
    [found] = await chat.manager.import_(exported)
    for session_id in (made.id, found):
        items = await chat.manager.list_items(session_id)
        assert [content for _, content in result_turns(turns_of(items))] == ["1", "2"]
    calls = [item for item in items if isinstance(item, FunctionCall)]
    assert len({item.call_id for item in calls}) == 2
