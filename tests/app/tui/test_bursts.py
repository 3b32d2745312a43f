"""Keys that come in one read, as dictation, an expander or a slow line delivers them."""

from __future__ import annotations

import asyncio

import pytest
from textual.events import Key

from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)


def burst(run: Running, text: str, *before: str) -> None:
    for key in before:
        run.app.post_message(Key(key, None))
    for char in text:
        run.app.post_message(Key("enter", "\r") if char == "\r" else Key(char, char))


async def test_a_message_begun_and_sent_at_the_conversation_in_one_burst() -> None:
    async with running([["one"], ["two"]]) as run:
        await run.ask("first")
        run.app.parts.transcript.focus()
        await run.until(lambda: run.app.parts.transcript.has_focus)
        burst(run, "hello\r")
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        assert run.texts("user")[-1] == "hello"
        assert run.app.parts.draft.has_focus
        assert run.app.parts.draft.text == ""


async def test_enter_at_the_conversation_sends_no_draft() -> None:
    async with running([["one"]]) as run:
        await run.ask("first")
        run.app.parts.draft.put("unfinished")
        run.app.parts.transcript.focus()
        await run.until(lambda: run.app.parts.transcript.has_focus)
        burst(run, "\r")
        await run.pilot.pause()
        assert run.app.parts.draft.text == "unfinished"
        assert run.texts("user") == ["first"]


async def test_a_message_begun_and_sent_at_the_block_cursor_in_one_burst() -> None:
    async with running([["one"], ["two"]]) as run:
        await run.ask("first")
        await run.pilot.press("alt+up")
        await run.until(lambda: run.app.parts.transcript.current is not None)
        burst(run, "hello\r")
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        assert run.texts("user")[-1] == "hello"
        assert run.app.parts.draft.text == ""


async def test_the_key_that_moves_the_block_cursor_comes_in_the_same_burst() -> None:
    async with running([["one"], ["two"]]) as run:
        await run.ask("first")
        burst(run, "hello\r", "alt+up")
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        assert run.texts("user")[-1] == "hello"
        assert run.app.parts.draft.text == ""


@pytest.mark.parametrize("ups", [0, 1, 2])
async def test_keys_that_come_one_after_the_other_keep_their_order(ups: int) -> None:
    async with running([["one"], ["two"]]) as run:
        await run.ask("first")
        for _ in range(ups):
            await run.pilot.press("alt+up")
        run.app.screen.set_focus(run.app.parts.transcript)
        for char in "hello\r":
            burst(run, char)
            for _ in range(ups):
                await asyncio.sleep(0)
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        assert run.texts("user")[-1] == "hello"


@pytest.mark.parametrize("line", ["x" * 20_000, "word " * 4_000, ("x" * 60 + "\r") * 300 + "end"])
async def test_a_long_paste_without_brackets_costs_few_edits(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running([["one"]]) as run:
        draft = run.app.parts.draft
        edits: list[object] = []
        edit = draft.edit
        monkeypatch.setattr(draft, "edit", lambda *given: (edits.append(given), edit(*given))[1])
        burst(run, line)
        wanted = line.replace("\r", "\n")
        await run.until(lambda: draft.whole == wanted)
        assert len(edits) < len(line) // 4
        assert "[pasted " in draft.text
        draft.insert_text("!")
        assert draft.whole == wanted + "!"


async def test_a_key_behind_a_long_burst_acts_on_all_of_it() -> None:
    async with running([["one"]]) as run:
        draft = run.app.parts.draft
        burst(run, "a" * 300)
        run.app.post_message(Key("backspace", None))
        await run.until(lambda: draft.whole == "a" * 299)
        burst(run, "b" * 300 + "\r")
        await run.until(lambda: run.texts("user") == ["a" * 299 + "b" * 300])
