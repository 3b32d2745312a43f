"""Rows have the width they are asked for, whatever the text is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from app.markdown.fuzzy import match, ranked
from app.tui.widgets.cells import Span, cut, cut_left, fitted, joined, marked, plain, width_of, wrapped

hostile = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab \t\n\x1b\x07\x9b\u202e\u2028\u0301\u200d漢字😀🇩🇪\ud800e\u0301"), st.characters()
    ),
    max_size=60,
)


@given(hostile)
def test_foreign_text_becomes_one_line_without_controls(text: str) -> None:
    line = plain(text)
    assert "\n" not in line and "\x1b" not in line and "\u202e" not in line
    assert line == " ".join(line.split())
    assert plain(line) == line


@given(hostile, st.integers(0, 30))
def test_a_cut_text_never_takes_more_cells_than_there_are(text: str, width: int) -> None:
    text = plain(text)
    for short in (cut(text, width), cut_left(text, width)):
        assert cell_len(short) <= width
        assert short == text or not width or short[-1] == "\u203a" or short[0] == "\u2039"


@given(st.lists(hostile, max_size=4), hostile, st.integers(0, 40))
@settings(deadline=None)
def test_a_row_has_exactly_its_width(left: list[str], right: str, width: int) -> None:
    spans = [Span(plain(text)) for text in left]
    assert width_of(fitted(spans, width)) == width
    assert width_of(joined(spans, [Span(plain(right))], width)) == width


def test_the_right_end_stays_whole_while_the_left_is_cut() -> None:
    row = joined([Span("a long title that has no room")], [Span("3 d")], 16)
    assert "".join(span.text for span in row) == "a long tit\u203a  3 d"


def test_a_cut_shows_that_spans_behind_it_were_lost() -> None:
    assert "".join(span.text for span in fitted([Span("abc"), Span("def")], 3)) == "ab\u203a"


@given(hostile, st.integers(2, 30))
def test_wrapped_lines_fit_and_lose_no_word(text: str, width: int) -> None:
    text = plain(text)
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_marks_lie_where_the_match_is() -> None:
    found = match("fi", "a FIle")
    assert found is not None
    spans = marked("a FIle", found.places, Span(""), Span("", bold=True))
    assert [(span.text, span.bold) for span in spans] == [("a ", False), ("FI", True), ("le", False)]


@given(hostile, hostile)
@settings(deadline=None)
def test_a_match_names_characters_of_the_text_in_order(query: str, text: str) -> None:
    found = match(query, text)
    if found is None:
        return
    ends = [0, *(end for _, end in found.places)]
    for (start, end), before in zip(found.places, ends, strict=False):
        assert before <= start < end <= len(text)


def test_the_beginning_of_a_word_beats_scattered_letters() -> None:
    names = ["compartment", "tests/test_part.py", "part"]
    assert [name for name, _ in ranked("part", names, str)] == ["part", "tests/test_part.py", "compartment"]
    assert [name for name, _ in ranked("tpa", names, str)] == ["tests/test_part.py"]


def test_words_fit_in_any_order_and_nothing_typed_keeps_the_order() -> None:
    names = ["release notes", "notes of a release", "other"]
    assert {name for name, _ in ranked("notes rel", names, str)} == set(names[:2])
    assert [name for name, _ in ranked("  ", names, str)] == names
