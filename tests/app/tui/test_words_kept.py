"""No word of a person is lost, sent to another chat, or kept where nothing may be kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.frontend.history import History
from app.frontend.start import Start
from app.sessions.events import SessionHeartbeatEvent
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.sessions.turn.event_bus import MAX_BEHIND
from app.settings.config import resolve
from app.terminal.glyphs import UNICODE
from app.terminal.theming import palette, read
from app.tui.app import FiresideApp
from backend.engines.scripted import Pause, ScriptedEngine
from tests.app.tui.pilot import Running, running

MARK = "zanzibar"
LONG = "\n".join(f"line {number}" for number in range(20))


def files_with_mark(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*") if file.is_file() and MARK.encode() in file.read_bytes()]


@asynccontextmanager
async def starting(folder: Path, **start: Any) -> AsyncIterator[tuple[Running, threading.Event]]:
    """A program whose chats are opened when the event is set."""
    gate = threading.Event()
    engine = ScriptedEngine([["an answer"]])

    def make(_: Start) -> SessionManager:
        gate.wait(20)
        return SessionManager(engine=engine, store=Store(folder / "chats.db"))

    app = FiresideApp(
        Start(resolve({}), **start),
        palette(read("hearth")),
        UNICODE,
        make=make,
        motion=False,
        history=History(folder / "history.jsonl"),
    )
    try:
        async with app.run_test(size=(100, 32)) as pilot:
            await pilot.pause()
            yield Running(app, pilot, engine), gate
    finally:
        gate.set()
        await app.startup.close_down()


@pytest.mark.parametrize("sent", [True, False])
async def test_what_is_typed_before_a_private_chat_opens_reaches_no_disk(tmp_path: Path, sent: bool) -> None:
    async with starting(tmp_path, private=True) as (run, gate):
        run.app.parts.draft.put(MARK)
        await run.pilot.pause()
        if sent:
            await run.pilot.press("enter")
        gate.set()
        await run.until(lambda: run.app.model.name)
        if sent:
            await run.until(lambda: run.texts("answer"))
        await run.app.drafts.keep()
        assert run.app.chat.private
        assert run.texts("user") == ([MARK] if sent else [])
        assert run.app.parts.draft.text == ("" if sent else MARK)
    assert files_with_mark(tmp_path) == []


async def test_what_is_typed_before_a_chat_is_resumed_goes_to_that_chat(tmp_path: Path) -> None:
    async with running([["one"]], store=tmp_path / "chats.db") as run:
        await run.ask("first")
        first = run.app.chat.id
        run.app.parts.draft.put("kept from before")
        await run.app.drafts.keep()
    async with starting(tmp_path, last=True) as (run, gate):
        run.app.parts.draft.put("goes on")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.parts.draft.text == "")
        run.app.parts.draft.put("half typed")
        gate.set()
        await run.until(lambda: run.texts("answer") == ["one", "an answer"])
        assert run.app.chat.id == first
        assert run.texts("user") == ["first", "goes on"]
        assert run.app.parts.draft.text == "kept from before\nhalf typed"
        assert len(await run.app.manager.list(10)) == 1


async def _one_waits(run: Running) -> None:
    await run.send("first")
    await run.until(lambda: run.texts("answer") == ["one"])


async def test_a_waiting_message_keeps_its_paste_and_file_when_it_is_edited(tmp_path: Path) -> None:
    gate = asyncio.Event()
    (tmp_path / "a.txt").write_text("content")
    async with running([["one", Pause(until=gate)], ["two"]], workspace=tmp_path) as run:
        await _one_waits(run)
        run.app.parts.draft.put("look @a.txt at ")
        run.app.parts.draft.paste(LONG)
        await run.pilot.press("enter")
        await run.until(lambda: len(run.app.parts.waiting.messages) == 1)
        await run.pilot.press("alt+up", "e")
        await run.until(lambda: run.app.drafts.editing is not None)
        assert run.app.parts.draft.text == "look @a.txt at [pasted 20 lines]"
        run.app.parts.draft.insert_text(" please")
        await run.pilot.press("enter", "enter")
        await run.until(lambda: run.app.drafts.editing is None)
        gate.set()
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        sent = [item for item in await run.items() if getattr(item, "role", "") == "user"][-1]
        assert sent.text == f"look @a.txt at {LONG} please"
        assert sent.content[0]["type"] == "input_file"


async def test_a_waiting_message_that_is_taken_back_is_whole_in_the_history() -> None:
    gate = asyncio.Event()
    async with running([["one", Pause(until=gate)], ["two"]]) as run:
        await _one_waits(run)
        run.app.parts.draft.paste(LONG)
        await run.pilot.press("enter")
        await run.until(lambda: len(run.app.parts.waiting.messages) == 1)
        await run.pilot.press("alt+up", "x")
        await run.until(lambda: not run.app.parts.waiting.messages)
        assert run.app.parts.draft.history_of_messages.entries[-1] == LONG
        gate.set()


@pytest.mark.parametrize("text", ["//server/share", "!!important", "/etc/hosts", LONG])
async def test_an_edit_begins_with_what_was_sent(text: str) -> None:
    async with running([["one"], ["two"]]) as run:
        run.app.parts.draft.put(f"{text[0]}{text}" if text[0] in "/!" else "")
        if text == LONG:
            run.app.parts.draft.paste(text)
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["one"])
        entry = next(entry for entry in run.entries if entry.kind == "user")
        item = run.app.chat.view.item_of(entry)
        run.app.drafts.edit("message", item.id, item.content)  # type: ignore[union-attr]
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["two"])
        assert [item.text for item in await run.items() if getattr(item, "role", "") == "user"] == [text]


async def test_an_edit_is_left_behind_with_its_chat_and_its_words_are_found_again(tmp_path: Path) -> None:
    async with running([["one"]], store=tmp_path / "chats.db") as run:
        await run.ask("first")
        first = run.app.chat
        run.app.parts.draft.put("my draft")
        entry = next(entry for entry in run.entries if entry.kind == "user")
        run.app.drafts.edit("message", entry.id, first.view.item_of(entry).content)  # type: ignore[union-attr]
        run.app.parts.draft.put("first, changed")
        await run.app.drafts.keep()
        assert (await first.manager.get(str(first.id))).draft == "my draft\n\nfirst, changed"
        await run.pilot.press("ctrl+n")
        await run.until(lambda: run.app.chat is not first)
        assert run.app.parts.draft.text == ""
        assert run.app.drafts.editing is None
        await run.app.chats.open_chat(str(first.id))
        assert run.app.parts.draft.text == "my draft"
        assert run.app.parts.draft.history_of_messages.entries[-1] == "first, changed"


async def test_output_of_a_private_shell_line_stays_with_its_chat(tmp_path: Path) -> None:
    start = {"private": True}
    async with running([["one"]], store=tmp_path / "chats.db", workspace=tmp_path, start=start) as run:
        private = run.app.chat
        await run.send(f"!echo {MARK}")
        await run.until(lambda: private.attached)
        await run.pilot.press("ctrl+n")
        await run.until(lambda: not run.app.chat.private)
        await run.ask("hello")
        assert private.attached
    assert files_with_mark(tmp_path) == []


async def test_words_typed_while_a_draft_is_stored_are_not_lost(tmp_path: Path) -> None:
    async with running([["one"]], store=tmp_path / "chats.db") as run:
        await run.ask("first")
        first = run.app.chat
        run.app.parts.draft.put("draft")
        stored, keep = asyncio.Event(), first.keep_draft

        async def keep_slowly(text: str) -> None:
            await stored.wait()
            await keep(text)

        first.keep_draft = keep_slowly  # type: ignore[method-assign]
        run.app.action_new_chat()
        await run.until(lambda: run.app.chat is not first)
        run.app.parts.draft.insert_text("for the new one")
        stored.set()
        await run.until(lambda: first.kept_draft == "draft")
        assert (first.draft, run.app.parts.draft.text) == ("draft", "for the new one")


@pytest.mark.parametrize("at_rest", [True, False])
async def test_a_chat_that_fell_behind_its_events_goes_on_whole(at_rest: bool) -> None:
    gate = asyncio.Event()
    async with running([["one ", Pause(until=gate), "two"], ["three"]]) as run:
        await run.send("first")
        await run.until(lambda: run.texts("answer") == ["one "])
        if at_rest:
            gate.set()
            await run.until(lambda: not run.app.chat.busy)
        live = await run.app.chat.manager.live(str(run.app.chat.id))  # type: ignore[attr-defined]
        for _ in range(MAX_BEHIND + 10):
            live.bus.publish(SessionHeartbeatEvent())
        await run.until(lambda: live.bus.listeners)
        gate.set()
        await run.until(lambda: not run.app.chat.busy and run.texts("answer") == ["one two"])
        await run.ask("second")
        assert run.texts("answer") == ["one two", "three"]
        assert run.texts("user") == ["first", "second"]


async def test_a_draft_is_kept_while_the_person_types_on_and_on(tmp_path: Path) -> None:
    async with running([["one"]], store=tmp_path / "chats.db") as run:
        await run.ask("first")
        async with asyncio.timeout(8):
            while not run.app.chat.kept_draft:
                run.app.parts.draft.insert_text("on and ")
                await run.pilot.pause(0.05)
        stored = await run.app.chat.manager.get(str(run.app.chat.id))
        assert stored.draft.startswith("on and ")


@pytest.mark.parametrize("draft", ["", "a draft of before"])
async def test_words_for_a_message_that_was_sent_meanwhile_stay_in_the_draft(draft: str) -> None:
    gate, last = asyncio.Event(), asyncio.Event()
    async with running([["a", Pause(until=gate)], ["b", Pause(until=last)], ["c"]]) as run:
        await run.send("one")
        await run.until(lambda: run.texts("answer"))
        await run.send("two")
        await run.until(lambda: run.app.parts.waiting.messages)
        run.app.parts.draft.put(draft)
        item_id = run.app.parts.waiting.messages[0][0]
        run.app.drafts.edit("queued", item_id, run.app.chat.facts.contents[item_id])
        run.app.parts.draft.put("two, but better")
        gate.set()
        await run.until(lambda: run.texts("user") == ["one", "two"])
        await run.pilot.press("enter")
        await run.until(lambda: "stays in the draft" in run.seam)
        assert ("Press up" in run.seam) == bool(draft)
        assert run.app.parts.draft.text == "two, but better" and run.app.drafts.editing is None
        last.set()
        await run.until(lambda: not run.app.chat.busy)
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["a", "b", "c"])
        assert run.texts("user")[-1] == "two, but better"
        assert not draft or draft in run.app.parts.draft.history_of_messages.entries
