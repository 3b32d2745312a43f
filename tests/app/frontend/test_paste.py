from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.frontend.paste import FOLD_BYTES, Folds, is_long, normalized


def test_a_paste_over_eight_lines_or_800_bytes_is_long() -> None:
    assert not is_long("\n".join("x" * 8))
    assert is_long("\n".join("x" * 9))
    assert not is_long("x" * FOLD_BYTES)
    assert is_long("x" * (FOLD_BYTES + 1))
    assert is_long("\u00e9" * (FOLD_BYTES // 2 + 1))


def test_words_tell_the_size_and_differ() -> None:
    folds = Folds()
    assert folds.fold("a\n" * 120) == "[pasted 120 lines]"
    assert folds.fold("b\n" * 120) == "[pasted 120 lines, 2]"
    assert folds.fold("a\n" * 120) == "[pasted 120 lines]"
    assert folds.fold("x" * 1200) == "[pasted 1,200 characters]"
    assert folds.fold("l\n" * 1204) == "[pasted 1,204 lines]"


def test_carriage_returns_are_line_ends() -> None:
    assert normalized("a\rb\r\nc\nd") == "a\nb\nc\nd"


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text("ab[]pasted 12lines,\n"), st.text("xy\n", min_size=1)), max_size=4),
    st.text("ab[]\n"),
)
def test_what_is_sent_is_what_was_pasted(parts: list[tuple[str, str]], end: str) -> None:
    folds = Folds()
    words = [(before, folds.fold(pasted)) for before, pasted in parts]
    draft = "".join(before + word for before, word in words) + end
    if any(word in before + end for before, _ in parts for _, word in words):
        return  # the person typed the very word that stands for a paste
    assert folds.unfold(draft) == "".join(before + pasted for before, pasted in parts) + end
