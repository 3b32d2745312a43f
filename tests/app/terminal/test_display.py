from __future__ import annotations

import pytest

from app.terminal.display import force_color
from app.terminal.output import color_system


@pytest.mark.parametrize(
    ("depth", "system"),
    [("16", "standard"), ("256", "256"), ("truecolor", "truecolor"), ("auto", "truecolor")],
)
def test_the_depth_that_was_asked_for_holds(depth: str, system: str) -> None:
    environ = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    force_color(depth, environ)
    assert color_system(environ) == system
    assert "NO_COLOR" not in environ


def test_never_means_no_colour() -> None:
    environ = {"TERM": "xterm"}
    force_color("never", environ)
    assert environ == {"TERM": "xterm", "NO_COLOR": "1"}


def test_a_dumb_terminal_stays_dumb() -> None:
    environ = {"TERM": "dumb"}
    force_color("256", environ)
    assert environ == {"TERM": "dumb"}


def test_a_colour_that_is_asked_for_beats_the_environment() -> None:
    environ = {"NO_COLOR": "1", "TERM": "screen"}
    force_color("256", environ)
    assert environ == {"TERM": "xterm-256color"}
