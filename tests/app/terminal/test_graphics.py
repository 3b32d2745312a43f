from __future__ import annotations

import pytest

from app.terminal.graphics import choose

KITTY = {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        (KITTY, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1", "VTE_VERSION": "7600"}, "blocks"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm", "WEZTERM_PANE": "0"}, "blocks"),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "230800"}, "blocks"),
        ({"TERM": "foot"}, "blocks"),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/tmux", **{"KITTY_WINDOW_ID": "1"}}, "blocks"),
        ({"TERM": "screen-256color", "STY": "1.x", "KITTY_WINDOW_ID": "1"}, "blocks"),
        ({}, "blocks"),
    ],
)
def test_a_terminal_gets_what_it_says_it_can_show(environ: dict[str, str], way: str) -> None:
    assert choose("auto", "truecolor", environ=environ) == way


def test_fewer_colours_leave_less() -> None:
    assert choose("auto", "256", environ=KITTY) == "blocks"
    assert choose("kitty", "256", environ=KITTY) == "blocks"
    assert choose("blocks", "standard", environ=KITTY) == "off"
    assert choose("auto", None, environ=KITTY) == "off"


def test_a_person_has_the_last_word_where_it_can_be() -> None:
    assert choose("off", "truecolor", environ=KITTY) == "off"
    assert choose("blocks", "truecolor", environ=KITTY) == "blocks"
    assert choose("kitty", "truecolor", environ={"TERM": "foot"}) == "kitty"
    assert choose("kitty", "truecolor", environ={"TMUX": "/tmp/tmux"}) == "kitty"
    assert choose("kitty", "truecolor", environ={"STY": "1.x"}) == "blocks"
    assert choose("kitty", "truecolor", at_terminal=False, environ=KITTY) == "blocks"
