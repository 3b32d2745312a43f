"""Vi's keys in the program, for who turned them on; for everybody else no letter is anything but text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events

from app.settings.config import Value, resolve
from backend.engines.scripted import Pause, Step
from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


@asynccontextmanager
async def vi(scripts: Sequence[Sequence[Step]] = (), **fields: Any) -> AsyncIterator[Running]:
    settings = resolve({"vi_keys": Value(True, "test")}, environ={})
    async with running(scripts, settings=settings, **fields) as run:
        yield run


async def test_without_the_setting_every_letter_is_text() -> None:
    async with running() as run:
        await run.type("dd")
        await run.pilot.press("escape")
        await run.type("dwx0i")
        assert run.app.parts.draft.text == "dddwx0i"
        assert "insert" not in run.screen()[-1] and "normal" not in run.screen()[-1]


async def test_a_message_is_written_changed_and_sent() -> None:
    async with vi([["one"]]) as run:
        assert "insert" in run.screen()[-1]
        await run.type("hello wide world")
        await run.pilot.press("escape")
        await run.until(lambda: "normal" in run.screen()[-1])
        await run.pilot.press("b", "b", "d", "w")
        assert run.app.parts.draft.text == "hello world"
        await run.pilot.press("u")
        assert run.app.parts.draft.text == "hello wide world"
        await run.pilot.press("ctrl+r")
        assert run.app.parts.draft.text == "hello world"
        await run.pilot.press("c", "w", *"there", "escape", "A", "exclamation_mark", "enter")
        await run.until(lambda: run.texts("answer") == ["one"])
        assert run.texts("user") == ["hello there!"]
        await run.until(lambda: "insert" in run.screen()[-1])


async def test_esc_leaves_the_insert_mode_and_only_then_stops() -> None:
    gate = asyncio.Event()
    async with vi([["one", Pause(until=gate)]]) as run:
        await run.send("hi")
        await run.until(lambda: run.texts("answer") == ["one"])
        assert "esc esc stops" in run.seam
        await run.pilot.press("x", "escape")
        await run.until(lambda: "normal" in run.screen()[-1])
        assert run.app.chat.busy and not run.app.chat.view.stopping
        assert "esc esc" not in run.seam and "esc stops" in run.seam
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        assert run.app.parts.draft.text == "x"


async def test_paste_history_completion_and_help_are_as_ever() -> None:
    async with vi([["one"], ["two"]]) as run:
        await run.ask("first")
        await run.pilot.press("escape", "k")
        assert run.app.parts.draft.text == "first"
        await run.pilot.press("j")
        assert run.app.parts.draft.text == ""
        run.app.parts.draft.post_message(events.Paste("pasted\nlines\n" * 8))
        await run.until(lambda: run.app.parts.draft.text.startswith("[pasted"))
        await run.pilot.press("0", "x")
        assert run.app.parts.draft.text == "", "a folded paste goes as a whole"
        await run.pilot.press("u")
        assert run.app.parts.draft.whole.count("lines") == 8
        await run.pilot.press("d", "d", "question_mark")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        await run.pilot.press("i")
        await run.type("/mod")
        await run.until(lambda: run.app.parts.completion.opened)
        await run.pilot.press("escape", "escape")
        await run.until(lambda: "normal" in run.screen()[-1])
        assert not run.app.parts.completion.opened and run.app.parts.draft.text == "/mod"


async def test_a_selection_is_shown_and_cut() -> None:
    async with vi() as run:
        await run.type("one two three")
        await run.pilot.press("escape", "0", "w", "v", "e")
        assert "visual" in run.screen()[-1]
        assert run.app.parts.draft.selected_text == "two"
        await run.pilot.press("d")
        assert run.app.parts.draft.text == "one  three"
        await run.pilot.press("dollar_sign", "v", "b", "d")
        assert run.app.parts.draft.text == "one  "


async def test_a_selection_of_a_draft_that_gave_way_to_another_harms_nothing() -> None:
    async with vi() as run:
        await run.type("one two three")
        await run.pilot.press("escape", "v", "b")
        run.app.parts.draft.put("a")
        await run.pilot.press("b", "w", "e", "d")
        assert run.app.parts.draft.text in ("a", "")


async def test_at_the_conversation_they_move() -> None:
    text = "\n\n".join(f"line {number}" for number in range(80))
    async with vi([[text], ["last"]]) as run:
        await run.ask("many lines")
        await run.ask("again")
        await run.pilot.press("alt+up")
        first = run.app.parts.transcript.current
        await run.pilot.press("k", "k")
        assert run.app.parts.transcript.current not in (None, first)
        await run.pilot.press("g")
        await run.until(lambda: run.app.parts.transcript.scroll_offset.y == 0)
        await run.pilot.press("ctrl+d")
        await run.until(lambda: run.app.parts.transcript.scroll_offset.y > 0)
        await run.pilot.press("G")
        await run.until(lambda: run.app.parts.transcript.is_vertical_scroll_end)
        await run.pilot.press("slash")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.type("line 7")
        await run.pilot.press("enter")
        await run.until(lambda: "match" in run.seam)
        before = run.app.parts.transcript.found
        await run.pilot.press("n")
        assert run.app.parts.transcript.found != before
        await run.pilot.press("i")
        await run.type("x")
        assert run.app.parts.draft.text == "x"


async def test_ctrl_r_writes_another_variant_where_nothing_is_written() -> None:
    async with vi([["one"], ["two"]]) as run:
        await run.ask("hi")
        await run.pilot.press("escape", "ctrl+r")
        await run.until(lambda: run.texts("answer") == ["two"])
