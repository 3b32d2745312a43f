from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.printed import MOST_LINE_CHARS, Printed, printed

SEQUENCES = (
    "\x1b[31m", "\x1b[0K", "\x1b[2K", "\x1b[1G", "\x1b[2D", "\x1b[?25l", "\x1b]0;t", "\x1b(B", "\x1bP",
    "\x9b1m", "\x9d8;;u", "\x07", "\x1b\\",
)  # fmt: skip
PIECES = st.lists(
    st.sampled_from(["a", "bc ", "\n", "\r", "\r\n", "\b", "\x1b", "[", "\u00e9", "\x00", *SEQUENCES]),
    max_size=40,
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ntext\n", "plain\ntext\n"),
        ("\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mtrue\x1b[m", "red and true"),
        ("\x1b]0;a title\x07here \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "here link"),
        ("\x9b31mred\x9b0m \x9d0;title\x9chere", "red here"),
        ("a\x1bPqpicture\x1b\\b\x1b_app\x1b\\c\x1b^pm\x07d", "abcd"),
        ("\x1b(B\x1b)0\x1b=\x1b>\x1b7\x1b8\x1bMtext\x0e\x0f\x07", "text"),
        ("\x1b[?25l\x1b[>1u\x1b[!p\x1b[2 qtext", "text"),
        ("10 %\r20 %\r100 %\n", "100 %\n"),
        ("downloading 99 %\rdone\n", "done\n"),
        ("100 %\r\nnext\r\n", "100 %\nnext\n"),
        ("100 %\r", "100 %"),
        ("100 %\r\r\n", "100 %\n"),
        ("one\n1\r2\r3\nlast\n9\r", "one\n3\nlast\n9"),
        ("half\x1b[2K\rwhole\n", "whole\n"),
        ("bar\r\x1b[K\n", "\n"),
        ("bar\r\x1b[Kdone\n", "done\n"),
        ("bar\x1b[Gdone\n", "done\n"),
        ("bar\x1b[1G\x1b[0Kdone\n", "done\n"),
        ("wait |\b/\b-\b\\\b \n", "wait  \n"),
        ("b\bbo\bol\bld", "bold"),
        ("abc\x1b[2DX", "aX"),
        ("abc\b\b\n", "abc\n"),
        ("a title that never ends \x1b]0;oh\nnext", "a title that never ends \nnext"),
        ("cut \x1b[3", "cut "),
        ("cut \x1b", "cut "),
        ("\x1b[31\nm", "31\nm"),
        ("", ""),
        ("\r", ""),
    ],
)
def test_what_a_terminal_would_leave(text: str, shown: str) -> None:
    assert printed(text) == shown


@given(PIECES, st.lists(st.integers(1, 5), max_size=40))
def test_where_it_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    whole, pieces = Printed(), Printed()
    expected = whole.feed(text) + whole.end()
    found, rest = "", text
    for cut in cuts:
        found += pieces.feed(rest[:cut])
        rest = rest[cut:]
    found += pieces.feed(rest) + pieces.end()
    assert found == expected
    assert pieces.line_count == whole.line_count == len(expected.splitlines())
    assert not set(found) & set("\r\b\x1b\x07\x9b\x9d")


@given(PIECES, st.lists(st.integers(1, 5), max_size=40))
def test_what_is_told_of_it_comes_to_the_same(text: str, cuts: list[int]) -> None:
    """Whoever starts the open line again at each carriage return has the whole at any time."""
    reading, seen, so_far, rest = Printed(), "", "", text
    for cut in [*cuts, len(text) or 1]:
        so_far += rest[:cut]
        delta, rest = reading.told(reading.feed(rest[:cut])), rest[cut:]
        if delta.startswith("\r"):
            seen, delta = seen[: seen.rfind("\n") + 1], delta[1:]
        assert "\r" not in delta
        seen += delta
        assert seen == printed(so_far)


def test_lines_are_counted_as_they_were_printed() -> None:
    assert [printed_lines(text) for text in ("", "a", "a\n", "a\n\n", "\n", "1\r2\r3\n", "a\nb")] == [
        0, 1, 1, 2, 1, 1, 2
    ]  # fmt: skip


def printed_lines(text: str) -> int:
    reading = Printed()
    reading.feed(text)
    return reading.line_count


def test_an_endless_line_and_an_endless_title_are_held_in_bounds() -> None:
    reading = Printed()
    text = "".join(reading.feed("x" * 5000) for _ in range(20))
    assert len(reading.line) <= MOST_LINE_CHARS
    assert len(text + reading.end()) == 100_000
    for _ in range(20):
        assert reading.feed("\x1b]0;" + "y" * 5000) == ""
    assert reading.feed("\x07z\n") == "z\n"
