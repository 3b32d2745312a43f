"""Search over all chats, and the chats picker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from app.tui.screens.chats import ChatsPicker, entries_of
from app.tui.screens.hits import by_chat, counted, hit_of, places_of, shown_from
from app.tui.screens.search import FILTERED_LIMIT, LIMIT, Found, SearchScreen
from app.tui.widgets.rows import RowList
from app.tui.widgets.side import ChatLine
from backend.engines.scripted import ScriptedEngine
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness, settled, until

NOW = datetime(2026, 11, 29, 14, 5).timestamp()
D = 86400


MODELS = {"b": "SmolLM2-360M-Instruct-Q8_0", "d": "Qwen3-4B-Q4_K_M.gguf", "f": "SmolLM2-360M-Instruct"}


def hit(
    session: str, item: str, title: str, kind: str, role: str | None, at: float, text: str
) -> dict[str, Any]:
    return {
        "session_id": session,
        "item_id": item,
        "title": title,
        "type": kind,
        "role": role,
        "llm_model": MODELS.get(item),
        "created_at": int(at),
        "preview": text,
        "archived": session == "4",
    }


TAIL, TESTS = "Fix the tail reader", "Unit tests for parser"
HITS = [
    hit("1", "a", TAIL, "message", "user", NOW - 180, "What does this mean: IndexError: list index out"),
    hit("1", "b", TAIL, "message", "assistant", NOW - 170, "so it asks for buf[count]: IndexError. Walking…"),
    hit("1", "c", TAIL, "function_call_output", None, NOW - 175, "…line 19, in tail IndexError: list index"),
    hit(
        "2",
        "d",
        TESTS,
        "message",
        "assistant",
        NOW - 9000,
        "pytest.raises(IndexError) covers the empty",
    ),
    hit("2", "e", TESTS, "reasoning", None, NOW - 9100, "an empty list gives an index error, not a"),
    hit("3", "f", "Regex for dates", "message", "assistant", NOW - D, "hence IndexError: no such group"),
    hit("4", "g", "Explain KV cache", "message", "user", NOW - 40 * D, "is an index error possible?"),
]


def screen(app: Harness, query: str = "", hits: Sequence[dict[str, Any]] = HITS) -> SearchScreen:
    async def search(query: str, limit: int) -> Sequence[dict[str, Any]]:
        assert limit in (LIMIT, FILTERED_LIMIT)
        if query == "fails":
            raise FiresideError("The chats are locked.")
        return hits if query.startswith("index") else []

    ticks = iter(range(10_000))
    return SearchScreen(app, query=query, search=search, clock=lambda: NOW, timer=lambda: next(ticks) * 0.003)


@pytest.mark.parametrize(
    ("name", "theme", "size"),
    [("search-140x40-hearth", "hearth", (140, 40)), ("search-80x24-daylight", "daylight", (80, 24))],
)
async def test_the_search_beside_its_picture(name: str, theme: str, size: tuple[int, int]) -> None:
    app = Harness(theme=theme)
    async with app.run_test(size=size) as pilot:
        await app.open(screen(app, "index error"))
        await settled(app, pilot)
        snapshots.check(app, name)


async def test_a_hit_is_opened_with_the_words_that_found_it() -> None:
    app = Harness()
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(screen(app))
        await pilot.press(*"index")
        await settled(app, pilot)
        await pilot.press("down", "down", "down", "enter")
        assert app.result == Found("2", "d", "index")


async def test_filters_are_reached_with_tab_and_narrow_what_is_shown() -> None:
    app = Harness()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.open(screen(app, "index"))
        await settled(app, pilot)
        await pilot.press("tab", "down")
        assert any("2 matches" not in line and "role you" in line for line in snapshots.text_of(app))
        text = "\n".join(snapshots.text_of(app))
        assert "Explain KV cache" in text and "Regex for dates" not in text
        await pilot.press("right", "right", "down", "down", "tab")
        text = "\n".join(snapshots.text_of(app))
        assert "since a week" in text and "Explain KV cache" not in text
        await pilot.press("tab", "up", "up", "right", "down", "right", "up", "tab")
        text = "\n".join(snapshots.text_of(app))
        assert "role any" in text and "archived hidden" in text and "Explain KV cache" not in text
        await pilot.press("tab", "right", "down", "tab")
        await settled(app, pilot)
        text = "\n".join(snapshots.text_of(app))
        assert "model Qwen3 4B" in text and "1 match in 1 chat" in text


async def test_filters_are_chosen_with_the_mouse_and_leave_no_older_hit_out() -> None:
    asked: list[int] = []

    async def search(query: str, limit: int) -> Sequence[dict[str, Any]]:
        asked.append(limit)
        return HITS

    app = Harness()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.open(SearchScreen(app, query="index", search=search, clock=lambda: NOW))
        await settled(app, pilot)
        await pilot.click("#filters", offset=(3, 0))
        await settled(app, pilot)
        assert any("role you" in line for line in snapshots.text_of(app))
        assert asked == [LIMIT, FILTERED_LIMIT]
        await pilot.click(offset=(1, 1))
        assert app.result is None


async def test_one_search_runs_at_a_time_and_the_last_words_are_looked_for() -> None:
    gate = asyncio.Event()
    asked: list[str] = []

    async def search(query: str, limit: int) -> Sequence[dict[str, Any]]:
        asked.append(query)
        await gate.wait()
        return HITS

    app = Harness()
    async with app.run_test(size=(120, 40)) as pilot:
        await app.open(SearchScreen(app, search=search, clock=lambda: NOW))
        await pilot.press(*"index")
        await until(pilot, lambda: asked)
        gate.set()
        await until(pilot, lambda: app.screen.query_one(RowList).selected)
        await settled(app, pilot)
        assert asked[-1] == "index" and len(asked) <= 2


@given(st.text(min_size=1, max_size=8), st.text(max_size=300), st.integers(12, 90))
def test_what_was_found_is_in_view(word: str, before: str, room: int) -> None:
    text = f"{before} {word}"
    start = shown_from(text, word, room)
    first = next(iter(places_of(word, text)), None)
    if first is not None and cell_len(text[first[0] : first[1]]) < room // 2:
        assert start <= first[0]
        assert cell_len(text[start : first[1]]) <= room


async def test_no_words_no_match_and_a_failure_are_told() -> None:
    app = Harness()
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(screen(app))
        await settled(app, pilot)
        assert any("All words must occur" in line for line in snapshots.text_of(app))
        await pilot.press(*"zzz")
        await settled(app, pilot)
        assert any("No matches for zzz." in line for line in snapshots.text_of(app))
        await pilot.press("backspace", "backspace", "backspace", *"fails")
        await settled(app, pilot)
        assert any("The chats are locked." in line for line in snapshots.text_of(app))
        await pilot.press("enter")
        assert app.result == "not closed yet"


async def test_hostile_titles_and_previews_stay_on_their_rows() -> None:
    evil = "[red]\x1b]52;c;AAAA\x07\u202eevil\n\n\u2028" + "漢" * 500
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(
            screen(app, "index", [hit("1", "a", evil, "message", "user", 10**15, f"index {evil}")])
        )
        await settled(app, pilot)
        text = snapshots.text_of(app)
        assert "\x1b" not in "".join(text) and sum("[red]" in line for line in text) == 2


def test_words_that_touch_are_marked_as_one() -> None:
    assert places_of("index error", "an IndexError, index") == [(3, 13), (15, 20)]


@given(st.text(max_size=30), st.text(max_size=200))
def test_places_are_sorted_apart_and_inside(query: str, text: str) -> None:
    end = -1
    for start, stop in places_of(query, text):
        assert end < start < stop <= len(text)
        end = stop


def test_counts_in_words() -> None:
    hits = [hit_of(one) for one in HITS]
    assert counted(hits, 0.0031, LIMIT) == "7 matches in 4 chats, 3 ms"
    assert counted(hits[:1], 0, LIMIT) == "1 match in 1 chat, 1 ms"
    assert counted(hits, 0.01, limit=7) == "over 7 matches in 4 chats, 10 ms"
    assert [len(group) for group in by_chat(hits).values()] == [3, 2, 1, 1]


async def test_a_real_store_is_searched() -> None:
    app = Harness()
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create(
            title="About tails", initial_items=[message("where is the tail reader")]
        )
        app.manager = manager
        async with app.run_test(size=(100, 30)) as pilot:
            await app.open(SearchScreen(app, query="tail rea"))
            await settled(app, pilot)
            await pilot.press("enter")
            assert app.result.session_id == session.id and app.result.query == "tail rea"


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


# ---- the chats picker ----------------------------------------------------------------------


def test_chats_are_grouped_and_those_put_away_come_last() -> None:
    chats = [
        ChatLine("1", "old", int(NOW - D)),
        ChatLine("2", "away", int(NOW)),
        ChatLine("3", "now", int(NOW)),
    ]
    groups = [(entry.key, entry.group) for entry in entries_of(chats, NOW, ["2"])]
    assert groups == [("3", "today"), ("1", "yesterday"), ("2", "archived")]


TITLES = ["Sourdough", "Regex for dates", None, "Trip by night train"]


async def listed(limit: int, *, include_archived: bool) -> list[Any]:
    return [
        SimpleNamespace(
            id=str(number),
            title=title,
            updated_at=int(NOW - number * D),
            pinned=False,
            archived=number == 1,
            status="idle",
            pending_elicitations_count=0,
            labels={},
        )
        for number, title in enumerate(TITLES)
    ]


async def nothing() -> list[Any]:
    return []


async def test_a_chat_is_found_by_a_part_of_its_title() -> None:
    app = Harness(manager=SimpleNamespace(list=listed, deleted=nothing))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(ChatsPicker(app, clock=lambda: NOW))
        await settled(app, pilot)
        await pilot.press(*"ngt")
        await settled(app, pilot)
        assert any("1 of 4" in line for line in snapshots.text_of(app))
        await pilot.press("enter")
        assert app.result == "3"


@pytest.mark.parametrize(
    ("name", "theme", "size"),
    [("chats-80x24-hearth", "hearth", (80, 24)), ("chats-140x40-daylight", "daylight", (140, 40))],
)
async def test_the_chats_with_the_open_one_marked(name: str, theme: str, size: tuple[int, int]) -> None:
    app = Harness(theme=theme, manager=SimpleNamespace(list=listed, deleted=nothing))
    async with app.run_test(size=size) as pilot:
        await app.open(ChatsPicker(app, current="2", clock=lambda: NOW))
        await settled(app, pilot)
        snapshots.check(app, name)


async def test_a_chat_is_put_away_and_taken_out_again() -> None:
    app = Harness()
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        one = await manager.create(title="one", initial_items=[message("hi")])
        await manager.create(title="two", initial_items=[message("hi")])
        app.manager = manager
        async with app.run_test(size=(80, 24)) as pilot:
            await app.open(ChatsPicker(app, current=one.id))
            await settled(app, pilot)
            await pilot.press("ctrl+x")
            await settled(app, pilot)
            assert [chat.title for chat in await manager.list()] == ["two"]
            assert ("close_chat", one.id) in app.asked
            text = "\n".join(snapshots.text_of(app))
            assert "ctrl+x unarchives" in text and "archived, at the end" in text
            await pilot.press("ctrl+x")
            await settled(app, pilot)
            assert {chat.title for chat in await manager.list()} == {"one", "two"}
            assert any("ctrl+x archives" in line for line in snapshots.text_of(app))


async def test_a_deleted_chat_is_taken_back_long_after_and_one_without_a_word_is_not_offered() -> None:
    app = Harness()
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        one = await manager.create(title="one", initial_items=[message("hi")])
        empty = await manager.create()
        for session in (one, empty):
            await manager.delete(session.id)
        app.manager = manager
        async with app.run_test(size=(80, 24)) as pilot:
            await app.open(ChatsPicker(app))
            await settled(app, pilot)
            text = "\n".join(snapshots.text_of(app))
            assert "deleted, kept for 30 days" in text and "enter restores" in text
            assert "new chat" not in text
            await pilot.press("ctrl+x")
            await settled(app, pilot)
            assert await manager.list() == []
            await pilot.press("enter")
            await settled(app, pilot)
            assert app.result == one.id and [chat.id for chat in await manager.list()] == [one.id]


async def test_no_chats_at_all_says_how_to_begin() -> None:
    async def none(limit: int, *, include_archived: bool) -> list[Any]:
        return []

    app = Harness(manager=SimpleNamespace(list=none, deleted=nothing))
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(ChatsPicker(app))
        await settled(app, pilot)
        assert any("Your first message starts one." in line for line in snapshots.text_of(app))
