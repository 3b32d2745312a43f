from __future__ import annotations

import io
import os
import re
import shutil
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.frontend.markdown_style import own_style
from app.markdown.stream import MarkdownStream, render_block

SIZE = os.terminal_size((40, 30))


class Screen:
    """As much of a terminal as the stream needs: rows, wrapping, cursor up, erase below."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[str] = [""]
        self.row = 0
        self.column = 0

    def feed(self, output: str) -> None:
        for part in re.findall(r"\x1b\[\d*[A-Za-z]|\x1b\[[\d;]*m|[^\x1b]", output):
            if part.startswith("\x1b"):
                self._control(part)
            else:
                self._put(part)

    def text(self) -> str:
        return "\n".join(row.rstrip() for row in self.rows).strip()

    def _control(self, part: str) -> None:
        if part.endswith("A"):
            self.row = max(0, self.row - int(part[2:-1]))
        elif part == "\x1b[K":
            self.rows[self.row] = self.rows[self.row][: self.column]
        elif part == "\x1b[J":
            self.rows[self.row] = self.rows[self.row][: self.column]
            del self.rows[self.row + 1 :]

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
            return
        if char == "\n" or self.column >= self.columns:
            self.row, self.column = self.row + 1, 0
            while len(self.rows) <= self.row:
                self.rows.append("")
            if char == "\n":
                return
        line = self.rows[self.row].ljust(self.column)
        self.rows[self.row] = line[: self.column] + char + line[self.column + 1 :]
        self.column += 1


def shown(text: str, cuts: list[int], *, draw: bool = True) -> str:
    out = io.StringIO()
    stream = MarkdownStream(out, own_style)
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in pairwise(edges):
        stream.write(text[start:end])
    stream.finish(draw=draw)
    screen = Screen(SIZE.columns)
    screen.feed(out.getvalue())
    return screen.text()


@pytest.fixture(autouse=True)
def small_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback=SIZE: SIZE)


DOCUMENT = """# A title

A paragraph with **bold words**, long enough that it wraps on a narrow screen.

1. one

   still one
2. two

```python
def f():

    return 1
```
The end.
"""


@given(st.lists(st.integers(0, len(DOCUMENT)), max_size=40))
def test_where_the_pieces_are_cut_changes_nothing(cuts: list[int]) -> None:
    assert shown(DOCUMENT, cuts) == shown(DOCUMENT, [])


@given(st.text("`~-*1. \nab#|", max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_any_text_is_drawn_alike_however_it_is_cut(text: str, cuts: list[int]) -> None:
    assert shown(text, cuts) == shown(text, [])


def test_markup_is_drawn_and_every_word_is_there_once() -> None:
    text = shown(DOCUMENT, list(range(len(DOCUMENT))))
    assert "**" not in text
    assert "```" not in text
    assert text.count("bold words") == 1
    assert text.count("return 1") == 1
    assert text.endswith("The end.")


def test_a_reply_that_was_stopped_stays_as_it_was_shown() -> None:
    assert shown("half **a wo", [5], draw=False) == "half **a wo"


def test_control_characters_never_reach_the_terminal() -> None:
    out = io.StringIO()
    stream = MarkdownStream(out, own_style)
    stream.write("a\x1b]0;owned\x07b\x9b2J")
    stream.finish(draw=False)
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_a_block_taller_than_the_screen_is_left_alone() -> None:
    text = "```\n" + "".join(f"line {number}\n" for number in range(60)) + "```\n"
    out = io.StringIO()
    stream = MarkdownStream(out, own_style)
    stream.write(text)
    stream.finish()
    assert "\x1b[" not in out.getvalue()
    assert out.getvalue().count("line 59") == 1


def test_a_line_of_doubtful_width_that_wraps_is_left_alone() -> None:
    out = io.StringIO()
    stream = MarkdownStream(out, own_style)
    stream.write("\N{FAMILY}\u200d\N{FAMILY}" * 20)
    stream.finish()
    assert "\x1b[" not in out.getvalue()


def test_a_resized_screen_leaves_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    stream = MarkdownStream(out, own_style)
    stream.write("some **words**")
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((20, 30)))
    stream.finish()
    assert "\x1b[" not in out.getvalue()


@pytest.mark.parametrize(
    ("source", "end"),
    [
        ("para", None),
        ("para\n", None),
        ("para\n\n", None),
        ("para\n\nn", 6),
        ("- a\n\n- b", None),
        ("- a\n\n  more", None),
        ("- a\n\nend", 5),
        ("text\n```py\n", 5),
        ("```\nx\n```\n", 10),
        ("```\nx\n```", None),
        ("````\n```\n````\n", 14),
    ],
)
def test_a_block_closes_when_it_cannot_grow(
    source: str, end: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    for size in (1, len(source)):
        closed.clear()
        stream = MarkdownStream(io.StringIO(), own_style)
        monkeypatch.setattr(stream, "_settle", closed.append)
        for at in range(0, len(source), size):
            stream.write(source[at : at + size])
        assert closed == ([] if end is None else [source[:end]])


@pytest.mark.parametrize("text", ["keep 3<x and y>1 ok", "List<Item>", "<name>value</name>", "<!-- note -->"])
def test_text_that_looks_like_html_stays(text: str) -> None:
    assert shown(text, []) == text
    assert render_block(text, 40, own_style()).strip() == text
