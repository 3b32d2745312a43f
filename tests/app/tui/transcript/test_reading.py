from __future__ import annotations

import pytest
from textual.color import Color

from app.markdown.links import web_address
from app.markdown.rows import COLOUR
from app.terminal.glyphs import UNICODE
from app.terminal.textual_theme import PaletteFilter
from app.terminal.theming import palette, read
from app.tui.transcript.entries import Answer, ErrorEntry, KeyChoice, NameRow, Note, Thought, UserTurn
from app.tui.transcript.entry import Sheet
from app.tui.transcript.search import Search
from app.tui.transcript.tool_entry import ToolCall
from app.tui.transcript.view import Transcript
from tests.app.tui.transcript.pages import reading, settled, shown, strips

SHEET = Sheet(60, False, COLOUR, UNICODE)


def chat() -> list[UserTurn | NameRow | Thought | ToolCall | Answer]:
    return [
        UserTurn("first question about ember"),
        NameRow("m"),
        Thought("a thought about Ember", seconds=1, tokens=2),
        ToolCall("run", "ls", output="\n".join(f"row {number}" for number in range(40))),
        Answer("an answer\n\n```py\nx = 1\n```\n\n```sh\nls\n```\n" + "word\n\n" * 40),
        UserTurn("second question"),
        NameRow("m"),
        Answer("last answer"),
    ]


async def test_the_block_cursor_stops_at_every_block_but_names() -> None:
    entries = chat()
    async with reading(entries) as (transcript, pilot):
        seen = [transcript.cursor_up() for _ in range(7)]
        assert seen == [entries[i] for i in (7, 5, 4, 3, 2, 0, 0)]
        await settled(transcript, pilot)
        assert shown(transcript)[0] == "  › first question about ember"
        assert [transcript.cursor_down() for _ in range(6)] == [*[entries[i] for i in (2, 3, 4, 5, 7)], None]
        assert transcript.current is None
        assert transcript.at_tail
        await pilot.pause()
        moved = [m.entry for m in pilot.app.told if isinstance(m, Transcript.CursorMoved)]  # type: ignore[attr-defined]
        assert moved[0] is entries[7]
        assert moved[-1] is None


async def test_the_block_at_the_cursor_is_in_view() -> None:
    entries = chat()
    async with reading(entries, size=(60, 12)) as (transcript, pilot):
        for _ in range(3):
            transcript.cursor_up()
        await settled(transcript, pilot)
        assert transcript.current is entries[4]
        assert "  › an answer" in shown(transcript)
        transcript.cursor_down()
        await settled(transcript, pilot)
        assert "  › second question" in shown(transcript)


def test_copies_are_what_was_written() -> None:
    transcript = Transcript()
    answer = Answer("an **answer**\n\n```py\nx = 1\n```\n\n```sh\nls\n```\n")
    assert (
        transcript.copy_source(answer)
        == answer.source
        == "an **answer**\n\n```py\nx = 1\n```\n\n```sh\nls\n```\n"
    )
    assert transcript.copy_code(answer) == "ls\n"
    assert transcript.copy_code(answer, 0) == "x = 1\n"
    assert transcript.copy_code(UserTurn("none")) is None
    call = ToolCall("run", "ls", arguments='{"command": "ls"}', output="a\nb")
    assert transcript.copy_source(call) == 'run {"command": "ls"}\na\nb'
    error = ErrorEntry("It failed.", "Because.", remedy="Try again.")
    assert transcript.copy_source(error) == "It failed.\nBecause.\nTry again."


async def test_a_search_marks_goes_round_and_opens_folds() -> None:
    entries = chat()
    async with reading(entries, size=(70, 14)) as (transcript, pilot):
        assert transcript.find("EMBER") == 2
        await settled(transcript, pilot)
        assert transcript.found == (2, 2)
        assert not entries[2].folded
        rows = shown(transcript)
        at = rows.index("    ╎ a thought about Ember")
        hit = next(s for s in strips(transcript)[at] if s.text == "Ember")
        assert hit.style is not None and hit.style.bold and hit.style.underline
        first = transcript.find_next()
        assert first is not None and first.entry is entries[0]
        assert transcript.found == (1, 2)
        last = transcript.find_previous()
        assert last is not None and last.entry is entries[2]
        assert transcript.find("row 39") == 1
        await settled(transcript, pilot)
        assert any("row 39" in row for row in shown(transcript))
        assert transcript.find("nowhere") == 0
        assert transcript.find_next() is None
        transcript.find_clear()
        assert transcript.found == (0, 0)


def test_a_search_takes_letters_of_either_case_and_no_pattern() -> None:
    entries = [UserTurn("a.b A.B axb İstanbul")]
    found = Search("a.b", entries)
    assert [(hit.start, hit.end) for hit in found.hits] == [(0, 3), (4, 7)]
    assert Search("", entries).hits == []
    assert Search("axb", [NameRow("axb")]).hits == []
    assert found.step(1) is found.hits[0]
    assert [mark.kind for mark in found.marks(entries[0], 0, 0, 20)] == ["here", "hit"]
    assert found.marks(entries[0], 0, 8, 20) == []


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("https://a.b/c?d=e#f", "https://a.b/c?d=e#f"),
        ("http://a.b", "http://a.b"),
        ("https://a.b/ü x", "https://a.b/%C3%BC%20x"),
        ("javascript:alert(1)", None),
        ("file:///etc/passwd", None),
        ("https://user@evil.example/", None),
        ("https:///no-host", None),
        ("ftp://a.b", None),
        ("/relative", None),
        ("http://[broken", None),
        ("https://a.b/\x1b]52;c;x\x07", "https://a.b/%1B]52;c;x%07"),
        ("https://a.b/\ud800", None),
        ("https://" + "a" * 3000, None),
        ("", None),
    ],
)
def test_only_addresses_of_the_web_may_be_opened(target: str, address: str | None) -> None:
    assert web_address(target) == address


async def test_links_open_only_on_purpose() -> None:
    text = "see [a page](https://a.b/c) and [a trap](ftp:x)"
    async with reading([Answer(text)]) as (transcript, pilot):
        answer = transcript.entries[0]
        assert transcript.links(answer) == ["https://a.b/c"]
        await pilot.click(transcript, offset=(9, 0))
        await pilot.click(transcript, offset=(9, 0), control=True)
        await pilot.click(transcript, offset=(38, 0), control=True)
        await pilot.click(transcript, offset=(5, 0))
        await pilot.pause()
        told = [m for m in pilot.app.told if isinstance(m, Transcript.LinkChosen)]  # type: ignore[attr-defined]
        assert [(m.target, m.url, m.meant) for m in told] == [
            ("https://a.b/c", "https://a.b/c", False),
            ("https://a.b/c", "https://a.b/c", True),
            ("ftp:x", None, True),
        ]


async def test_an_error_reads_as_a_sentence_and_shows_its_ways_out() -> None:
    error = ErrorEntry(
        "The model ran out of GPU memory",
        "A 32k context needs 7.9 GiB on the GPU; 5.2 GiB are free.",
        safe="Your message and the partial reply are saved.",
        choices=[KeyChoice("r", "retry with a 16k context", "5.0 GiB, fits"), KeyChoice("v", "view the log")],
        chosen=0,
    )
    async with reading([error]) as (transcript, pilot):
        assert shown(transcript)[:6] == [
            "  ╏ ✗ The model ran out of GPU memory",
            "  ╏   A 32k context needs 7.9 GiB on the GPU; 5.2 GiB are free.",
            "  ╏   Your message and the partial reply are saved.",
            "  ╏",
            "  ›   r  retry with a 16k context   5.0 GiB, fits",
            "  ╏   v  view the log",
        ]
        error.chosen = 1
        transcript.changed(error)
        await settled(transcript, pilot)
        assert shown(transcript)[5].startswith("  ›   v")


async def test_a_note_stands_across_the_measure_and_may_unfold() -> None:
    note = Note("12 turns summarised", "They spoke of **fire**.")
    async with reading([note, Note("3 turns dropped", lost=True)], size=(60, 12)) as (transcript, pilot):
        assert shown(transcript)[0] == "    ╌╌╌ ▸ 12 turns summarised " + "╌" * 26
        assert shown(transcript)[2] == "    ╌╌╌ 3 turns dropped " + "╌" * 32
        transcript.toggle(note)
        await pilot.pause()
        assert shown(transcript)[:2] == [
            "    ╌╌╌ ▾ 12 turns summarised " + "╌" * 26,
            "    ╎ They spoke of fire.",
        ]
        transcript.toggle(transcript.entries[1])
        assert shown(transcript)[3] == "    ╌╌╌ 3 turns dropped " + "╌" * 32


@pytest.mark.parametrize(
    ("thought", "label"),
    [
        (Thought("x", seconds=3.21, tokens=214), "thought for 3.2 s, 214 tokens"),
        (Thought("x", seconds=125.0, tokens=1), "thought for 125 s, 1 token"),
        (Thought("x", tokens=1200), "thought, 1,200 tokens"),
        (Thought("x"), "thought"),
        (Thought("x", live=True), "thinking"),
    ],
)
def test_a_thought_says_how_long_it_took(thought: Thought, label: str) -> None:
    thought.layout(SHEET)
    assert thought.sections[0].rows[0].text == f"{'▾' if thought.live else '▸'} {label}"


async def test_a_terminal_is_given_only_addresses_of_the_web_and_always_the_same_ids() -> None:
    text = '[a](http://a.b/c) [b](javascript:x) [c](file:///etc/passwd) <d@e.f> http://a.b/c [g](/h "t")'
    seen: list[set[tuple[str, str]]] = []
    for _ in range(2):
        async with reading([Answer(text)], size=(120, 24)) as (transcript, _pilot):
            transcript.find("a")
            filtered = PaletteFilter(palette(read("hearth"), "256"))
            rows = [
                *strips(transcript),
                *(row.apply_filter(filtered, Color(0, 0, 0)) for row in strips(transcript)),
            ]
            styles = [segment.style for row in rows for segment in row if segment.style]
            seen.append({(style.link, style.link_id) for style in styles if style.link})
    assert {link for link, _ in seen[0]} == {"http://a.b/c"}
    assert len(seen[0]) == 1
    assert seen[0] == seen[1]
