from __future__ import annotations

import pytest
from rich.cells import cell_len

from app.tui.widgets.text_rows import pieces, width_of, wrapped, wrapped_spans

TEXT = "a word, \u4e16\u754c and \U0001f469\u200d\U0001f469\u200d\U0001f467 unbroken" + "x" * 30


@pytest.mark.parametrize("cells", [-3, 0, 1, 2, 7, 40])
def test_text_is_whole_at_any_width(cells: int) -> None:
    assert "".join(pieces(TEXT, cells)) == TEXT
    assert "".join(wrapped(TEXT, cells)).replace(" ", "") == TEXT.replace(" ", "")
    rows = wrapped_spans([(TEXT[:9], "b"), (TEXT[9:], "")], cells)
    assert "".join(text for row in rows for text, _ in row) == TEXT
    widths = [*map(cell_len, wrapped(TEXT, cells)), *map(width_of, rows), *map(cell_len, pieces(TEXT, cells))]
    assert max(widths) <= max(2, cells)
