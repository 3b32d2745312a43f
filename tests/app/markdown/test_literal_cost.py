"""A message of megabytes is laid out once for a width, not at every key that looks at it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.markdown import literal
from app.markdown.literal import LiteralText
from app.markdown.rows import COLOUR


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the texts that are broken into rows, as they are."""
    found: list[int] = []
    breaks = literal.breaks

    def counting(text: str, width: int) -> list[tuple[int, int]]:
        found.append(len(text))
        return breaks(text, width)

    monkeypatch.setattr(literal, "breaks", counting)
    return found


def test_what_is_whole_is_laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(monkeypatch)
    text = LiteralText("words and more " * 10_000, finished=True)
    text.layout(60)
    rows = list(text.rows)
    for _ in range(3):
        assert text.layout(60) == len(rows)
    assert found == [150_000]
    assert text.rows == rows
    text.layout(40)
    assert len(found) == 2


@given(st.lists(st.text(st.sampled_from("ab \n\t漢\x1b"), max_size=12), max_size=8), st.booleans())
def test_pieces_and_looks_in_between_change_nothing(pieces: list[str], restarts: bool) -> None:
    text, source = LiteralText(), ""
    for piece in pieces:
        text.append(piece)
        source += piece
        text.layout(7)
        if restarts and "\x1b" not in source:
            text.restart_line()
            source = source[: source.rfind("\n") + 1]
            text.layout(7)
    text.finish()
    text.layout(7, COLOUR)
    whole = LiteralText(source, finished=True)
    whole.layout(7, COLOUR)
    assert text.rows == whole.rows
