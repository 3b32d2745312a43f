"""What is told below the model at the start: what to try, and the chat to continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.repl.face import ReplFace
from tests.app.repl.chatting import Told, chat, wait_until
from tests.app.repl.terminal import scripted

pytestmark = pytest.mark.timeout(120)

TRY = "try   a question   @file attaches a file   / lists the commands"


async def loaded(**fields: Any) -> Told:
    """A chat that is left once its model is there."""
    faces: list[ReplFace] = []
    return await chat(lambda: wait_until(lambda: faces[0].card), watch=faces.append, **fields)


def test_a_new_chat_tells_what_to_try_and_then_the_last_chat(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Hello."]]) as terminal:
        terminal.wait(TRY)
        assert "last chat" not in terminal.text
        terminal.say("Tea and cake")
        terminal.wait("Hello.")
        terminal.wait("ctx ")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert terminal.text.count("try   a question") == 1
    with scripted(tmp_path, [["Hello."]]) as terminal:
        terminal.wait("last chat   Tea and cake   now   /resume continues")
        terminal.type("\x04")
        assert terminal.wait_end() == 0


@pytest.mark.parametrize("how", ["private", "continued", "piped"])
async def test_what_is_told_fits_how_the_chat_begins(how: str) -> None:
    await chat("Tea and cake", scripts=[["Hello."]])
    if how == "private":
        told = await loaded(private=True)
        assert TRY in told.seen and "Tea and cake" not in told.seen
    elif how == "continued":
        told = await loaded(last=True)
        assert "Hello." in told.seen and TRY not in told.seen
    else:
        told = await chat("Tea and cake", scripts=[["Hello."]], piped=True)
        assert "Hello." in told.seen and TRY not in told.seen and "last chat" not in told.seen


async def test_a_title_is_one_plain_line_of_bounded_length() -> None:
    await chat("\x1b[31mTea\x1b[0m " + "and cake " * 30, scripts=[["Hello."]])
    told = await loaded()
    row = next(line for line in told.seen.splitlines() if "last chat" in line)
    assert "Tea and cake" in row.replace("\ufffd", "").replace("[31m", "").replace("[0m", "")
    assert len(row) < 80
