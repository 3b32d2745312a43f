"""A program plays in a terminal of its own: keys reach it, its screen can be read and drawn."""

import json
import os
import sys
from pathlib import Path

import pytest

from app.demo.cast import Cast
from app.demo.player import Player
from app.demo.script import Demo, Step
from app.demo.terminal_stage import TerminalStage, key_bytes
from app.exits import Failure

SHELL = """
import sys, termios
print("\\x1b[1mopen\\x1b[0m \\x1b[38;2;242;141;91mcoloured\\x1b[0m", flush=True)
for line in sys.stdin:
    print("heard", ascii(line.strip()), flush=True)
    if "leave" in line:
        break
"""


def stage(heard=lambda _data: None) -> TerminalStage:
    return TerminalStage(
        [sys.executable, "-c", SHELL], (60, 8), environ={**os.environ, "TERM": "xterm-256color"}, heard=heard
    )


async def test_what_is_typed_reaches_the_program_and_its_answer_the_screen() -> None:
    demo = Demo(
        title="Echo",
        steps=(
            Step(wait="open"),
            Step(type="grüße"),
            Step(press="enter"),
            Step(wait="heard 'gr\\xfc\\xdfe'"),
            Step(type="leave"),
            Step(press="enter"),
        ),
    )
    async with stage() as board:
        await Player(demo, board, patience_s=30).play()
        assert await board.ended() == 0
        assert "heard 'leave'" in board.screen()


BUSY = """
import os, threading, tty
tty.setraw(0)
os.write(1, b"open ")
data = b""
while b"." not in data:
    threading.Event().wait(0.3)  # others have the processor
    data = os.read(0, 100)
    os.write(1, b"[%s]" % ascii(data.decode()).encode())
"""


@pytest.mark.parametrize("answers", [False, True], ids=["typed", "answered"])
async def test_a_program_that_reads_late_gets_enter_by_itself(answers: bool) -> None:
    """Keys of one read are a paste, which sends nothing."""
    command = [sys.executable, "-c", BUSY]
    async with TerminalStage(command, (60, 8), environ={**os.environ, "TERM": "xterm"}) as board:
        player = Player(Demo(title="x", steps=()), board, patience_s=30)
        await player._until("open")
        if answers:
            await board.answer("y")
        else:
            await board.type("hello")
            await board.settled()
            await board.press("enter")
        await player._until(r"['\r']")
        await board.press(".")
        assert await board.ended() == 0


async def test_a_picture_is_the_same_each_time_and_has_the_colours() -> None:
    pictures = []
    for _ in range(2):
        async with stage() as board:
            await Player(Demo(title="A picture", steps=(Step(wait="coloured"),)), board, patience_s=30).play()
            pictures.append(board.picture("A picture"))
    assert pictures[0] == pictures[1]
    assert "#f28d5b" in pictures[0]
    assert "A&#160;picture" in pictures[0] or "A picture" in pictures[0]


async def test_a_program_that_is_not_asked_to_leave_is_ended() -> None:
    async with stage() as board:
        await Player(Demo(title="x", steps=(Step(wait="open"),)), board, patience_s=30).play()
    assert await board.ended() != 0


async def test_a_cast_holds_everything_that_was_written(tmp_path: Path) -> None:
    file = tmp_path / "demo.cast"
    with Cast(file, (60, 8), "Echo") as cast:
        async with stage(cast.hear) as board:
            await Player(Demo(title="x", steps=(Step(wait="coloured"),)), board, patience_s=30).play()
    header, *rows = map(json.loads, file.read_text().splitlines())
    assert header == {"version": 2, "width": 60, "height": 8, "title": "Echo"}
    assert "coloured" in "".join(row[2] for row in rows)
    times = [row[0] for row in rows]
    assert times == sorted(times)


def test_a_cast_joins_split_characters_and_shortens_silence(tmp_path: Path) -> None:
    ticks = iter([0.0, 0.0, 0.5, 1.0, 601.0])
    with Cast(tmp_path / "a.cast", (10, 2), "t", clock=lambda: next(ticks)) as cast:
        for part in (b"gr\xc3", b"\xbc", b"n"):
            cast.hear(part)
    rows = [json.loads(line) for line in (tmp_path / "a.cast").read_text().splitlines()[1:]]
    assert rows == [[0.5, "o", "gr"], [1.0, "o", "ü"], [4.0, "o", "n"]]


@pytest.mark.parametrize(
    ("key", "sent"),
    [("ctrl+c", b"\x03"), ("enter", b"\r"), ("alt+x", b"\x1bx"), ("?", b"?"), ("up", b"\x1b[A")],
)
def test_keys_are_what_a_terminal_sends(key: str, sent: bytes) -> None:
    assert key_bytes(key) == sent


def test_an_unknown_key_is_named() -> None:
    with pytest.raises(Failure, match="hyper"):
        key_bytes("hyper+q")
