from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from textual.events import Key, Paste

from app.tui.input_parser import END, LOST_END_S, START, PatientParser


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def told(parser: PatientParser, *reads: str) -> list[str]:
    """What came: `<text>` for a paste, names of keys."""
    found: list[str] = []
    for read in reads:
        for event in (*parser.feed(read), *parser.tick()):
            if isinstance(event, Paste):
                found.append(f"<{event.text}>")
            elif isinstance(event, Key):
                found.append(event.key)
    return found


def test_a_paste_is_one_event_between_keys() -> None:
    assert told(PatientParser(), f"a{START}one\rtwo{END}b\r") == ["a", "<one\rtwo>", "b", "enter"]


def test_a_lost_end_is_waited_for_and_then_given_up() -> None:
    clock = Clock()
    parser = PatientParser(clock=clock)
    assert told(parser, f"{START}abc") == []
    clock.now += LOST_END_S / 2
    assert told(parser, "def") == []
    clock.now += LOST_END_S
    assert [event.text for event in parser.tick() if isinstance(event, Paste)] == ["abcdef"]
    assert told(parser, "hello\r") == [*"hello", "enter"]


def test_escapes_inside_a_paste_are_text() -> None:
    assert told(PatientParser(), f"{START}\x1b[A\x1b[31m\x00x{END}") == ["<\x1b[A\x1b[31mx>"]


def test_arrow_keys_and_two_pastes_still_work() -> None:
    reads = f"\x1b[A{START}a{END}{START}b{END}\x1b[B"
    assert told(PatientParser(), reads) == ["up", "<a>", "<b>", "down"]


@settings(deadline=None)
@given(st.text("ab\r~[20", max_size=20), st.lists(st.integers(1, 30), max_size=8))
def test_it_is_the_same_however_the_reads_are_cut(text: str, cuts: list[int]) -> None:
    whole = f"x{START}{text}{END}y"
    places = sorted({place for place in cuts if place < len(whole)})
    reads = [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]
    if any(read.endswith("\x1b") for read in reads):
        return  # a lone escape at the end of a read is a key for whom it is due
    found = told(PatientParser(clock=Clock()), *reads)
    expected = ["x", f"<{text}>", "y"] if text else ["x", "y"]
    assert found == expected
