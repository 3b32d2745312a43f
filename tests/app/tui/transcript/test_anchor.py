"""The line of text at the top of the screen stays there, whatever happens, unless the person moves."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from textual.pilot import Pilot

from app.terminal.glyphs import ASCII, UNICODE
from app.terminal.theming import palette, read
from app.tui.transcript.entries import Answer, ErrorEntry, NameRow, Note, Progress, Thought, UserTurn
from app.tui.transcript.entry import Entry
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.pictures import HALVES, Drawing
from app.tui.transcript.tool_entry import ToolCall
from app.tui.transcript.view import Transcript
from tests.app.markdown.samples import SAMPLES
from tests.app.tui.transcript.pages import reading, settled
from tests.app.tui.transcript.test_viewport import SHARDS

PIECES = [*SHARDS, *(text[:200] for text in SAMPLES.values())]


@dataclass(frozen=True)
class Top:
    """What stands in the top row: an entry, a section, and the part of its text the row begins with."""

    entry: Entry
    section: int
    start: int
    after: int

    def holds(self, other: Top) -> bool:
        """Whether the line that stood at the top of `other` is the one here."""
        if self.entry is not other.entry:
            return False
        if self.section != other.section:
            return self.entry.kind == "picture"  # whose cells go where there are no colours
        return self.start <= other.start < max(self.after, self.start + 1)


def top_of(transcript: Transcript) -> Top:
    page = transcript.page
    index, row = page.find(transcript.scroll_offset.y)
    entry = page.entries[index]
    row -= page.gap(index)
    if row < 0 or not entry.height:
        return Top(entry, -1, 0, 0)
    number, inside = entry.at(row)
    section = entry.sections[number]
    start = section.row(inside).offset
    later = (offset for at in range(inside, section.count) if (offset := section.row(at).offset) > start)
    return Top(entry, number, start, next(later, 1 << 40))


def conversation() -> list[Entry]:
    text = "".join(SHARDS)
    return [
        entry
        for number in range(10)
        for entry in (
            UserTurn(f"question {number}\nwith a second line that is long enough to wrap somewhere"),
            PictureRow(f"{number}.png", file_id=f"f{number}"),
            NameRow("model", ("1 s",)),
            Thought(text * (number % 3), seconds=1, tokens=2),
            ToolCall("run", f"{number}", output="row of what it wrote\n" * number * 3),
            Answer(f"{text}\n\n{number}"),
        )
    ]


@dataclass
class Walk:
    """A person who reads, while everything else happens."""

    transcript: Transcript
    pilot: Pilot[None]
    choose: random.Random
    live: list[Entry] = field(default_factory=list[Entry])
    added: int = 0

    async def step(self) -> bool:
        """Do something; whether it was the person who moved or gave up the place."""
        transcript, choose = self.transcript, self.choose
        at_top, y = top_of(transcript).entry, transcript.scroll_y
        match choose.randrange(16):
            case 0 | 1 | 2 | 3:
                transcript.append_text(choose.choice(self.live), choose.choice(PIECES))
                transcript.flush()
            case 4:
                entry = choose.choice([entry for entry in transcript.entries if entry is not at_top])
                transcript.toggle(entry)
                return transcript.at_tail
            case 5:
                transcript.fold_all_thoughts()
                return at_top.kind == "thought"
            case 6:
                await self.pilot.resize_terminal(choose.randrange(3, 201), choose.randrange(4, 50))
            case 7:
                look = palette(
                    read(choose.choice(["hearth", "daylight"])), choose.choice([None, "truecolor"])
                )
                transcript.set_look(look, choose.choice([UNICODE, ASCII]))
            case 8:
                self._insert()
            case 9:
                self._leave(at_top)
            case 10:
                self._late_height(at_top)
            case 11:
                for entry in self.live:
                    transcript.finish(entry)
                self.live = [Thought(live=True), ToolCall("run", state="running"), Answer(live=True)]
                for entry in self.live:
                    transcript.add(entry)
            case 12:
                transcript.find(choose.choice(["line", "word", "nowhere"]))
                return transcript.scroll_y != y
            case 13:
                transcript.find_clear()
                transcript.fold_thought(
                    next(entry for entry in transcript.entries if entry.kind == "thought")
                )
            case 14:
                transcript.cursor_up()
                return transcript.scroll_y != y
            case _:
                transcript.scroll_relative(y=choose.randrange(-40, 20), animate=False, immediate=True)
                return transcript.scroll_y != y
        return False

    def _insert(self) -> None:
        """A line that says what was left out, or a variant, comes above or below."""
        self.added += 1
        entries = self.transcript.entries
        before = self.choose.choice([entry for entry in entries if entry.kind == "user"])
        new = self.choose.choice([Note(f"{self.added} turns left out", lost=True), Answer("another\n\n" * 9)])
        self.transcript.insert(new, before)

    def _leave(self, at_top: Entry) -> None:
        """A meter, an error or another variant goes."""
        gone = [entry for entry in self.transcript.entries if entry.kind in ("progress", "error", "note")]
        gone = [entry for entry in gone if entry is not at_top]
        if gone:
            self.transcript.discard(self.choose.choice(gone))
            return
        self.transcript.add(Progress("reading", 0.5, facts=("1 of 2",)))
        self.transcript.add(ErrorEntry("it failed", "a cause\n" * 5))

    def _late_height(self, at_top: Entry) -> None:
        """Something learns how high it is only after it was shown."""
        entries = [entry for entry in self.transcript.entries if entry is not at_top]
        entry = self.choose.choice(entries)
        if isinstance(entry, PictureRow):
            entry.problem = "" if entry.problem else "broken or cut off"
            entry.drawing = None if entry.drawing else Drawing(64, 48, HALVES, (64, 24), ())
        elif isinstance(entry, NameRow):
            entry.facts = (f"{self.choose.randrange(99)} tok/s",)
        self.transcript.changed(entry)
        self.transcript.flush()


async def walk(seed: int, steps: int) -> None:
    choose = random.Random(seed)
    live: list[Entry] = [Answer(live=True)]
    async with reading([*conversation(), *live], size=(80, 24)) as (transcript, pilot):
        person = Walk(transcript, pilot, choose, live)
        transcript.scroll_relative(y=-60, animate=False, immediate=True)
        held = None if transcript.at_tail else top_of(transcript)
        for number in range(steps):
            moved = await person.step()
            if has_settled := choose.random() < 0.5:
                await settled(transcript, pilot)
            if transcript.at_tail:
                assert moved or held is None, number
                end = max(0, transcript.page.total - transcript.size.height)
                assert transcript.scroll_offset.y == end or not has_settled, number
                held = None
            elif moved or held is None:
                held = top_of(transcript)
            else:
                assert top_of(transcript).holds(held), number


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_line_at_the_top_stays(seed: int) -> None:
    await walk(seed, 40)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(10, 30))
async def test_the_line_at_the_top_stays_for_long(seed: int) -> None:
    await walk(seed, 400)
