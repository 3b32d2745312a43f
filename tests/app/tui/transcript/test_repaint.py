"""Only rows that changed are painted: what a terminal shows is what a whole painting would show."""

from __future__ import annotations

import random
from typing import Any

import pyte
import pytest
from textual._compositor import CompositorUpdate
from textual.pilot import Pilot

from app.tui.transcript.entries import Answer, NameRow, Progress, Thought, UserTurn
from app.tui.transcript.entry import Entry
from app.tui.transcript.tool_entry import ToolCall
from tests.app.tui.transcript.pages import Reader, settled
from tests.app.tui.transcript.test_viewport import SHARDS


class Terminal(Reader):
    """A reader whose frames go to an emulated terminal."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__(entries)
        self.screen_of_terminal = pyte.Screen(80, 24)
        self._stream = pyte.Stream(self.screen_of_terminal)

    def resized(self, width: int, height: int) -> None:
        if (width, height) == self.size:
            return
        self.screen_of_terminal.resize(height, width)
        self.screen_of_terminal.reset()

    def _display(self, screen: Any, renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate):
            self._stream.feed(renderable.render_segments(self.console))
        super()._display(screen, renderable)

    def differing(self) -> list[tuple[str, str]]:
        """Rows of the terminal that are not what a whole painting gives."""
        whole = [strip.text.rstrip() for strip in self.screen._compositor.render_strips()]
        got = [row.rstrip() for row in self.screen_of_terminal.display]
        return [pair for pair in zip(got, whole, strict=True) if pair[0] != pair[1]]


def conversation() -> list[Entry]:
    # characters of two cells are two in the emulator's rows, so there are none here
    text = "".join([shard for shard in SHARDS if shard.isascii()])
    return [
        entry
        for number in range(8)
        for entry in (
            UserTurn(f"question {number}"),
            NameRow("model", ("1 s",)),
            Thought(text, seconds=1, tokens=2),
            ToolCall("run", f"{number}", output="row\n" * 20),
            Answer(text),
        )
    ]


async def step(app: Terminal, pilot: Pilot[None], choose: random.Random, live: list[Entry]) -> None:
    transcript = app.transcript
    match choose.randrange(12):
        case 0 | 1 | 2 | 3:
            entry = choose.choice(live)
            transcript.append_text(entry, choose.choice([shard for shard in SHARDS if shard.isascii()]))
            if choose.random() < 0.5:
                transcript.flush()
        case 4:
            transcript.toggle(choose.choice(transcript.entries))
        case 5 | 6:
            transcript.scroll_relative(y=choose.randrange(-12, 8), animate=False, immediate=True)
        case 7:
            name = next(entry for entry in reversed(transcript.entries) if isinstance(entry, NameRow))
            name.facts = (f"{choose.randrange(100)} tok/s",)
            transcript.changed(name)
        case 8:
            name, reply = NameRow("model", live=True), Answer(live=True)
            live[:] = [reply]
            transcript.add(name)
            transcript.add(Progress("reading", 0.5))
            transcript.add(reply)
        case 9:
            for entry in [entry for entry in transcript.entries if isinstance(entry, Progress)]:
                transcript.discard(entry)
            transcript.finish(live[0])
            live[:] = [Thought(live=True)]
            transcript.add(live[0])
        case 10:
            transcript.cursor_up() if choose.random() < 0.7 else transcript.to_end()
        case _:
            width, height = choose.choice([(80, 24), (50, 18), (100, 30)])
            app.resized(width, height)
            await pilot.resize_terminal(width, height)


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_terminal_shows_what_a_whole_painting_shows(seed: int) -> None:
    await walk(seed, 20)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3, 40))
async def test_the_terminal_shows_it_for_long(seed: int) -> None:
    await walk(seed, 400)


async def test_the_caret_leaves_the_row_that_was_the_last() -> None:
    reply = Answer("one\n\n", live=True)
    app = Terminal([reply])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for piece in ("---\n", "two\n\n", "```py\n", "x\n", "y"):
            app.transcript.append_text(reply, piece)
            await settled(app.transcript, pilot)
            assert app.differing() == []


async def walk(seed: int, steps: int) -> None:
    choose = random.Random(seed)
    live: list[Entry] = [Answer(live=True)]
    app = Terminal([*conversation(), *live])
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for number in range(steps):
            await step(app, pilot, choose, live)
            if choose.random() < 0.4:
                await settled(app.transcript, pilot)
                await pilot.pause()
                assert app.differing() == [], number
