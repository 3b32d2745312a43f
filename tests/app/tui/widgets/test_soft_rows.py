from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.document._document import Document
from textual.document._wrapped_document import WrappedDocument

from app.tui.widgets.soft_rows import SoftRows
from tests.app.tui.pilot import running

TEXTS = st.text(st.sampled_from("ab  \n\t漢e\u0301👩\u200d☎\ufe0f-"), max_size=60)
WIDTHS = st.integers(2, 12)


def tables(rows: SoftRows) -> tuple[object, ...]:
    return rows._wrap_offsets, rows._offset_to_line_info, rows._line_index_to_offsets, rows._texts


def place(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


@given(st.text(st.sampled_from("abc  \n-"), max_size=80), WIDTHS)
def test_rows_of_plain_words_are_those_of_the_base_class(text: str, width: int) -> None:
    document = Document(text)
    ours, theirs = SoftRows(document, width), WrappedDocument(document, width)
    assert ours._wrap_offsets == theirs._wrap_offsets
    assert ours._offset_to_line_info == theirs._offset_to_line_info
    assert ours._line_index_to_offsets == theirs._line_index_to_offsets
    assert ours.height == theirs.height
    for line in range(document.line_count):
        assert ours.get_sections(line) == theirs.get_sections(line)
        for column in range(len(document.get_line(line)) + 1):
            assert ours.location_to_offset((line, column)) == theirs.location_to_offset((line, column))
    for y in range(ours.height + 1):
        for x in range(width + 1):
            assert ours.offset_to_location((x, y)) == theirs.offset_to_location((x, y))  # type: ignore[arg-type]


@given(TEXTS, WIDTHS, st.lists(st.tuples(st.integers(0, 80), st.integers(0, 9), TEXTS), max_size=6))
def test_an_edit_leaves_the_rows_that_a_fresh_look_finds(
    text: str, width: int, edits: list[tuple[int, int, str]]
) -> None:
    document = Document(text)
    rows = SoftRows(document, width)
    for start, removed, put in edits:
        start = min(start, len(document.text))
        end = min(start + removed, len(document.text))
        old = document.text
        result = document.replace_range(place(old, start), place(old, end), put)
        rows.wrap_range(place(old, start), place(old, end), result.end_location)
        assert tables(rows) == tables(SoftRows(document, width))


@given(TEXTS, WIDTHS)
def test_no_row_is_wider_than_there_is_room(text: str, width: int) -> None:
    document = Document(text.replace("\t", " ").replace("\u200d", ""))
    rows = SoftRows(document, width)
    for line in range(document.line_count):
        pieces = rows.get_sections(line)
        assert "".join(pieces) == document.get_line(line)
        assert all(cell_len(piece) <= width for piece in pieces)


async def measured(monkeypatch: pytest.MonkeyPatch, text: str, key: str, caret: int | None = None) -> int:
    """Characters that are wrapped, measured or styled for a key in a draft."""
    from rich import cells
    from rich.text import Text

    count = 0
    async with running(size=(80, 24)) as run:
        run.app.parts.draft.put(text, caret)
        await run.pilot.pause()
        await run.pilot.press(key)
        original_init, original_cell_len = Text.__init__, cells.cell_len

        def init(self: Text, plain: Any = "", *args: Any, **fields: Any) -> None:
            nonlocal count
            count += len(plain)
            original_init(self, plain, *args, **fields)

        def measure(piece: str, *args: Any) -> int:
            nonlocal count
            count += len(piece)
            return original_cell_len(piece, *args)

        with monkeypatch.context() as patch:
            patch.setattr(Text, "__init__", init)
            for module in (
                "textual._wrap",
                "textual.document._wrapped_document",
                "app.tui.widgets.soft_rows",
            ):
                patch.setattr(f"{module}.cell_len", measure)
            before = run.app.parts.draft.wrapped_document.measured
            size = len(run.app.parts.draft.text)
            await run.pilot.press(key)
            await run.until(lambda: len(run.app.parts.draft.text) != size)
            return count + run.app.parts.draft.wrapped_document.measured - before


@pytest.mark.parametrize("word", ["words ", "x", "漢字"])
@pytest.mark.parametrize("key", ["a", "backspace", "space"])
async def test_a_key_in_a_long_line_costs_what_it_does_in_a_short_one(
    monkeypatch: pytest.MonkeyPatch, word: str, key: str
) -> None:
    short, long = word * (200 // len(word)), word * (20_000 // len(word))
    few = await measured(monkeypatch, short, key)
    many = await measured(monkeypatch, long, key)
    assert many < 4 * few + 2_000
    if " " in word:  # without a blank every row behind the caret is another one
        assert await measured(monkeypatch, long, key, 10_000) < 4 * few + 2_000
