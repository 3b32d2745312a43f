from __future__ import annotations

import io
import os
import pty

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.terminal.output import (
    COLOR_CHOICES,
    color_depth,
    color_system,
    is_terminal,
    over_ssh,
    sanitize,
    takes_styles,
    title_sequence,
)

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


def test_line_separators_become_spaces() -> None:
    assert sanitize("a\u2028b\u2029c\x85d\x0ce") == "a b cde"


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
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "foot-extra"}, "truecolor"),
        ({"TERM": "xterm-256color", "WT_SESSION": "1"}, "truecolor"),
        ({"TERM": "tmux-256color", "TMUX": "x", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "screen-256color", "STY": "1.x", "COLORTERM": "truecolor"}, "256"),
        ({"TERM": "screen", "STY": "1.x", "COLORTERM": "truecolor"}, "standard"),
        ({"TERM": "tmux-256color", "STY": "1.x", "TMUX": "x", "COLORTERM": "truecolor"}, "truecolor"),
        ({}, "standard"),
    ],
)
def test_color_system_follows_the_terminal(environ: dict[str, str], expected: str) -> None:
    assert color_system(environ) == expected


@pytest.mark.parametrize(
    ("choice", "environ", "expected"),
    [
        ("auto", {"TERM": "xterm-256color"}, "256"),
        ("auto", {"TERM": "xterm-256color", "NO_COLOR": "1"}, None),
        ("always", {"TERM": "xterm-256color", "NO_COLOR": "1"}, "256"),
        ("never", {"COLORTERM": "truecolor", "TERM": "xterm"}, None),
        ("16", {"COLORTERM": "truecolor", "TERM": "xterm"}, "standard"),
        ("256", {"TERM": "dumb"}, "256"),
        ("truecolor", {"TERM": "xterm"}, "truecolor"),
    ],
)
def test_the_flag_goes_before_the_environment(
    choice: str, environ: dict[str, str], expected: str | None
) -> None:
    leader, follower = pty.openpty()
    try:
        with open(follower, "w", encoding="utf-8") as terminal:
            assert color_depth(choice, terminal, environ) == expected
    finally:
        os.close(leader)


def test_no_colour_into_a_file_unless_it_is_asked_for() -> None:
    environ = {"TERM": "xterm-256color"}
    assert color_depth("auto", io.StringIO(), environ) is None
    assert color_depth("always", io.StringIO(), environ) == "256"
    with pytest.raises(ValueError, match="auto, always, never, 16, 256, truecolor"):
        color_depth("some", io.StringIO(), environ)
    assert len(COLOR_CHOICES) == 6


@given(ANY_TEXT)
def test_no_title_leaves_its_sequence(text: str) -> None:
    for environ, start, end in (
        ({"TERM": "xterm"}, "\x1b]2;", "\x07"),
        ({"TERM": "screen", "STY": "1"}, "\x1bk", "\x1b\\"),
    ):
        sequence = title_sequence(text, environ)
        inside = sequence.removeprefix(start).removesuffix(end)
        assert len(inside) == len(sequence) - len(start) - len(end) <= 120
        assert inside == sanitize(inside)
        assert "\n" not in inside


def test_terminals_without_a_title_get_none() -> None:
    assert not any(title_sequence("x", {"TERM": term}) for term in ("dumb", "linux", "vt100", ""))


def test_ssh_is_seen() -> None:
    assert over_ssh({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"})
    assert not over_ssh({"SSH_CONNECTION": "", "SSH_AUTH_SOCK": "/tmp/x"})
