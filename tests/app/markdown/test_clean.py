from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.markdown.clean import Cleaner, clean
from tests.app.markdown.samples import HOSTILE

TEXTS = st.text(st.sampled_from([*HOSTILE, "a", "b", "\r", "\n", "\t", "漢", "👩", "\u200d"]), max_size=40)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=6))
def test_pieces_clean_as_the_whole_and_lead_back(pieces: list[str]) -> None:
    source = "".join(pieces)
    cleaner = Cleaner()
    text = "".join([cleaner.feed(piece) for piece in pieces]) + cleaner.feed("", last=True)
    assert text == clean(source)
    for at, char in enumerate(text):
        here = source[cleaner.source_offset(at)]
        assert char == here or (char in " \ufffd" and not here.isprintable()) or (char, here) == ("\n", "\r")
    for start in range(len(text)):
        pieces_of = cleaner.pieces(text[start:], start)
        assert "".join([piece for piece, _ in pieces_of]) == text[start:]
        assert all(cleaner.source_offset(text.index(text)) <= offset for _, offset in pieces_of)


def test_line_ends_and_what_terminals_must_not_get() -> None:
    assert clean("a\r\nb\rc\n") == "a\nb\nc\n"
    assert clean("\x1b[31mred\x1b[0m\x07\x9b") == "[31mred[0m"
    assert clean("a\u2028b\x85c\x0cd\x0be") == "a b c d e"
    assert clean("x\0y\ud800z") == "x\ufffdy\ufffdz"
    assert clean("a\u202eb\u2066c\u200fd") == "abcd"
    assert clean("tab\tstays, so do 👩‍👩‍👧 and e\u0301") == "tab\tstays, so do 👩‍👩‍👧 and e\u0301"


def test_a_joiner_joins_emoji_only() -> None:
    assert clean("👩\u200d🚀 ❤️\u200d🔥 👩🏽\u200d💻") == "👩\u200d🚀 ❤️\u200d🔥 👩🏽\u200d💻"
    assert clean("a\u200db 漢\u200d字 👩\u200d\u200d👩 \u200d👩 👩\u200d") == "ab 漢字 👩\u200d👩 👩 👩"
    cleaner = Cleaner()
    assert [cleaner.feed("x👩\u200d"), cleaner.feed("👧"), cleaner.feed("a\u200d")] == [
        "x👩",
        "\u200d👧",
        "a",
    ]
    assert [cleaner.feed("👧"), cleaner.source_offset(5)] == ["👧", 6]


def test_a_carriage_return_waits_for_its_newline() -> None:
    cleaner = Cleaner()
    assert cleaner.feed("a\r") == "a"
    assert cleaner.feed("\nb") == "\nb"
    assert cleaner.feed("c\r") == "c"
    assert cleaner.feed("", last=True) == "\n"
