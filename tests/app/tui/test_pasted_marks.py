"""Only a first character that was typed makes a command of a draft, wherever the draft has been since."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.events import Paste

from app.frontend.history import History
from app.settings.config import Value, resolve
from app.tui.widgets import composer
from backend.engines.scripted import Pause
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_composer import burst

PASTED = [
    "// comment",
    "/* a */ int x;",
    "/etc/hosts is what?",
    "/help",
    "/model nothing of that name",
    "!touch ran",
    "!!x",
    "//x",
    "/new\nand more",
]
BITES = ["/help", "!touch ran", "//x"]


async def paste(run: Running, text: str) -> None:
    run.app.post_message(Paste(text))
    await run.until(lambda: run.app.parts.draft.text.endswith(text))


async def sent(run: Running, count: int = 1) -> str:
    """The text of the newest message, once there are so many answers."""
    await run.until(lambda: len(run.texts("answer")) == count and not run.app.chat.busy)
    assert run.app.screen_stack[1:] == []
    return next(item.text for item in reversed(await run.items()) if getattr(item, "role", "") == "user")


async def test_a_paste_goes_as_it_is(tmp_path: Path) -> None:
    async with running([["ok"]] * len(PASTED), workspace=tmp_path) as run:
        for count, text in enumerate(PASTED, 1):
            await paste(run, text)
            assert not run.app.parts.completion.opened
            await run.pilot.press("enter")
            assert await sent(run, count) == text
            assert ("does not run" in run.seam) == (text not in ("// comment", "/* a */ int x;", PASTED[2]))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("opened", [True, False])
async def test_keys_that_come_at_once_are_a_paste_where_they_are_lines(
    opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(composer, "SETTLE_S", 1.0)  # a busy machine is slow to read them
    async with running([["ok"]]) as run:
        run.app.parts.draft.picking = lambda: opened
        await burst(run, "/new\rand more")
        await run.until(lambda: not run.app.parts.draft.beginning.typed)
        run.app.parts.draft.picking = lambda: False
        await run.pilot.press("enter")
        assert await sent(run) == "/new\nand more"


async def test_words_that_no_command_has_are_sent_with_a_hint() -> None:
    async with running([["ok"], ["ok"], ["ok"]]) as run:
        for count, text in enumerate(["/etc/hosts is what?", "// comment", "/shrug at me"], 1):
            await run.send(text)
            assert await sent(run, count) == text
            assert f"{text.split()[0]} is not a command" in run.seam


@pytest.mark.parametrize("text", BITES)
async def test_typing_in_front_of_a_paste_decides(text: str) -> None:
    async with running([["ok"]]) as run:
        await paste(run, text)
        await run.pilot.press("home", "x", "backspace", "end", "space", "x")
        await run.pilot.press("enter")
        assert await sent(run) == f"{text} x"


async def test_a_typed_slash_makes_a_command_of_what_was_pasted() -> None:
    async with running() as run:
        await paste(run, "settings")
        await run.pilot.press("home", "slash", "end", "enter")
        await run.until(lambda: type(run.app.screen).__name__ == "SettingsScreen")


async def test_an_argument_may_be_pasted() -> None:
    async with running([["ok"]]) as run:
        await run.ask("hi")
        await run.type("/rename ")
        await paste(run, "!a title")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.chat.title == "!a title")


async def test_a_paste_that_was_removed_leaves_typing_as_it_was() -> None:
    async with running() as run:
        await paste(run, "!x")
        await run.pilot.press("backspace", "backspace")
        await run.type("/settings")
        await run.pilot.press("enter")
        await run.until(lambda: type(run.app.screen).__name__ == "SettingsScreen")


async def test_undo_and_redo_do_not_make_it_typed() -> None:
    async with running([["ok"]]) as run:
        await paste(run, "!x")
        run.app.parts.draft.action_undo()
        assert run.app.parts.draft.text == ""
        run.app.parts.draft.action_redo()
        await run.pilot.press("enter")
        assert await sent(run) == "!x"


@pytest.mark.parametrize("text", BITES)
async def test_what_was_typed_before_it_and_undone_does_not_make_it_typed(text: str) -> None:
    async with running([["ok"]]) as run:
        await paste(run, text)
        await run.pilot.press("home", text[0], "ctrl+underscore")
        assert (run.app.parts.draft.text, run.app.parts.draft.beginning.typed) == (text, False)
        await run.pilot.press("end", "space", "x", "enter")
        assert await sent(run) == f"{text} x"


@pytest.mark.parametrize("text", BITES)
@pytest.mark.parametrize("keys", ["xP", "~", "v~", "ylvp", "ylvdP", "xuP", "xPuu"])
async def test_no_key_of_vi_makes_it_typed(text: str, keys: str) -> None:
    async with running([["ok"]], settings=resolve({"vi_keys": Value(True, "test")}, environ={})) as run:
        await paste(run, text)
        await run.pilot.press("escape", "0", *keys)
        await run.until(lambda: run.app.parts.draft.text[:1] == text[0])
        assert not run.app.parts.draft.beginning.typed
        await run.pilot.press("escape", "A", "space", "x", "enter")
        assert (await sent(run))[:1] == text[0]


@pytest.mark.parametrize("text", BITES)
async def test_the_history_sends_it_again_as_it_was(text: str, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    async with running([["ok"], ["ok"]], history=History(file)) as run:
        await paste(run, text)
        await run.pilot.press("enter")
        assert await sent(run) == text
        await run.pilot.press("up", "enter")
        assert await sent(run, 2) == text
    async with running([["ok"]], history=History(file)) as run:
        await run.pilot.press("up", "enter")
        assert await sent(run) == text


async def test_a_command_of_the_history_is_one_again() -> None:
    async with running() as run:
        await run.type("/settings")
        await run.pilot.press("enter")
        await run.until(lambda: type(run.app.screen).__name__ == "SettingsScreen")
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        await run.pilot.press("up", "enter")
        await run.until(lambda: type(run.app.screen).__name__ == "SettingsScreen")


@pytest.mark.parametrize("text", BITES)
async def test_a_walk_through_the_history_gives_it_back(text: str) -> None:
    history = History()
    history.add("hello")
    async with running([["ok"]], history=history) as run:
        await paste(run, text)
        await run.pilot.press("home", "up")
        assert run.app.parts.draft.text == "hello"
        await run.pilot.press("down", "enter")
        assert await sent(run) == text


@pytest.mark.parametrize("text", BITES)
async def test_a_draft_that_is_opened_again_is_what_it_was(text: str, tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    async with running([["ok"]], store=store) as run:
        await run.ask("first")
        await paste(run, text)
        first = run.app.chat.id
        await run.app.chats.new_chat()
        assert run.app.parts.draft.text == ""
        await run.app.chats.open_chat(str(first))
        assert run.app.parts.draft.text
    async with running([["ok"], ["ok"]], store=store, start={"last": True}) as run:
        await run.until(lambda: run.app.parts.draft.text)
        await run.pilot.press("enter")
        assert await sent(run, 2) == text


@pytest.mark.parametrize("text", BITES)
async def test_a_queued_message_is_edited_and_removed_as_it_is(text: str) -> None:
    gate = asyncio.Event()
    async with running([["a", Pause(until=gate)], ["ok"]]) as run:
        await run.send("go")
        await run.until(lambda: run.texts("answer") == ["a"])
        await paste(run, text)
        await run.pilot.press("enter")
        await run.until(lambda: len(run.app.parts.waiting.messages) == 1)
        item = run.app.parts.waiting.messages[0][0]
        run.app.drafts.edit("queued", item, run.app.chat.facts.contents[item])
        assert run.app.parts.draft.text == text
        await run.type(" x")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.drafts.editing is None)
        content = run.app.chat.facts.contents[item]
        assert [block["text"] for block in content] == [f"{text} x"]
        run.app.on_waiting_list_remove(run.app.parts.waiting.Remove(item))
        await run.until(lambda: not run.app.parts.waiting.messages)
        gate.set()
        await run.until(lambda: not run.app.chat.busy)
        await run.pilot.press("up", "enter")
        assert await sent(run, 2) == f"{text} x"


@pytest.mark.parametrize("text", BITES)
async def test_a_draft_behind_an_edit_is_what_it_was(text: str) -> None:
    async with running([["ok"], ["ok"]]) as run:
        await run.ask("first")
        message = run.app.chat.view.last_message("user")
        assert message is not None
        await paste(run, text)
        run.app.drafts.edit("message", message.id, message.content)
        run.app.drafts.leave_edit()
        assert run.app.parts.draft.text == text
        await run.pilot.press("enter")
        assert await sent(run, 2) == text


@pytest.mark.parametrize("text", BITES)
async def test_what_an_editor_began_is_text(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nprintf '%s' '{text}' > \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    async with running([["ok"]]) as run:
        await run.pilot.press("ctrl+g")
        await run.until(lambda: run.app.parts.draft.text == text)
        await run.pilot.press("enter")
        assert await sent(run) == text


async def test_a_command_that_an_editor_went_on_with_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf " my title" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    async with running([["ok"]]) as run:
        await run.ask("hi")
        await run.type("/rename")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: run.app.parts.draft.text == "/rename my title")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.chat.title == "my title")


async def test_a_message_that_could_not_be_sent_is_still_pasted(tmp_path: Path) -> None:
    big = tmp_path / "big.txt"
    big.write_bytes(b"x" * 11_000_000)
    async with running(workspace=tmp_path) as run:
        await paste(run, "!cat @big.txt please")
        await run.pilot.press("enter")
        await run.until(lambda: "big.txt" in run.seam)
        assert run.app.parts.draft.text == "!cat @big.txt please"
        assert not run.app.parts.draft.beginning.typed
