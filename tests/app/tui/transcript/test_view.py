from __future__ import annotations

import random

import pytest
from textual.widgets import TextArea

from app.terminal.glyphs import ASCII
from app.terminal.theming import palette, read
from app.tui.transcript.entries import Answer, NameRow, Note, Progress, Thought, UserTurn
from app.tui.transcript.entry import Entry
from app.tui.transcript.painter import Painter
from app.tui.transcript.tool_entry import ToolCall
from app.tui.transcript.view import Transcript
from tests.app.markdown.samples import SAMPLES as NAMED_SAMPLES
from tests.app.tui.transcript.pages import all_strips, looks, reading, settled, shown, strips, until

SAMPLES = list(NAMED_SAMPLES.values())


def long_chat(count: int = 40) -> list[Entry]:
    return [
        entry
        for number in range(count)
        for entry in (
            UserTurn(f"question {number}"),
            NameRow("model"),
            Answer(f"answer {number}\n\n- a\n- b"),
        )
    ]


async def test_what_streamed_looks_as_if_it_had_been_there_from_the_start() -> None:
    choose = random.Random(7)
    replies: list[Answer] = []
    async with reading(size=(90, 30)) as (transcript, pilot):
        for _ in range(12):
            text = choose.choice(["\n", "\n\n", ""]).join(choose.sample(SAMPLES, choose.choice([1, 2, 4])))
            reply = Answer(live=True)
            replies.append(reply)
            transcript.add(reply)
            at = 0
            while at < len(text):
                size = choose.choice([1, 2, 3, 5, 8, 13, 40])
                transcript.append_text(reply, text[at : at + size])
                at += size
                if choose.random() < 0.3:
                    transcript.flush()
                if choose.random() < 0.02:
                    await pilot.resize_terminal(choose.choice([50, 70, 90]), 30)
                if choose.random() < 0.02:
                    transcript.scroll_to(y=choose.randrange(1 + transcript.page.total), animate=False)
            transcript.finish(reply)
        await pilot.resize_terminal(83, 30)
        transcript.to_end()
        await settled(transcript, pilot)
        all_strips(transcript)
        for reply in replies:
            while reply.body.settle(1):
                pass
        streamed = all_strips(transcript)
    whole = [Answer(reply.source) for reply in replies]
    async with reading(whole, size=(83, 30)) as (transcript, _):
        all_strips(transcript)
        for reply in whole:
            while reply.body.settle(1):
                pass
        fresh = all_strips(transcript)
    assert len(streamed) == len(fresh)
    for mine, other in zip(streamed, fresh, strict=True):
        assert looks(mine) == looks(other)


async def test_the_view_follows_the_end_to_the_last_row() -> None:
    async with reading(long_chat()) as (transcript, pilot):
        reply = Answer(live=True)
        transcript.add(reply)
        for line in "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\na\nb\nc\nd\ne\nf\n```".split("\n"):
            transcript.append_text(reply, f"{line}\n")
            transcript.flush()
        transcript.finish(reply)
        await settled(transcript, pilot)
        assert transcript.at_tail
        assert transcript.scroll_y == transcript.max_scroll_y
        assert shown(transcript)[-1].strip() == "f"
        await pilot.resize_terminal(60, 24)
        await settled(transcript, pilot)
        assert transcript.scroll_y == transcript.max_scroll_y
        assert shown(transcript)[-1].strip() == "f"


async def test_one_turn_of_the_wheel_holds_the_view_while_text_comes() -> None:
    async with reading(long_chat()) as (transcript, pilot):
        reply = Answer(live=True)
        transcript.add(reply)
        await settled(transcript, pilot)
        transcript.scroll_relative(y=-3, animate=False, immediate=True)
        await pilot.pause()
        before, rows = transcript.scroll_y, shown(transcript)
        for number in range(20):
            transcript.append_text(reply, f"line {number}\n\n")
            transcript.flush()
            assert transcript.scroll_y == before
        await pilot.pause()
        assert shown(transcript)[:-3] == rows[:-3]
        told = [message.rows for message in pilot.app.told if isinstance(message, Transcript.NewBelow)]  # type: ignore[attr-defined]
        assert told[-1] == transcript.new_below > 30
        transcript.to_end()
        await pilot.pause()
        assert transcript.at_tail
        assert transcript.new_below == 0


@pytest.mark.parametrize("rows", [1, 2])
async def test_the_wheel_back_to_nearly_the_end_follows_it_again(rows: int) -> None:
    async with reading(long_chat()) as (transcript, pilot):
        reply = Answer("here\n\n", live=True)
        transcript.add(reply)
        await settled(transcript, pilot)
        transcript.scroll_relative(y=-9, animate=False, immediate=True)
        await pilot.pause()
        assert not transcript.at_tail
        transcript.scroll_relative(y=9 - rows, animate=False, immediate=True)
        await pilot.pause()
        assert transcript.at_tail
        transcript.append_text(reply, "and the last line")
        transcript.flush()
        await settled(transcript, pilot)
        assert shown(transcript)[-1].strip().startswith("and the last line")
        # One row up is up: only going down means the end.
        transcript.scroll_relative(y=-1, animate=False, immediate=True)
        await pilot.pause()
        assert not transcript.at_tail


async def test_rows_that_came_below_are_counted_wherever_they_came_from() -> None:
    async with reading(long_chat()) as (transcript, pilot):
        transcript.scroll_relative(y=-30, animate=False, immediate=True)
        await settled(transcript, pilot)
        total = transcript.page.total
        reply = Answer(live=True)
        for entry in (UserTurn("next"), NameRow("model"), Answer("text\n\n" * 20), ToolCall("run"), reply):
            transcript.add(entry)
            await settled(transcript, pilot)
            assert transcript.new_below == transcript.page.total - total
        transcript.append_text(reply, "one\n\ntwo")
        await settled(transcript, pilot)
        came = transcript.page.total - total
        assert transcript.new_below == came > 45
        transcript.insert(Note("2 messages left out", lost=True), transcript.entries[3])
        await settled(transcript, pilot)
        assert transcript.new_below == came
        transcript.scroll_relative(y=40, animate=False, immediate=True)
        await settled(transcript, pilot)
        left = transcript.page.total - transcript.scroll_offset.y - transcript.size.height
        assert transcript.new_below == left < came
        transcript.scroll_relative(y=-20, animate=False, immediate=True)
        await settled(transcript, pilot)
        assert transcript.new_below == left
        transcript.discard(reply)
        await settled(transcript, pilot)
        assert transcript.new_below == left - 4


async def test_a_chat_opens_without_laying_out_what_is_not_in_view() -> None:
    entries = long_chat(3000)
    async with reading(size=(80, 24)) as (transcript, pilot):
        transcript.replace_all(entries)
        await settled(transcript, pilot)
        assert shown(transcript)[-1] == "    - b"
        assert sum([entry.sheet is not None for entry in entries]) < 60
        transcript.scroll_to(y=4000, animate=False, immediate=True)
        await settled(transcript, pilot)
        assert sum([entry.sheet is not None for entry in entries]) < 120
        assert any(["answer" in row for row in shown(transcript)])


async def test_another_chat_and_back_is_where_the_person_stood() -> None:
    first, second = long_chat(), [UserTurn("another chat")]
    async with reading(first) as (transcript, pilot):
        transcript.scroll_to(y=50, animate=False, immediate=True)
        await settled(transcript, pilot)
        rows, position = shown(transcript), transcript.position
        transcript.replace_all(second)
        await pilot.pause()
        assert shown(transcript)[0] == "  ▐ another chat"
        transcript.append_text(first[-1], "more while nobody looks")
        transcript.replace_all(first, position)
        await pilot.pause()
        assert shown(transcript) == rows
        assert not transcript.at_tail


async def test_a_chat_made_anew_is_where_the_person_stood() -> None:
    def entries() -> list[Entry]:
        return [UserTurn(f"question {number} " * 20, id=f"item_{number}") for number in range(40)]

    async with reading(entries()) as (transcript, pilot):
        transcript.scroll_to(y=33, animate=False, immediate=True)
        await settled(transcript, pilot)
        rows = shown(transcript)
        transcript.replace_all(entries(), transcript.position)
        await pilot.pause()
        assert shown(transcript) == rows
        transcript.replace_all([UserTurn("without ids")], transcript.position)
        assert transcript.at_tail


async def test_folds_open_and_close_in_place() -> None:
    thought = Thought("first\n\nsecond", seconds=3.2, tokens=214)
    async with reading([UserTurn("q"), NameRow("m"), thought, Answer("a")]) as (transcript, pilot):
        assert shown(transcript)[2:6] == ["    m", "    ▸ thought for 3.2 s, 214 tokens", "", "    a"]
        transcript.toggle(thought)
        await pilot.pause()
        assert shown(transcript)[3:9] == [
            "    ▾ thought for 3.2 s, 214 tokens",
            "    ╎ first",
            "    ╎",
            "    ╎ second",
            "",
            "    a",
        ]
        assert transcript.fold_all_thoughts() is True
        assert thought.folded
        assert transcript.fold_all_thoughts() is False
        assert not thought.folded


async def test_a_thought_folds_when_its_answer_begins_unless_it_is_being_read() -> None:
    thought = Thought("a thought\n\n" * 40, live=True)
    async with reading([*long_chat(), NameRow("m", live=True), thought]) as (transcript, pilot):
        await settled(transcript, pilot)
        transcript.scroll_relative(y=-5, animate=False, immediate=True)
        await pilot.pause()
        assert transcript.fold_thought(thought) is False
        transcript.to_end()
        assert transcript.fold_thought(thought) is True
        await settled(transcript, pilot)
        assert transcript.at_tail
        assert "    ▸ thinking" in shown(transcript)


async def test_a_long_result_shows_its_last_rows_then_all_then_none() -> None:
    call = ToolCall("run", "ls", output="\n".join(f"file {number}" for number in range(212)))
    async with reading([call], size=(80, 300)) as (transcript, pilot):
        for rows, last in ((10, "    ╎ file 211"), (213, "    ╎ file 211"), (1, "    ▸ run ls"), (10, None)):
            transcript.toggle(call)
            await pilot.pause()
            assert call.height == rows
            if last:
                assert shown(transcript)[rows - 1].startswith(last)
            if rows == 10:
                assert shown(transcript)[1] == "    ╎ ▴ 204 more"


async def test_live_output_shows_its_last_rows() -> None:
    call = ToolCall("run", "make", state="running")
    async with reading([call]) as (transcript, pilot):
        for number in range(20):
            transcript.append_text(call, f"step {number}\n")
        transcript.flush()
        await pilot.pause()
        assert shown(transcript)[0] == f"    ▾ run make{'running':>62}"
        assert shown(transcript)[1].strip() == "╎ ▴ 12 more"
        assert shown(transcript)[9].strip() == "╎ step 19▖"
        call.end("done", "20 lines, 3 ms")
        transcript.changed(call)
        await settled(transcript, pilot)
        assert shown(transcript)[0].endswith("✓ 20 lines, 3 ms")
        assert shown(transcript)[1] == ""


async def test_arguments_show_as_they_stream() -> None:
    call = ToolCall("write_file", state="writing")
    async with reading([call]) as (transcript, pilot):
        transcript.append_text(call, '{"path": "a.txt", ')
        transcript.append_text(call, '"text": "x"}')
        transcript.flush()
        await pilot.pause()
        assert shown(transcript)[1] == '    ╎ {"path": "a.txt", "text": "x"}▖'


async def test_what_lives_has_an_ember_and_a_caret() -> None:
    name, reply = NameRow("m", live=True), Answer("so far", live=True)
    async with reading([name, reply]) as (transcript, pilot):
        assert shown(transcript)[:2] == ["  ▗ m", "    so far▖"]
        name.live = False
        transcript.changed(name)
        transcript.finish(reply)
        await settled(transcript, pilot)
        assert shown(transcript)[:2] == ["    m", "    so far"]


async def test_an_answer_without_text_takes_no_row() -> None:
    reply = Answer(live=True)
    async with reading([NameRow("m"), reply, UserTurn("next")]) as (transcript, _):
        assert shown(transcript)[:3] == ["    m", "", "  ▐ next"]
        transcript.append_text(reply, "\n\n")
        transcript.flush()
        assert shown(transcript)[:3] == ["    m", "", "  ▐ next"]
        transcript.append_text(reply, "word")
        transcript.flush()
        assert shown(transcript)[:4] == ["    m", "    word▖", "", "  ▐ next"]


@pytest.mark.parametrize("width", [20, 40, 59, 60, 80, 120, 160, 200])
async def test_no_row_is_wider_than_the_widget(width: int) -> None:
    text = "".join(SAMPLES)
    entries = [UserTurn(text, time="14:02", attachments=["a long name of a file  1.1 KB"] * 2)]
    entries += [NameRow("a model with a long name", ("2.4 s", "109 tok/s"), variant=(2, 3)), Answer(text)]
    entries += [Note("x" * 300, text, lost=True), Progress("reading", 0.6, left="5 s left", facts=("1", "2"))]
    async with reading(entries, size=(width, 24)) as (transcript, _):
        for strip in all_strips(transcript):
            assert strip.cell_length == transcript.scrollable_content_region.width
            assert sum([segment.cell_length for segment in strip]) == strip.cell_length


async def test_narrow_screens_have_no_margin_and_no_statistics() -> None:
    entries = [UserTurn("hello"), NameRow("m", ("2.4 s", "109 tok/s"))]
    async with reading(entries, size=(59, 24)) as (transcript, pilot):
        assert shown(transcript)[:3] == ["▐ hello", "", "  m"]
        await pilot.resize_terminal(60, 24)
        await pilot.pause()
        assert shown(transcript)[2].endswith("2.4 s   109 tok/s")


async def test_wide_screens_centre_a_measure_of_92() -> None:
    async with reading([UserTurn("word " * 60)], size=(140, 24)) as (transcript, _):
        rows = shown(transcript)
        assert rows[0].index("▐") == 22
        assert rows[0].index("word") == 24
        assert max(map(len, rows)) <= 24 + 92 - 10


async def test_ascii_draws_nothing_else() -> None:
    entries = [UserTurn("hello"), NameRow("m", live=True), Thought("t", seconds=1, tokens=2)]
    entries += [ToolCall("run", "ls", facts="1 line", output="x"), Answer("a *b*", live=True)]
    entries += [Note("model changed", lost=True), Progress("reading", 0.5, facts=("1 of 2 tokens",))]
    async with reading(entries, glyphs=ASCII) as (transcript, pilot):
        for entry in entries:
            if entry.foldable:
                transcript.toggle(entry)
        await settled(transcript, pilot)
        assert "".join(shown(transcript)).isascii()
        assert shown(transcript)[2] == "  * m"


async def test_without_colour_attributes_carry_the_meaning() -> None:
    toneless = palette(read("hearth"), None)
    async with reading([NameRow("m"), Answer("see `code`")], palette=toneless) as (transcript, _):
        assert shown(transcript)[1] == "    see `code`"
        name = next(segment for segment in strips(transcript)[0] if segment.text == "m")
        assert name.style is not None and name.style.bold


async def test_another_palette_changes_colours_and_lays_nothing_out() -> None:
    async with reading(long_chat()) as (transcript, pilot):
        before, sheets = strips(transcript), [entry.sheet for entry in transcript.entries]
        text = shown(transcript)
        transcript.set_look(palette(read("daylight")))
        await pilot.pause()
        assert shown(transcript) == text
        assert [entry.sheet for entry in transcript.entries] == sheets
        for old, new in zip(before, strips(transcript), strict=True):
            assert looks(old) != looks(new)


async def test_code_stays_through_a_change_of_theme_and_size() -> None:
    reply = Answer(live=True)
    async with reading([reply]) as (transcript, pilot):
        for piece in ("Intro\n\n", "```py\n", "x = 1\n", "y = 2\n", "```\n"):
            transcript.append_text(reply, piece)
            transcript.flush()
        transcript.finish(reply)
        transcript.set_look(palette(read("frost")))
        await pilot.resize_terminal(50, 20)
        await settled(transcript, pilot)
        assert [row.strip() for row in shown(transcript)[:5]] == ["Intro", "", "py", "x = 1", "y = 2"]
        assert transcript.copy_code(reply) == "x = 1\ny = 2\n"


async def test_the_thumb_shows_only_when_there_is_more_to_see() -> None:
    async with reading([UserTurn("one row")]) as (transcript, pilot):
        bar = transcript.vertical_scrollbar
        assert not [s for line in bar.render_lines(bar.size.region) for s in line if s.text.strip()]
        transcript.replace_all(long_chat())
        await settled(transcript, pilot)
        cells = ["".join([s.text for s in line]) for line in bar.render_lines(bar.size.region)]
        assert set(cells) == {" ", "▐"}
        assert cells[-1] == "▐"


async def test_frames_gather_tokens() -> None:
    reply = Answer(live=True)
    async with reading([reply]) as (transcript, _):
        laid: list[int] = []
        layout = reply.layout
        reply.layout = lambda sheet: laid.append(1) or layout(sheet)  # type: ignore[method-assign,func-returns-value]
        for _ in range(200):
            transcript.append_text(reply, "word ")
        await until(lambda: transcript.settled)
        assert len(laid) < 8
        assert reply.source == "word " * 200


async def test_entries_come_and_go_anywhere() -> None:
    first, last = UserTurn("first"), UserTurn("last")
    async with reading([first, last]) as (transcript, pilot):
        middle = UserTurn("middle", id="item_1")
        transcript.insert(middle, last)
        await settled(transcript, pilot)
        assert shown(transcript)[:5] == ["  ▐ first", "", "  ▐ middle", "", "  ▐ last"]
        assert transcript.entry_of("item_1") is middle
        transcript.discard(first)
        transcript.discard(first)
        await settled(transcript, pilot)
        assert shown(transcript)[:3] == ["  ▐ middle", "", "  ▐ last"]
        assert transcript.entry_of("") is None


async def test_a_row_that_changes_between_two_frames_is_never_blank() -> None:
    name, reply = NameRow("m", live=True), Answer("```py\nx = 1\n```\n", live=True)
    async with reading([name, reply]) as (transcript, pilot):
        name.facts = ("esc stops",)
        transcript.changed(name)
        assert shown(transcript)[0] == "  ▗ m"
        transcript.scroll_relative(y=1, animate=False, immediate=True)
        await settled(transcript, pilot)
        painted = pilot.app.screen._compositor.render_strips()[0].text  # pyright: ignore[reportPrivateUsage]
        assert painted.rstrip().endswith("esc stops")


@pytest.mark.parametrize("size", [(1, 1), (2, 4), (5, 5), (12, 6), (300, 5)])
async def test_any_size_is_drawn(size: tuple[int, int]) -> None:
    entries = [UserTurn("".join(SAMPLES), time="14:02"), NameRow("m", ("1 s",)), Answer("".join(SAMPLES))]
    entries += [Note("note"), Progress("reading", 0.3, facts=("1",)), ToolCall("run", "ls", state="failed")]
    async with reading(entries, size=size) as (transcript, pilot):
        transcript.scroll_home(animate=False)
        await pilot.pause()
        for strip in all_strips(transcript):
            assert strip.cell_length == transcript.scrollable_content_region.width
        await pilot.resize_terminal(80, 24)
        await settled(transcript, pilot)
        assert any(row for row in shown(transcript))


async def test_a_token_makes_one_strip_and_lays_out_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = Answer("a paragraph\n\n" * 200, live=True)
    entries = [*long_chat(1000), reply]
    async with reading(entries) as (transcript, pilot):
        await settled(transcript, pilot)
        made: list[object] = []
        laid: list[Entry] = []
        strip, arrange = Painter.strip, Entry.layout
        monkeypatch.setattr(
            Painter, "strip", lambda *given, **named: made.append(1) or strip(*given, **named)
        )
        monkeypatch.setattr(
            Answer, "layout", lambda entry, sheet: laid.append(entry) or arrange(entry, sheet)
        )
        for number in range(20):
            transcript.append_text(reply, "x" if number % 2 else " ")
            transcript.flush()
            await pilot.pause()
        assert len(made) <= 60
        assert set(laid) == {reply}
        made.clear()
        pilot.app.query_one(TextArea).focus()
        await pilot.press("a", "b", "c")
        assert made == []


async def test_a_hit_that_was_not_shown_is_shown() -> None:
    call = ToolCall("run", "ls", arguments='{"cmd": "ls", "why": "a needle"}', output="row\n" * 20)
    thought = Thought("word " * 300 + "needle", seconds=1, tokens=2)
    note = Note("4 messages summarised", "they told of a needle")
    async with reading([*long_chat(), thought, call, note, *long_chat()]) as (transcript, pilot):
        assert transcript.find("needle") == 3
        for _ in range(3):
            await settled(transcript, pilot)
            assert any("needle" in row for row in shown(transcript)), transcript.found
            transcript.find_next()
        assert not thought.folded and not call.folded and not note.folded


async def test_the_thumb_is_dragged_while_text_comes() -> None:
    reply = Answer(live=True)
    async with reading([*long_chat(), reply]) as (transcript, pilot):
        await settled(transcript, pilot)
        bar = transcript.vertical_scrollbar
        column = bar.region.x
        await pilot.mouse_down(offset=(column, transcript.size.height - 1))
        await pilot.hover(offset=(column, 9))
        await pilot.pause()
        rows = shown(transcript)
        assert not transcript.at_tail
        for number in range(20):
            transcript.append_text(reply, f"line {number}\n\n")
            transcript.flush()
            await pilot.pause()
            assert shown(transcript) == rows
        await pilot.hover(offset=(column, transcript.size.height + 2))
        await pilot.mouse_up(offset=(column, transcript.size.height + 2))
        await settled(transcript, pilot)
        assert transcript.at_tail
        assert shown(transcript)[-1].startswith("    line 19")
