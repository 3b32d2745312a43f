from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from app.terminal.text_rows import pieces, width_of, wrapped, wrapped_spans

TEXT = "a word, \u4e16\u754c and \U0001f469\u200d\U0001f469\u200d\U0001f467 unbroken" + "x" * 30


@pytest.mark.parametrize("cells", [-3, 0, 1, 2, 7, 40])
def test_text_is_whole_at_any_width(cells: int) -> None:
    assert "".join(pieces(TEXT, cells)) == TEXT
    assert "".join(wrapped(TEXT, cells)).replace(" ", "") == TEXT.replace(" ", "")
    rows = wrapped_spans([(TEXT[:9], "b"), (TEXT[9:], "")], cells)
    assert "".join(text for row in rows for text, _ in row) == TEXT
    widths = [*map(cell_len, wrapped(TEXT, cells)), *map(width_of, rows), *map(cell_len, pieces(TEXT, cells))]
    assert max(widths) <= max(2, cells)


_SPANS = st.lists(st.tuples(st.text(alphabet="ab é漢", max_size=30), st.sampled_from("xy")), max_size=6)


@given(_SPANS)
def test_a_sentence_is_broken_behind_blanks_and_loses_nothing(spans: list[tuple[str, str]]) -> None:
    rows = wrapped_spans(spans, 9)
    said = [(char, style) for text, style in spans for char in text]
    assert [(char, style) for row in rows for text, style in row for char in text] == said
    assert all(width_of(row) <= 9 for row in rows)


def test_no_word_is_broken_that_fits_a_row() -> None:
    said = [("s, a", "b"), (" allows ", ""), ("run_shell", "b"), ("   w widens it all", "")]
    rows = ["".join(text for text, _ in row) for row in wrapped_spans(said, 12)]
    assert rows == ["s, a allows ", "run_shell   ", "w widens it ", "all"]
