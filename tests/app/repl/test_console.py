from __future__ import annotations

import asyncio
import io

import pytest

from app.repl.console import Ended, Line, PlainConsole


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> PlainConsole:
    monkeypatch.setattr("app.repl.console.is_terminal", lambda stream: True)
    monkeypatch.setattr("app.repl.console.ARM_S", 0.0)
    monkeypatch.setattr("termios.tcflush", lambda *arguments: None)
    return PlainConsole(io.StringIO())


async def test_a_line_that_waits_answers_no_question(console: PlainConsole) -> None:
    console._arrived("y")
    asking = asyncio.create_task(console.ask([("approve?", "")], armed=True))
    await asyncio.sleep(0)
    assert not asking.done()
    console._arrived("n")
    assert await asking == "n"
    assert await console.read() == Line("y", "y")


async def test_a_line_in_a_dialog_that_follows_another_does_answer(console: PlainConsole) -> None:
    console._arrived("3")
    assert await console.ask([("number", "")]) == "3"


async def test_several_lines_at_once_wait_for_one_more_line_end(console: PlainConsole) -> None:
    reading = asyncio.create_task(console.read())
    await asyncio.sleep(0)
    console._arrived("one\ntwo")
    await asyncio.sleep(0)
    assert not reading.done()
    await asyncio.sleep(0)
    console._arrived("three")
    assert await reading == Line("one\ntwo\nthree", "one\ntwo\nthree")


async def test_a_backslash_at_the_end_goes_on(console: PlainConsole) -> None:
    for line in ("one\\", "two"):
        console._arrived(line)
    assert await console.read() == Line("one\ntwo", "one\ntwo")


async def test_the_end_of_input_leaves_and_stays_the_end(console: PlainConsole) -> None:
    console._arrived("last")
    console._arrived(None)
    assert await console.read() == Line("last", "last")
    assert await console.read() is Ended.LEAVE
    assert await console.read() is Ended.LEAVE
    assert await console.ask([("?", "")]) is None


async def test_an_empty_line_sends_a_draft_that_came_back(console: PlainConsole) -> None:
    console.insert("my words")
    console._arrived("")
    assert await console.read() == Line("my words", "my words")
