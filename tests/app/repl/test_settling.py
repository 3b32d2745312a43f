from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.markdown import MarkdownText
from app.markdown.rows import COLOUR, Mode, Row
from app.markdown.sgr import TerminalStyle
from app.repl import settling
from app.repl.settling import SettlingText
from app.repl.styled_page import StyledPage
from app.terminal.glyphs import UNICODE
from app.terminal.theming import palette, read

BLOCKS = [
    "A plain paragraph of some words that is long enough to be wrapped at least once or twice.",
    "Some **bold words that go on over the end of the row, as they do** and then `code with * star` too.",
    "# A heading",
    "- one item\n- another item with more words than one row can hold at this width\n- third",
    "1. first\n2. second\n   more of it",
    "```python\ndef f(x):\n    return x * 2\n\n# a comment\n```",
    "| name | value |\n|---|---:|\n| one | 1 |\n| two with more words | 22 |",
    "> a quote of several words that has to be wrapped because it is long, and goes on",
    "---",
    "A [link](http://example.com/a) and *emphasis* and a_snake_case and 2 * 3 * 4 stars.",
    "Unclosed **bold that never ends and goes on for more than a row, so that it is held for a while",
    "Text\nwith line\nbreaks",
    "- outer\n  - inner with `code` and **bold that is long enough to go over the end of a row**\n- last",
    "Costs $5 and $x^2$ or \\(y\\), and 50% & more.",
    "    indented code\n    of two lines",
    "~~gone~~ and <b>html</b> & entities &amp; more",
]
documents = st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=5).map("\n\n".join)


def texts(rows: list[Row]) -> list[str]:
    return [row.text.rstrip() for row in rows]


def streamed(source: str, sizes: list[int], width: int, mode: Mode) -> list[Row]:
    text, rows, place = SettlingText(width, mode, lambda: 0.0), list[Row](), 0
    index = 0
    while place < len(source):
        size = sizes[index % len(sizes)]
        index += 1
        text.append(source[place : place + size])
        place += size
        rows += text.take()
        assert "\n" not in text.tail(width)
    return rows + text.finish()


def whole(source: str, width: int, mode: Mode) -> list[Row]:
    text = MarkdownText(source, finished=True)
    text.layout(width, mode)
    return text.rows


@pytest.mark.parametrize("mode", [COLOUR, Mode(plain=True), Mode(plain=True, ascii=True)])
@pytest.mark.parametrize("source", BLOCKS)
def test_a_block_comes_out_as_if_it_had_come_whole(source: str, mode: Mode) -> None:
    for size in (1, 3, 7, 1000):
        assert texts(streamed(source, [size], 40, mode)) == texts(whole(source, 40, mode)), size


@given(documents, st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(20, 90))
@settings(deadline=None, max_examples=60)
def test_a_text_comes_out_as_if_it_had_come_whole(source: str, sizes: list[int], width: int) -> None:
    assert texts(streamed(source, sizes, width, COLOUR)) == texts(whole(source, width, COLOUR))


@given(documents, st.lists(st.tuples(st.integers(1, 40), st.integers(20, 90)), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_no_word_is_lost_or_said_twice_when_the_width_changes(
    source: str, pieces: list[tuple[int, int]]
) -> None:
    text, rows, place, index = SettlingText(60, COLOUR, lambda: 0.0), list[Row](), 0, 0
    while place < len(source):
        size, width = pieces[index % len(pieces)]
        index += 1
        text.resize(width)
        text.append(source[place : place + size])
        place += size
        rows += text.take()
    rows += text.finish()

    def words(found: list[Row]) -> list[str]:
        return re.findall(r"\w+", " ".join(row.text for row in found))

    if any(mark in source for mark in ("|---|", "```", "](")):
        return  # where a table, a line of code or an address breaks elsewhere, its words do too
    assert words(rows) == words(whole(source, 60, COLOUR))


def test_rows_come_out_while_a_long_block_is_written() -> None:
    text, given_out = SettlingText(40, COLOUR, lambda: 0.0), 0
    text.append("```python\n")
    for number in range(200):
        text.append(f"x = {number}\n")
        given_out += len(text.take())
        assert given_out >= number - 2
    assert text.tail(40) == ""


def test_the_tail_is_the_end_of_what_is_in_no_row() -> None:
    text = SettlingText(40, COLOUR, lambda: 0.0)
    text.append("word " * 6)
    text.take()
    assert text.tail(20).startswith("\u2039")
    assert len(text.tail(20)) <= 20
    assert text.tail(80) == ("word " * 6).strip()


def test_a_slow_layout_is_not_made_for_each_token() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.05  # every look at the clock, so a layout seems to take this long
        return now

    text, calls = SettlingText(40, COLOUR, clock), 0
    for number in range(100):
        text.append(f"word{number}\n\n")
        calls += bool(text.take())
    assert 0 < calls < 60
    assert "word99" in texts(text.finish())[-1]


SHARDS = [
    *(
        "alpha ",
        "beta",
        "gamma delta",
        " ",
        "\n",
        "\n\n",
        "**",
        "*",
        "_",
        "`",
        "```\n",
        "```py\n",
        "- ",
        "1. ",
    ),
    *("1. ", "> ", "# ", "| ", "|---|\n", "[x](http://y)", "[", "](", "]", "<b>", "&amp;", "$", "\\(", "\\)"),
    *("---\n", "===\n", "    ", "~~", "<", ">", "\t", "epsilon, zeta. "),
]
NAMES = "alpha|beta|gamma|delta|epsilon|zeta"


@given(
    st.lists(st.sampled_from(SHARDS), min_size=1, max_size=40).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.sampled_from([20, 40, 80]),
)
@settings(deadline=None, max_examples=150)
def test_of_any_text_no_word_is_lost(source: str, sizes: list[int], width: int) -> None:
    def names(rows: list[Row]) -> Counter[str]:
        return Counter(re.findall(NAMES, "".join(row.text for row in rows)))

    assert not names(whole(source, width, COLOUR)) - names(streamed(source, sizes, width, COLOUR))


async def test_what_was_passed_over_is_shown_though_no_more_text_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settling, "SLOW_S", -1.0)  # every layout counts as a slow one
    monkeypatch.setattr(settling, "LAYOUT_SHARE", 100)
    put: list[str] = []
    page = StyledPage(
        TerminalStyle(palette(read("hearth"), None), UNICODE), put.extend, lambda _: None, lambda: 80
    )
    for number in range(6):
        page.answer(f"Paragraph {number}.\n\n")
    assert not any("Paragraph 4." in row for row in put)
    async with asyncio.timeout(30):
        while not any("Paragraph 4." in row for row in put):
            await asyncio.sleep(0.01)
    page.end_answer()
    assert [sum(f"Paragraph {number}." in row for row in put) for number in range(6)] == [1] * 6
