"""Vi's keys over a text: what each of the usual ones makes of it, and that none goes out of bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tui.vi.keys import MOST_COUNT, ViKeys

NAMED = {"<esc>": ("escape", ""), "<c-r>": ("ctrl+r", ""), "<c-d>": ("ctrl+d", "")}


def played(text: str, keys: str, caret: int | None = None) -> tuple[str, int, ViKeys, list[str]]:
    """The text after keys, which begin in normal mode; what is typed in insert mode is inserted."""
    vi, commands = ViKeys(), list[str]()
    vi.mode = "normal"
    caret = 0 if caret is None else caret
    while keys:
        named = next((name for name in NAMED if keys.startswith(name)), None)
        key, char = NAMED[named] if named else (keys[0], keys[0])
        keys = keys[len(named or keys[0]) :]
        step = vi.press(key, char, text, caret)
        if step is None:
            if vi.mode == "insert" and char:
                text, caret = text[:caret] + char + text[caret:], caret + 1
            continue
        if step.command:
            commands.append(step.command)
            continue
        text = text[: step.start] + step.text + text[step.end :] if step.is_edit else text
        caret = step.caret
        assert 0 <= caret <= len(text), (text, caret, keys)
    return text, caret, vi, commands


@pytest.mark.parametrize(
    ("before", "keys", "after"),
    [
        ("one two three", "dw", "|two three"),
        ("one two three", "wdw", "one |three"),
        ("one two three", "2dw", "|three"),
        ("one two three", "d2w", "|three"),
        ("one two three", "wdb", "|two three"),
        ("one two three", "de", "| two three"),
        ("one two three", "wcwTWO<esc>", "one TW|O three"),
        ("one two three", "wD", "one| "),
        ("one two three", "wCx<esc>", "one |x"),
        ("one two three", "$x", "one two thr|e"),
        ("one two three", "wX", "one|two three"),
        ("one two three", "3x", "| two three"),
        ("one two three", "rX", "|Xne two three"),
        ("one two three", "3rX", "XX|X two three"),
        ("one two three", "s1<esc>", "|1ne two three"),
        ("one two three", "~~", "ON|e two three"),
        ("one two three", "fedl", "on| two three"),
        ("one two three", "dfe", "| two three"),
        ("one two three", "dtw", "|wo three"),
        ("one two three", "$Fodl", "one tw| three"),
        ("one two three", "fe;dl", "one two thr|e"),
        ("one two three", "fe;,dl", "on| two three"),
        ("one two three", "wdiw", "one | three"),
        ("one two three", "wdaw", "one |three"),
        ("one two three", "wciwX<esc>", "one |X three"),
        ("one two three", "wd0", "|two three"),
        ("one two three", "wd$", "one| "),
        ("one two three", "wywP", "one two| two three"),
        ("one two three", "xp", "n|oe two three"),
        ("one two three", "wvey$p", "one two threetw|o"),
        ("one two three", "wvlld", "one | three"),
        ("one two three", "vex", "| two three"),
        ("one two three", "Aend<esc>", "one two threeen|d"),
        ("  one", "$Ix<esc>", "  |xone"),
        ("  one", "$0x", "| one"),
        ("  one", "$^x", "  |ne"),
        ("one", "ax<esc>", "o|xne"),
        ("one\ntwo\nthree", "dd", "|two\nthree"),
        ("one\ntwo\nthree", "jdd", "one\n|three"),
        ("one\ntwo\nthree", "Gdd", "one\n|two"),
        ("one\ntwo\nthree", "2dd", "|three"),
        ("one\ntwo\nthree", "dj", "|three"),
        ("one\ntwo\nthree", "dG", "|"),
        ("one\ntwo\nthree", "Gdgg", "|"),
        ("one\ntwo\nthree", "ddp", "two\n|one\nthree"),
        ("one\ntwo\nthree", "jyyP", "one\n|two\ntwo\nthree"),
        ("one\ntwo\nthree", "jccX<esc>", "one\n|X\nthree"),
        ("one\ntwo\nthree", "oX<esc>", "one\n|X\ntwo\nthree"),
        ("one\ntwo\nthree", "jOX<esc>", "one\n|X\ntwo\nthree"),
        ("one\ntwo\nthree", "2GD", "one\n|\nthree"),
        ("one\ntwo", "$dw", "o|n\ntwo"),
        ("one\ntwo", "jgg$x", "o|n\ntwo"),
        ("one, two.three", "dw", "|, two.three"),
        ("one, two.three", "dW", "|two.three"),
        ("one", "dw", "|"),
        ("one", "diw", "|"),
        ("one", "f2d<esc>x", "|ne"),
    ],
)
def test_what_keys_make_of_a_text(before: str, keys: str, after: str) -> None:
    text, caret, _, _ = played(before, keys)
    assert f"{text[:caret]}|{text[caret:]}" == after


@pytest.mark.parametrize(
    ("text", "keys", "caret"),
    [
        ("one two", "w", 4),
        ("one two", "e", 2),
        ("one two", "ee", 6),
        ("one two", "$b", 4),
        ("one\n\ntwo", "w", 4),
        ("one\ntwo", "jl", 5),
        ("one\ntwo", "G", 4),
        ("one\ntwo", "Ggg", 0),
        ("one two", "5l", 5),
        ("one two", "99l", 6),
        ("one two", "tw", 4),
        ("ab\nabcdef\nab", "j$j", 11),
    ],
)
def test_where_motions_lead(text: str, keys: str, caret: int) -> None:
    assert played(text, keys)[1] == caret


def test_a_count_makes_no_text_that_fills_the_memory() -> None:
    text = "x" * 2_000
    assert len(played(text, "yy9999p")[0]) <= 1_100_000
    assert len(played(text, "yy9999d9999p")[0]) <= 1_100_000


def test_what_only_the_composer_can_do_is_said() -> None:
    assert played("one", "u<c-r>kj<c-d>")[3] == ["undo", "redo", "older", "newer", "page down"]


def test_escape_leaves_what_was_begun_and_then_is_no_key_of_vi() -> None:
    vi = ViKeys()
    assert vi.press("a", "a", "", 0) is None
    assert vi.press("escape", "", "ab", 2) is not None
    assert vi.mode == "normal"
    assert vi.press("2", "2", "ab", 1) is not None
    assert vi.press("d", "d", "ab", 1) is not None
    assert vi.press("escape", "", "ab", 1) is not None
    assert not vi.is_pending
    assert vi.press("escape", "", "ab", 1) is None


@settings(deadline=None, max_examples=400)
@given(
    st.text(st.sampled_from("ab_ ,.\n\u00e9\u4e16"), max_size=20),
    st.lists(
        st.sampled_from([*"hjklwbeWBE0^$GggxXdDcCyYpPrfFtT;,~vVoOaAiIsSu123w", "<esc>", "<c-r>"]), max_size=14
    ),
)
def test_no_keys_lead_out_of_the_text(text: str, keys: list[str]) -> None:
    played(text, "".join(keys), min(1, len(text)))


@settings(deadline=None)
@given(
    st.text(st.characters(categories=("L", "P", "Z")), max_size=20),
    st.text(st.sampled_from("dcxp wb"), max_size=9),
)
def test_what_is_typed_before_escape_is_text(text: str, typed: str) -> None:
    vi = ViKeys()
    assert all(vi.press(char, char, text, len(text)) is None for char in typed)


def test_counts_that_multiply_stay_bounded() -> None:
    assert played("a" * 20_000, "99d999l")[0] == "a" * (20_000 - MOST_COUNT)
