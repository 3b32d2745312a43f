from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.rows import COLOUR
from app.terminal.glyphs import UNICODE
from app.tui.transcript.entries import Answer, NameRow, Thought, UserTurn
from app.tui.transcript.entry import Entry, RowPlace, Sheet
from app.tui.transcript.page import Page
from app.tui.transcript.tool_entry import ToolCall
from app.tui.transcript.viewport import Viewport

SHARDS = (
    "Some words of a reply that is long enough to wrap in a narrow column. ",
    "see [there] and **bold",
    "** `code` ",
    "\n",
    "\n\n",
    "- item of a list that is long enough to wrap somewhere\n",
    "1. one\n   - two\n",
    "```py\nx = 1\n",
    "y = 'a much longer line of code that does not fit into a narrow column at all'\n",
    "```\n",
    "| a | b |\n|---|---|\n| one | two |\n",
    "| a cell that widens its column by quite a bit | x |\n",
    "> quoted\n",
    "---\n",
    "[there]: /u\n\n",
    "日本語の文章は折り返しの位置が違う。",
)


@dataclass(frozen=True)
class Step:
    what: Literal["grow", "finish", "resize", "rows", "toggle", "scroll", "add"]
    number: int
    text: str = ""


STEPS = st.lists(
    st.one_of(
        st.builds(Step, st.just("grow"), st.just(0), st.sampled_from(SHARDS)),
        st.builds(Step, st.just("finish"), st.just(0)),
        st.builds(Step, st.just("resize"), st.integers(1, 92)),
        st.builds(Step, st.just("rows"), st.integers(1, 40)),
        st.builds(Step, st.just("toggle"), st.integers(0, 30)),
        st.builds(Step, st.just("scroll"), st.integers(-40, 20)),
        st.builds(Step, st.just("add"), st.just(0), st.sampled_from(SHARDS)),
    ),
    max_size=40,
)


def sheet(measure: int) -> Sheet:
    return Sheet(measure, measure < 52, COLOUR, UNICODE)


def conversation() -> list[Entry]:
    text = "".join(SHARDS)
    return [
        *[
            entry
            for number in range(6)
            for entry in (
                UserTurn(f"question {number}, which is long enough to wrap once or twice in a narrow column"),
                NameRow("model"),
                Thought(text * (number % 3), seconds=1, tokens=2),
                ToolCall("read_file", "a.py", output="line of a file\n" * number * 5),
                Answer(f"{text}\n\n{number}"),
            )
        ],
        Answer(live=True),
    ]


def top_of(view: Viewport) -> tuple[Entry, int, int, int]:
    """What stands in the top row: entry, section, and the range of its text that the row begins with."""
    page = view.page
    index, row = page.find(view.y)
    entry = page.entries[index]
    row -= page.gap(index)
    if row < 0:
        return entry, -1, 0, 0
    number, inside = entry.at(row)
    section = entry.sections[number]
    start = section.row(inside).offset
    after = next(
        (offset for at in range(inside, section.count) if (offset := section.row(at).offset) > start), 1 << 40
    )
    return entry, number, start, after


def apply(step: Step, view: Viewport) -> bool:
    """Do a step; whether it was the person who moved."""
    page = view.page
    live = page.entries[-1]
    match step.what:
        case "grow":
            live.grow(step.text)
            page.lay(len(page.entries) - 1)
        case "finish":
            live.finish()
            page.lay(len(page.entries) - 1)
            page.append(Answer(live=True))
        case "resize":
            page.resize(sheet(step.number))
        case "rows":
            view.rows = step.number
        case "toggle":
            entry = page.entries[step.number % len(page.entries)]
            held = view.anchor is not None and view.anchor.entry is entry
            followed = view.follow
            view.toggle(entry)
            return held or followed
        case "add":
            page.append(UserTurn(step.text))
            page.append(Answer(live=True))
        case "scroll":
            view.move_to(view.y + step.number)
            return True
    view.place()
    return False


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_the_row_at_the_top_stays_unless_the_person_moved(steps: list[Step]) -> None:
    check_that_the_top_stays(steps)


@pytest.mark.soak
@pytest.mark.timeout(600)
@settings(deadline=None, max_examples=4000)
@given(STEPS)
def test_the_row_at_the_top_stays_whatever_happens(steps: list[Step]) -> None:
    check_that_the_top_stays(steps)


def check_that_the_top_stays(steps: list[Step]) -> None:
    page = Page(sheet(76))
    page.replace(conversation())
    view = Viewport(page)
    view.rows = 20
    view.place()
    view.move_to(view.y - 30)
    held = None if view.follow else top_of(view)
    for step in steps:
        moved = apply(step, view)
        assert 0 <= view.y <= max(view.end, view.y if not view.follow else 0)
        assert view.height >= page.total
        if view.follow:
            assert view.y == view.end
            held = None
        elif moved or held is None:
            held = top_of(view)
        else:
            entry, section, start, after = top_of(view)
            assert entry is held[0]
            assert section == held[1]
            assert start <= held[2] < max(after, start + 1)


@settings(deadline=None, max_examples=20)
@given(STEPS)
def test_heights_on_the_page_are_those_of_a_page_laid_out_at_once(steps: list[Step]) -> None:
    page = Page(sheet(76))
    page.replace(conversation())
    view = Viewport(page)
    view.rows = 20
    view.place()
    for step in steps:
        apply(step, view)
    for index in range(len(page.entries)):
        page.lay(index)
    fresh = Page(page.sheet)
    fresh.replace(page.entries)
    for index, entry in enumerate(fresh.entries):
        entry.touch()
        fresh.lay(index)
    assert [page.heights[index] for index in range(len(page.entries))] == [
        fresh.heights[index] for index in range(len(fresh.entries))
    ]


def test_a_fold_that_is_scrolled_into_comes_to_the_top() -> None:
    page = Page(sheet(60))
    thought = Thought("word " * 400, seconds=1, tokens=2)
    thought.toggle()
    page.replace([UserTurn("a"), NameRow("m"), thought, Answer("text " * 400)])
    view = Viewport(page)
    view.rows = 10
    view.place()
    view.move_to(20)
    view.toggle(thought)
    assert view.y == page.top(2)
    assert not view.follow


def test_opening_a_fold_in_view_at_the_end_moves_nothing_above_it() -> None:
    page = Page(sheet(60))
    thought = Thought("word " * 400, seconds=1, tokens=2)
    page.replace([UserTurn("a " * 300), NameRow("m"), thought, Answer("text")])
    view = Viewport(page)
    view.rows = 10
    view.place()
    before = view.y
    view.toggle(thought)
    assert view.y == before
    assert not view.follow
    view.toggle(thought)
    assert view.follow


def test_text_that_comes_below_is_counted_until_the_person_is_back() -> None:
    page = Page(sheet(60))
    reply = Answer("text\n\n" * 30, live=True)
    page.replace([reply])
    view = Viewport(page)
    view.rows = 10
    view.place()
    view.move_to(5)
    reply.grow("more\n\n" * 6)
    page.lay(0)
    view.place()
    assert view.unseen == 12
    view.move_to(view.end - 4)
    assert view.unseen == 4
    view.to_end()
    assert view.unseen == 0
    assert view.follow


def test_a_place_survives_its_entry_laid_out_narrow_and_wide_again() -> None:
    page = Page(sheet(60))
    page.replace([Answer("word " * 400)])
    view = Viewport(page)
    view.rows = 5
    view.place()
    view.move_to(7)
    before = top_of(view)
    for measure in (13, 40, 60):
        page.resize(sheet(measure))
        view.place()
    assert top_of(view) == before
    assert view.y == 7


def test_the_first_row_of_an_entry_is_the_nearest_one_to_what_is_folded_away() -> None:
    thought = Thought("word " * 100, seconds=1, tokens=2)
    thought.layout(sheet(60))
    assert thought.row_of(RowPlace(1, 50)) == 0
