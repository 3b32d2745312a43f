from __future__ import annotations

import io
import os
import pty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.terminal import color_system, is_terminal, sanitize, takes_styles

ANY_TEXT = st.text(st.characters(codec=None))


@given(ANY_TEXT)
def test_what_is_left_encodes_and_holds_no_control(text: str) -> None:
    clean = sanitize(text)
    clean.encode("utf-8")
    assert not any(ord(char) < 32 and char not in "\n\t" for char in clean)
    assert not any(127 <= ord(char) < 160 for char in clean)
    assert not set(clean) & set("\u202e\u202d\u2066\u2069\u200f\u061c")


@given(ANY_TEXT, st.integers(0, 50))
def test_pieces_give_what_the_whole_gives(text: str, cut: int) -> None:
    assert sanitize(text[:cut]) + sanitize(text[cut:]) == sanitize(text)


@given(st.text(st.characters(min_codepoint=0x3041, max_codepoint=0x30FF)))
def test_ordinary_text_stays(text: str) -> None:
    assert sanitize(f"{text}\t\N{FAMILY}\n") == f"{text}\t\N{FAMILY}\n"


def test_escape_sequences_lose_their_escape() -> None:
    assert sanitize("\x1b]0;title\x07a\x9b31mb\r\n") == "]0;titlea31mb\n"


def test_a_lone_surrogate_is_replaced() -> None:
    assert sanitize("a\udcffb") == "a\ufffdb"


def test_a_closed_stream_is_no_terminal() -> None:
    stream = io.StringIO()
    stream.close()
    assert not is_terminal(stream)
    assert not is_terminal(None)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_styles_need_a_capable_terminal(environ: dict[str, str], expected: bool) -> None:
    leader, follower = pty.openpty()
    try:
        with open(follower, "w", encoding="utf-8") as terminal:
            assert takes_styles(terminal, environ) is expected
    finally:
        os.close(leader)
    assert not takes_styles(io.StringIO(), environ)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm"}, "standard"),
        ({"TERM": "xterm-direct"}, "truecolor"),
    ],
)
def test_color_system_follows_the_terminal(environ: dict[str, str], expected: str) -> None:
    assert color_system(environ) == expected
