from __future__ import annotations

import unicodedata

import pytest

from app.terminal.glyphs import ASCII, UNICODE, choose


def test_every_sign_is_one_cell_wide_everywhere() -> None:
    assert {unicodedata.east_asian_width(sign) for sign in UNICODE.signs()} <= {"N", "Na"}


def test_no_sign_is_shared_by_two_states_that_stand_in_one_place() -> None:
    for glyphs in (UNICODE, ASCII):
        assert len({glyphs.edge, glyphs.aside, glyphs.waiting, glyphs.prompt, glyphs.folded}) == 5
        assert len({glyphs.done, glyphs.failed, glyphs.partial}) == 3
        assert glyphs.rule != glyphs.meter
        assert glyphs.folded != glyphs.unfolded


def test_ascii_is_ascii() -> None:
    assert all(" " <= char <= "~" for sign in ASCII.signs() for char in sign)
    assert len(ASCII.signs()) == len(UNICODE.signs())
    assert (ASCII.key("y"), UNICODE.key("y")) == ("[y]", "y")


@pytest.mark.parametrize(
    ("environ", "unicode"),
    [
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "en_US.utf8", "TERM": "xterm"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "de_DE@euro", "LC_CTYPE": "de_DE.UTF-8"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "C.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, False),
        ({}, True),
    ],
)
def test_the_locale_chooses(environ: dict[str, str], unicode: bool) -> None:
    assert choose(environ=environ).unicode is unicode
    assert choose(ascii=True, environ=environ) is ASCII
