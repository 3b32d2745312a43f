from __future__ import annotations

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from app.tui.transcript.entries import Answer, NameRow, Progress, Thought, UserTurn
from app.tui.transcript.selection import Point, balanced, part_of, selected_text, span_of, to_offset
from app.tui.transcript.tool_entry import ToolCall
from app.tui.transcript.view import Transcript
from tests.app.tui.transcript.pages import reading, settled, shown, strips

TEXT = (
    "The **bold** word, a `piece of code` and [a link](http://x.y).\n\n"
    "- one\n- two\n\n```py\nx = 1\n```\n\nend"
)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (4, 12, "**bold**"),
        (6, 10, "bold"),
        (0, 10, "The **bold**"),
        (8, 17, "ld word"),
        (6, 8, "bo"),
        (22, 27, "piece"),
        (22, 35, "piece of code"),
        (0, 3, "The"),
    ],
)
def test_a_part_of_markdown_has_no_half_pairs(start: int, end: int, text: str) -> None:
    assert balanced(TEXT, start, end) == text


def test_a_star_between_blanks_and_a_list_mark_are_no_markers() -> None:
    assert balanced("2 * 3 and more", 0, 9) == "2 * 3 and"
    assert balanced("* item one", 0, 6) == "* item"
    assert balanced("a snake_case name", 0, 12) == "a snake_case"


def test_a_long_row_of_markers_is_no_burden() -> None:
    source = "*" * 1501 + "a" + "_ x " * 500
    assert "a" in balanced(source, 1500, 1600)


def test_points_survive_the_form_in_which_textual_keeps_them() -> None:
    start, end = Point(3, 1, 17), Point(5, 0, 4)
    assert span_of(Selection(to_offset(start), to_offset(end))) == (start, end)
    assert to_offset(Point(3, 0, 900)).x < to_offset(Point(3, 1, 0)).x
    assert part_of((start, end), 4, 2) is not None
    assert part_of((start, end), 3, 0) is None
    assert part_of((start, end), 5, 0) == (0, 4)


def test_whole_entries_come_as_they_were_written() -> None:
    entries = [UserTurn("a question\nin two lines"), NameRow("m"), Answer(TEXT)]
    span = span_of(Selection(None, None))
    assert selected_text(entries, span) == f"a question\nin two lines\n\nm\n\n{TEXT}"


def test_what_is_folded_between_both_ends_is_not_taken() -> None:
    entries = [UserTurn("q"), Thought("secret"), ToolCall("run", output="rows"), Answer("a")]
    assert "secret" not in selected_text(entries, span_of(Selection(None, None)))
    entries[1].folded = entries[2].folded = False
    assert selected_text(entries, span_of(Selection(None, None))) == "q\n\nsecret\n\nrun\nrows\n\na"


async def drag(transcript: Transcript, pilot: object, start: tuple[int, int], end: tuple[int, int]) -> None:
    await pilot.mouse_down(transcript, offset=start)  # type: ignore[attr-defined]
    await pilot.hover(transcript, offset=end)  # type: ignore[attr-defined]
    await pilot.mouse_up(transcript, offset=end)  # type: ignore[attr-defined]
    await pilot.pause()  # type: ignore[attr-defined]


async def test_the_mouse_selects_source_text() -> None:
    async with reading([UserTurn("a question"), Answer(TEXT)]) as (transcript, pilot):
        assert shown(transcript)[2] == "    The bold word, a piece of code and a link (http://x.y)."
        await drag(transcript, pilot, (8, 2), (16, 2))
        assert transcript.screen.get_selected_text() == "**bold** word"
        await drag(transcript, pilot, (0, 0), (70, 4))
        assert transcript.screen.get_selected_text() == f"a question\n\n{TEXT[: TEXT.index('one') + 3]}"


async def test_a_selection_survives_streaming_folding_and_resizing() -> None:
    thought, reply = Thought("a thought\n\n" * 3), Answer(TEXT, live=True)
    async with reading([thought, reply], size=(80, 30)) as (transcript, pilot):
        await drag(transcript, pilot, (8, 2), (16, 2))
        assert transcript.screen.get_selected_text() == "**bold** word"
        transcript.append_text(reply, " and more\n\n" * 30)
        transcript.flush()
        transcript.toggle(thought)
        await pilot.resize_terminal(44, 20)
        await settled(transcript, pilot)
        transcript.finish(reply)
        assert transcript.screen.get_selected_text() == "**bold** word"


async def test_a_selection_survives_what_comes_and_goes_below_it() -> None:
    meter = Progress("reading", 0.5)
    async with reading([Answer(TEXT), NameRow("m"), meter]) as (transcript, pilot):
        await drag(transcript, pilot, (8, 0), (16, 0))
        transcript.discard(meter)
        transcript.add(Answer("an answer"))
        assert transcript.screen.get_selected_text() == "**bold** word"
        transcript.discard(transcript.entries[0])
        assert not transcript.screen.get_selected_text()


async def test_selected_rows_show_it() -> None:
    async with reading([Answer("first line\n\nsecond line")]) as (transcript, pilot):
        transcript.select(Point(0, 0, 6), Point(0, 0, 18))
        await pilot.pause()
        ground = transcript.palette.hex("selection")

        def marked(row: int) -> str:
            return "".join(
                segment.text
                for segment in strips(transcript)[row]
                if segment.style and segment.style.bgcolor and segment.style.bgcolor.name == ground
            )

        assert [marked(0), marked(1), marked(2)] == ["line", "", "second"]


async def test_two_clicks_take_a_block_and_three_an_entry() -> None:
    async with reading([UserTurn("q"), Answer(TEXT)], size=(80, 30)) as (transcript, pilot):
        await pilot.click(transcript, offset=(10, 2), times=2)
        await pilot.pause()
        assert transcript.screen.get_selected_text() == TEXT[: TEXT.index("\n")]
        await pilot.click(transcript, offset=(10, 2), times=3)
        await pilot.pause()
        assert transcript.screen.get_selected_text() == TEXT


async def test_margins_and_ends_of_rows_select_what_stands_there() -> None:
    async with reading([Answer("first line\n\nsecond line"), UserTurn("last")]) as (transcript, pilot):
        assert transcript.point_at(Offset(0, 0)) == Point(0, 0, 0)
        assert transcript.point_at(Offset(60, 0)) == Point(0, 0, 10)
        assert transcript.point_at(Offset(0, 2)) == Point(0, 0, 12)
        assert transcript.point_at(Offset(5, 3)) == Point(1, 0, 0)
        await drag(transcript, pilot, (0, 0), (60, 2))
        assert transcript.screen.get_selected_text() == "first line\n\nsecond line"


async def test_wide_characters_are_counted_as_characters() -> None:
    async with reading([Answer("日本語 and 👩‍👩‍👧 family")]) as (transcript, _):
        assert transcript.point_at(Offset(6, 0)) == Point(0, 0, 1)
        assert transcript.point_at(Offset(11, 0)) == Point(0, 0, 4)


async def test_a_formula_is_selected_as_it_was_written() -> None:
    async with reading([Answer("so $x^2$ and &amp; end")]) as (transcript, pilot):
        assert shown(transcript)[0] == "    so x² and & end"
        await drag(transcript, pilot, (7, 0), (8, 0))
        assert transcript.screen.get_selected_text() == "$x^2$"
        await drag(transcript, pilot, (10, 0), (14, 0))
        assert transcript.screen.get_selected_text() == "and &amp;"


async def test_what_is_being_selected_does_not_run_away() -> None:
    reply = Answer("line\n\n" * 40, live=True)
    async with reading([reply]) as (transcript, pilot):
        before = shown(transcript)[:10]
        await drag(transcript, pilot, (4, 1), (7, 5))
        transcript.append_text(reply, "more\n\n" * 20)
        transcript.flush()
        assert shown(transcript)[:10] == before
        assert not transcript.at_tail
        transcript.screen.clear_selection()
        await pilot.pause()
        assert transcript.at_tail
        assert transcript.scroll_y == transcript.max_scroll_y


async def test_a_call_is_copied_as_it_stands() -> None:
    call = ToolCall("run", "ls -l", arguments='{"cmd": "ls -l"}', output="a\r\nb\r\n")
    async with reading([UserTurn("q\r\nr"), call, UserTurn("next")]) as (transcript, pilot):
        await drag(transcript, pilot, (0, 0), (79, 5))
        assert transcript.screen.get_selected_text() == "q\r\nr\n\nrun ls -l\n\nnext"
        transcript.toggle(call)
        await settled(transcript, pilot)
        await drag(transcript, pilot, (0, 4), (60, 5))
        assert transcript.screen.get_selected_text() == "a\r\nb"


async def test_rows_that_wrap_are_copied_as_they_were_written() -> None:
    table = f"| a | b |\n|---|---|\n| {'long cell ' * 12}| 2 |"
    code = f"```py\nx = '{'y' * 90}'\nz = 2\n```"
    async with reading([Answer(f"{table}\n\n{code}\n\nend")], size=(70, 30)) as (transcript, pilot):
        rows = shown(transcript)
        assert len(rows[2].split()) > len(rows[4].split())
        await pilot.click(transcript, offset=(10, 3), times=2)
        await pilot.pause()
        assert transcript.screen.get_selected_text() == table
        last = next(y for y, row in enumerate(rows) if row.strip() == "z = 2")
        await pilot.click(transcript, offset=(10, last - 1), times=2)
        await pilot.pause()
        assert transcript.screen.get_selected_text() == code
        await drag(transcript, pilot, (60, last), (4, last - 2))
        assert transcript.screen.get_selected_text() == "\n".join(code.split("\n")[1:3])
