from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from app.markdown.clean import clean
from app.markdown.markdown import MarkdownText
from app.markdown.resume import Document, parse_whole
from app.markdown.rows import COLOUR, Mode, Row
from tests.app.markdown.samples import (
    HOSTILE,
    MODES,
    MORE_SHARDS,
    SAMPLES,
    WIDTHS,
    fresh_rows,
    settled_rows,
)

NEVER = {char for char in HOSTILE if not char.isprintable()} | {"\n", "\t", "\r"}
SHARDS = [
    *("- ", "* ", "+ ", "1. ", "2) ", "10. ", "> ", ">", " ", "  ", "   ", "    ", "\t", "# ", "### "),
    *("```", "~~~", "```py", "---", "===", "***", "| a | b |", "|---|---|", "| 1 |", "|-|", "|x|", ":-:"),
    *("foo", "bar *x*", "a", "b c", "`", "\\", "<div>", "</div>", "<!-- ", "-->", "<b>", "<pre>", "&amp;"),
    *("[a]: /u", "'t'", "[a]", "[x] ", "[ ] y", "![a](b)", "[^1]", "[^1]: z", "http://a.b", "**", "~~"),
    *("$x$", "$$", "\\(y\\)", "\\[", "漢字", "👩‍👩‍👧", "e\u0301", "\u200d", "\ufe0f", "\r", "\r\n", *HOSTILE),
    *MORE_SHARDS,
    "x" * 40,
]


def keys(document: Document) -> list[tuple[object, ...]]:
    return [leaf.key() for leaf in document.leaves]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_prefix_parses_as_if_it_were_whole(name: str) -> None:
    source = clean(SAMPLES[name])
    document = Document()
    for end, char in enumerate(source, 1):
        document.append(char)
        assert keys(document) == keys(parse_whole(source[:end])), source[:end]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_split_in_two_parses_as_the_whole(name: str) -> None:
    source = clean(SAMPLES[name])
    whole = keys(parse_whole(source))
    for at in range(1, len(source)):
        document = Document()
        document.append(source[:at])
        document.append(source[at:])
        assert keys(document) == whole, (source[:at], source[at:])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_streamed_message_looks_like_a_fresh_one(name: str, mode: Mode) -> None:
    source = SAMPLES[name]
    for width in WIDTHS:
        whole = fresh_rows(source, width, mode)
        for size in (1, 7):
            text = MarkdownText()
            for at in range(0, len(source), size):
                text.append(source[at : at + size])
                text.layout(width, mode)
            text.finish()
            assert settled_rows(text, width, mode) == whole


def documents() -> st.SearchStrategy[str]:
    line = st.lists(st.sampled_from(SHARDS), max_size=4).map("".join)
    marks = st.sampled_from(["> ", ">", "- ", "1. ", "-\t", "10)  ", "* [ ] "])
    blocks = st.lists(st.one_of(line, st.sampled_from(list(SAMPLES.values()))), min_size=1, max_size=3)
    nested = st.recursive(
        blocks.map("\n".join),
        lambda inside: st.builds(hang, marks, st.lists(inside, min_size=1, max_size=3).map("\n".join)),
        max_leaves=6,
    )
    return st.lists(st.one_of(line, st.sampled_from(list(SAMPLES.values())), nested), max_size=12).map(
        "\n".join
    )


def hang(mark: str, text: str) -> str:
    """`text` inside a quote or an item."""
    blank = mark if mark[0] == ">" else " " * len(mark.expandtabs(4))
    return mark + text.replace("\n", f"\n{blank}")


@pytest.mark.timeout(60)
@settings(max_examples=60, deadline=None)
@given(documents(), st.randoms(use_true_random=False), st.sampled_from(MODES))
def test_any_text_in_any_pieces_with_resizes(source: str, choose: random.Random, mode: Mode) -> None:
    check_stream(source[:700], choose, mode)


@pytest.mark.soak
@pytest.mark.timeout(2400)
@settings(max_examples=4_000, deadline=None)
@given(documents(), st.randoms(use_true_random=False), st.sampled_from(MODES))
def test_any_text_in_any_pieces_for_long(source: str, choose: random.Random, mode: Mode) -> None:
    check_stream(source[:3000], choose, mode)


def check_stream(source: str, choose: random.Random, mode: Mode) -> None:
    """Stream with layouts, resizes and slices of highlighting in between; then all that rows promise."""
    widths = [*WIDTHS, choose.randrange(2, 201)]
    width = choose.choice(widths)
    text = MarkdownText()
    shown: list[Row] = []
    at = 0
    while at < len(source):
        size = choose.choice([1, 2, 3, 5, 8, 13, 40])
        text.append(source[at : at + size])
        at += size
        if choose.random() < 0.1:
            text.settle(0.0001)
        if choose.random() < 0.05:
            width = choose.choice([other for other in widths if other != width])
            text.layout(width, mode)
            shown = list(text.rows)
        if choose.random() < 0.6:
            changed = text.layout(width, mode)
            assert text.rows[:changed] == shown[:changed]
            shown = list(text.rows)
            if choose.random() < 0.1:
                check_moment(source[:at], shown, width, mode)
    text.finish()
    rows = settled_rows(text, width, mode)
    assert text.source == source
    assert rows == fresh_rows(source, width, mode)
    check_rows(source, rows, width)


def check_moment(source: str, rows: list[Row], width: int, mode: Mode) -> None:
    """What is shown while it streams is what reading it at once would show, but for colours of code."""
    fresh = MarkdownText(source)
    fresh.layout(width, mode)
    assert [row.text for row in rows] == [row.text for row in fresh.rows]
    assert [row[1:] for row in rows] == [row[1:] for row in fresh.rows]
    check_rows(source, rows, width)


def check_rows(source: str, rows: list[Row], width: int) -> None:
    offset = 0
    for row in rows:
        assert cell_len(row.text) <= width
        assert row.offset >= offset
        offset = row.offset
        for run in row.runs:
            assert run.text
            assert not set(run.text) & NEVER
            if run.offset < 0 or run.stands_for:
                continue
            for index, char in enumerate(run.text):
                here = source[run.offset + index]
                assert char == here or char in " \ufffd"


def test_a_definition_links_what_stands_before_it() -> None:
    text = MarkdownText("see [Foo]\n\n")
    text.layout(40)
    assert text.rows[0].runs[0].href is None
    text.append("[foo]: http://x.y\n")
    assert text.layout(40) == 0
    runs = [(run.text, run.href) for run in text.rows[0].runs]
    assert runs == [("see ", None), ("Foo", "http://x.y"), (" (http://x.y)", None)]


def test_a_half_written_target_does_not_stick() -> None:
    text = MarkdownText("[a]\n\n[a]: http://x")
    text.layout(40)
    text.append(".org/\n")
    text.layout(40)
    assert text.rows[0].runs[0].href == "http://x.org/"


def test_text_after_the_end_is_shown_too() -> None:
    for text in (MarkdownText("a\n", finished=True), MarkdownText("a\n")):
        text.layout(40)
        text.finish()
        text.layout(40)
        text.append("b")
        assert text.layout(40) == 0
        assert [row.text for row in text.rows] == ["a", "b"]
        assert text.source == "a\nb"


def test_nothing_changes_without_new_text() -> None:
    text = MarkdownText("one\n\n```py\nx = 1\n")
    text.layout(40)
    assert text.layout(40) == len(text.rows)


def test_a_released_message_comes_back_the_same() -> None:
    text = MarkdownText(SAMPLES["nested lists"] + SAMPLES["fence in item"], finished=True)
    rows = list(settled_rows(text, 40, COLOUR))
    text.release()
    assert text.rows == []
    assert text.layout(40) == 0
    assert settled_rows(text, 40, COLOUR) == rows


def test_what_nests_too_deep_stays_visible() -> None:
    for source in (">" * 500 + "the end", "- " * 300 + "the end"):
        text = MarkdownText(source, finished=True)
        text.layout(80)
        shown = "".join(run.text for row in text.rows for run in row.runs if run.offset >= 0)
        assert "the end" in shown
