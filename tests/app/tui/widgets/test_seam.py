from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from app.terminal.glyphs import UNICODE
from app.tui.widgets.seam import seam_row

DASH = UNICODE.rule


def row(title: str, right: str, width: int) -> str:
    spans = [(right, "")] if right else []
    return "".join(text for text, _ in seam_row(title, spans, width, UNICODE))


def test_title_and_hint_stand_before_and_after_three_dashes() -> None:
    assert row("Two drafts", "tab to write", 50) == (
        f"{DASH * 3} Two drafts {DASH * 18} tab to write {DASH * 3}"
    )


def test_without_words_it_is_a_line() -> None:
    assert row("", "", 20) == DASH * 20


def test_the_title_gives_way_first() -> None:
    assert row("A rather long title of a chat", "copied 8 lines", 40).startswith(f"{DASH * 3} A rather")
    assert "copied 8 lines" in row("A rather long title of a chat", "copied 8 lines", 28)


@settings(deadline=None)
@given(
    st.text(st.characters(categories=("L", "N", "P", "S")), max_size=60),
    st.text(st.characters(categories=("L", "N", "P", "S")), max_size=60),
    st.integers(8, 120),
)
def test_it_is_as_wide_as_the_column(title: str, right: str, width: int) -> None:
    assert cell_len(row(title, right, width)) == width


@pytest.mark.parametrize("width", range(-3, 8))
def test_there_is_always_a_row(width: int) -> None:
    assert seam_row("", (), width, UNICODE)
    assert seam_row("title", [("esc", "bold"), (" stops", "")], width, UNICODE)
