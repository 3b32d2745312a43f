"""Line by line too, only a first character that was typed makes a command of a line."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.clipboard import ClipboardData
from prompt_toolkit.history import InMemoryHistory

from app.repl.beginnings import Beginnings
from app.repl.console import Line, PlainConsole
from tests.app.repl.chatting import chat, last_user_text
from tests.app.repl.test_terminal import scripted

BITES = ["/help", "!touch ran", "//x", "/* a */ x", "// comment", "/etc/hosts is what?"]


@pytest.mark.parametrize("text", BITES)
async def test_a_pasted_line_is_sent_as_it_is(text: str, tmp_path: Path) -> None:
    told = await chat(Line(text, text, typed=False), scripts=[["fine"]], workspace=str(tmp_path))
    assert last_user_text(told.engine) == text
    assert not (tmp_path / "ran").exists()
    assert told.seen.count("Sent as text") == (text in BITES[:3])


@pytest.mark.parametrize("text", ["/etc/hosts is what?", "// comment", "/shrug at me", "/etc is"])
async def test_words_that_no_command_has_are_sent_with_a_hint(text: str) -> None:
    told = await chat(text, scripts=[["fine"]])
    assert last_user_text(told.engine) == text
    assert f"{text.split()[0]} is not a command" in told.seen


@pytest.mark.parametrize("text", ["/modle", "/modle smollm", "/modell x"])
async def test_a_command_that_was_mistyped_is_told(text: str) -> None:
    told = await chat(text, scripts=[["fine"]])
    assert not told.engine.requests
    assert "Did you mean /model?" in told.seen


def edited() -> tuple[Buffer, Beginnings]:
    buffer, beginnings = Buffer(history=InMemoryHistory()), Beginnings()
    buffer.on_text_changed += beginnings.changed
    buffer.on_text_insert += beginnings.inserted
    return buffer, beginnings


def put(buffer: Buffer, beginnings: Beginnings, text: str) -> None:
    beginnings.pasting = True
    buffer.insert_text(text)
    beginnings.pasting = False


def test_who_wrote_the_first_character() -> None:
    buffer, beginnings = edited()
    for char in "/he":
        buffer.insert_text(char)
    put(buffer, beginnings, "lp /x")
    assert beginnings.typed
    buffer.cursor_position = 0
    put(buffer, beginnings, "!x")
    assert not beginnings.typed
    buffer.cursor_position = 0
    buffer.insert_text("/")
    assert beginnings.typed
    buffer.delete_before_cursor()
    assert not beginnings.typed
    buffer.cursor_position = len(buffer.text)
    buffer.delete_before_cursor(len(buffer.text))
    buffer.insert_text("/")
    assert beginnings.typed
    beginnings.reset("/x", typed=False)
    assert not beginnings.typed


@pytest.mark.parametrize("text", ["!x", "/help", "//x"])
def test_the_same_mark_before_it_that_goes_again_does_not_make_it_typed(text: str) -> None:
    for goes in (Buffer.delete_before_cursor, Buffer.undo):
        buffer, beginnings = edited()
        put(buffer, beginnings, text)
        buffer.cursor_position = 0
        buffer.save_to_undo_stack()
        buffer.insert_text(text[0])
        goes(buffer)
        assert (buffer.text, beginnings.typed) == (text, False)


@pytest.mark.parametrize("text", ["!x", "/help"])
def test_a_mark_that_was_cut_and_put_back_does_not_make_it_typed(text: str) -> None:
    buffer, beginnings = edited()
    put(buffer, beginnings, text)
    buffer.cursor_position = 0
    cut = buffer.delete(1)
    buffer.paste_clipboard_data(ClipboardData(cut))
    assert (buffer.text, beginnings.typed) == (text, False)


def test_words_that_were_typed_and_moved_are_still_a_command() -> None:
    buffer, beginnings = edited()
    for char in "/x":
        buffer.insert_text(char)
    cut = buffer.delete_before_cursor(2)
    buffer.paste_clipboard_data(ClipboardData(cut))
    assert (buffer.text, beginnings.typed) == ("/x", True)


async def test_a_walk_through_the_history_gives_it_back() -> None:
    buffer, beginnings = edited()
    buffer.history.append_string("/help")
    put(buffer, beginnings, "!x")
    buffer.load_history_if_not_yet_loaded()
    while len(buffer.history.get_strings()) and buffer.working_index == 0:
        await asyncio.sleep(0)
    buffer.history_backward()
    assert (buffer.text, beginnings.typed) == ("/help", True)
    buffer.history_forward()
    assert (buffer.text, beginnings.typed) == ("!x", False)


async def test_lines_that_come_at_once_are_a_paste_in_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.repl.console.is_terminal", lambda stream: True)
    console = PlainConsole(io.StringIO())
    for line in ("/help\nmore", "", "/help", "!x\\", "y"):
        console._arrived(line)
    lines = [await console.read() for _ in range(3)]
    assert [(line.text, line.typed) for line in lines if isinstance(line, Line)] == [
        ("/help\nmore", False),
        ("/help", True),
        ("!x\ny", True),
    ]


def test_at_a_terminal(tmp_path: Path) -> None:
    with scripted(tmp_path, [["One."], ["Two."], ["Three."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("\x1b[200~/help me\x1b[201~")
        terminal.until(lambda: "› /help me" in terminal.row, "the paste")
        terminal.type("\r")
        terminal.wait("One.")
        terminal.wait("what is pasted does not run")
        terminal.type("\x1b[A")
        terminal.until(lambda: "› //help me" in terminal.row, "the message of before")
        terminal.type("\r")
        terminal.wait("Two.")
        assert terminal.text.count("› /help me") + terminal.text.count("› //help me") == 2
        terminal.type("\x1b[200~" + "\r".join(["/help"] * 12) + "\x1b[201~")
        terminal.wait("[pasted 12 lines]")
        terminal.type("\r")
        terminal.wait("Three.")
        terminal.type("\x1b[A")
        terminal.until(lambda: "› //help\n  /help" in terminal.text, "the paste, whole")
