from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from app.repl.keys_input import END, LOST_END_S, START, PasteParser


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pastes(keys: list[KeyPress]) -> list[str]:
    return [key.data for key in keys if key.key == Keys.BracketedPaste]


def typed(keys: list[KeyPress]) -> str:
    return "".join(key.data for key in keys if key.key != Keys.BracketedPaste)


@given(st.text(alphabet="ab \r\n\x1b[201~é", max_size=40).filter(lambda text: END not in text), st.data())
@settings(deadline=None)
def test_a_paste_is_one_key_however_it_is_cut(text: str, data: st.DataObject) -> None:
    whole = f"x{START}{text}{END}y"
    parser, keys = PasteParser(), list[KeyPress]()
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        keys += parser.feed(whole[:size])
        whole = whole[size:]
    keys += parser.flush()
    assert pastes(keys) == [text]
    assert typed(keys) == "xy"


def test_a_paste_whose_end_got_lost_is_delivered_and_keys_work_again() -> None:
    clock = Clock()
    parser = PasteParser(clock)
    assert parser.feed(f"{START}abc") == []
    clock.now += LOST_END_S / 2
    assert parser.expire() == []
    clock.now += LOST_END_S
    assert pastes(parser.expire()) == ["abc"]
    keys = parser.feed("hello")
    assert typed(keys) == "hello"
    assert not parser.in_paste


def test_a_paste_that_still_arrives_is_not_cut() -> None:
    clock = Clock()
    parser = PasteParser(clock)
    parser.feed(f"{START}abc")
    clock.now += LOST_END_S - 0.1
    parser.feed("def")
    clock.now += LOST_END_S - 0.1
    assert parser.expire() == []
    assert pastes(parser.feed(END)) == ["abcdef"]


@pytest.mark.parametrize(
    "text", ["first line\rsecond line\r", "one\ntwo\nthree\nfour", "a\r\nb\r\nlonger text"]
)
def test_lines_that_come_at_once_without_marks_are_a_paste(text: str) -> None:
    assert pastes(PasteParser().feed(text)) == [text]


@pytest.mark.parametrize(
    "text", ["hello world, how are you\r", "hi\r", "\x1b[A\x1b[A\x1b[B\r", "a\rb\r", "\x0b\x15\r\r"]
)
def test_what_a_person_types_is_keys(text: str) -> None:
    assert pastes(PasteParser().feed(text)) == []


def test_an_arrow_key_in_two_reads_is_one_key() -> None:
    parser = PasteParser()
    keys = parser.feed("\x1b")
    keys += parser.feed("[A")
    assert [key.key for key in keys] == [Keys.Up]


def test_a_lone_escape_comes_after_a_flush() -> None:
    parser = PasteParser()
    assert parser.feed("\x1b") == []
    assert [key.key for key in parser.flush()] == [Keys.Escape]
