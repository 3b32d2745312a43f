"""Nothing that a model, a tool, a file or a person writes reaches the screen as anything but text."""

from __future__ import annotations

import re

import pytest

from app.terminal.glyphs import ASCII, UNICODE, Glyphs
from app.tui.transcript.entries import (
    Answer,
    ErrorEntry,
    KeyChoice,
    NameRow,
    Note,
    Progress,
    Thought,
    UserTurn,
)
from app.tui.transcript.entry import Entry
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.tool_entry import ToolCall
from tests.app.tui.transcript.pages import all_strips, reading, settled

HOSTILE = (
    "a\x1b]52;c;aGk=\x07b\x1b[31m\x9b2J\u2028c\u2029d\x85e\x0cf\x0bg\0h\ud800i\udfffj\u202ek\u2066l\u200fm"
    "\x7fn\x01o\tp\rq\r\nr"
)
MARKUP = "see [1] and [/opt/data] then [bold ; yield from f(x) [/] x [/] y [@click=app.quit]z"
TAGS = "keep 3<x and y>1 ok ; List<Item> ; <name>value</name> ; <!-- note -->"
FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def every_kind(text: str) -> list[Entry]:
    diff = f"--- {text}\n+++ b\n@@ -1,2 +1,2 @@\n {text}\n-{text}\n+{text} more\n{text}"
    code, table = f"```{text}\n{text}\n```", f"| {text} |\n|---|\n| {text} |"
    blocks = f"{text}\n\n- {text}\n\n{code}\n\n{table}\n\n[{text}]({text})"
    thought, note = Thought(text, seconds=1, tokens=2), Note(text, text, lost=True)
    calls = [
        ToolCall(text, text, arguments=text, output=text, facts=text),
        ToolCall(
            "f", arguments=text, approved_arguments=f"{text} else", diff=diff, state="failed", facts=text
        ),
    ]
    for entry in (thought, note, *calls):
        entry.toggle()
    return [
        UserTurn(text, time=text, attachments=[text]),
        NameRow(text, (text, text), variant=(1, 2)),
        thought,
        *calls,
        Answer(blocks),
        ErrorEntry(text, text, safe=text, remedy=text, choices=[KeyChoice(text, text, text)], chosen=0),
        note,
        PictureRow(text, size=text, problem=text),
        Progress(text, 2.0, left=text, facts=(text,)),
    ]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [30, 100])
async def test_no_control_reaches_a_strip(glyphs: Glyphs, width: int) -> None:
    entries = every_kind(HOSTILE)
    async with reading(entries, size=(width, 24), glyphs=glyphs) as (transcript, _):
        for strip in all_strips(transcript):
            for text, style, control in strip:
                assert not FORBIDDEN.search(text)
                assert control is None
                assert style is not None
                assert not FORBIDDEN.search(style.link or "")
                text.encode()
            assert strip.cell_length == transcript.scrollable_content_region.width


async def test_what_streams_is_held_to_the_same() -> None:
    reply, call = Answer(live=True), ToolCall("run", state="running")
    async with reading([call, reply]) as (transcript, pilot):
        for character in HOSTILE * 3:
            transcript.append_text(reply, character)
            transcript.append_text(call, character)
            transcript.flush()
            for strip in all_strips(transcript):
                assert not FORBIDDEN.search(strip.text)
        transcript.finish(reply)
        await settled(transcript, pilot)
        assert reply.source == HOSTILE * 3


async def test_markup_is_text() -> None:
    async with reading(every_kind(MARKUP), size=(200, 24)) as (transcript, _):
        text = "\n".join([strip.text for strip in all_strips(transcript)])
        assert text.count("[@click=app.quit]z") >= 15
        actions = [
            s for strip in all_strips(transcript) for s in strip if s.style and "@click" in s.style.meta
        ]
        assert not actions


async def test_what_looks_like_tags_stays() -> None:
    entries: list[Entry] = [UserTurn(TAGS), Answer(TAGS), Answer(f"- {TAGS}")]
    async with reading(entries, size=(140, 24)) as (transcript, _):
        text = "\n".join([strip.text for strip in all_strips(transcript)])
        assert text.count(TAGS) == 3
