from __future__ import annotations

import pytest
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from textual.events import Key

from app.repl.keys_input import PasteParser
from app.terminal.reports import ANSWER_S, ReportFilter
from app.tui.input_parser import PatientParser


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


ANSWERS = [
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
    "\x1b]52;c;aGk=\x07",
    "\x1bP>|xterm(354)\x1b\\",
    "\x1b_Gi=1;OK\x1b\\",
    "\x1b[?62;4c",
    "\x1b[>41;354;0c",
    "\x1b[?1u",
    "\x1b[?997;1n",
    "\x1b[0n",
    "\x1b[4;600;800t",
    "\x1b[13;1:3u",
    "\x1b[1;1:3A",
]
EVENTS = ["\x1b[I", "\x1b[O", "\x1b[?2026;2$y", "\x1b[<0;10;10M\x1b[<0;10;10m", "\x1b[48;24;80;600;800t"]


def typed(keys: list[KeyPress]) -> str:
    return "".join(key.data for key in keys)


def repl_keys(*reads: str) -> list[KeyPress]:
    clock = Clock()
    parser = PasteParser(clock)
    found = [key for read in reads for key in parser.feed(read)]
    clock.now += 2 * ANSWER_S
    return [*found, *parser.flush()]


def screen_keys(*reads: str) -> list[str]:
    clock = Clock()
    parser = PatientParser(clock=clock)
    found = [event for read in reads for event in parser.feed(read)]
    clock.now += 2 * ANSWER_S
    return [event.key for event in [*found, *parser.tick()] if isinstance(event, Key)]


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_answer_of_a_terminal_is_typed_wherever_it_is_cut(answer: str) -> None:
    for cut in range(len(answer) + 1):
        assert typed(repl_keys("a" + answer[:cut], answer[cut:] + "b")) == "ab"
        if not answer[:cut].endswith("\x1b"):  # an escape that ends a read is a key for a screen
            assert screen_keys("a" + answer[:cut], answer[cut:] + "b") == ["a", "b"]


@pytest.mark.parametrize("event", EVENTS)
def test_no_event_is_typed_at_a_prompt(event: str) -> None:
    for cut in range(len(event) + 1):
        assert typed(repl_keys("a" + event[:cut], event[cut:] + "b")) == "ab"
    assert screen_keys(f"a{event}b") == ["a", "b"]


@pytest.mark.parametrize("broken", ["\x1b]11;rgb:1e", "\x1bP>|xterm"])
def test_an_answer_that_never_comes_whole_is_dropped_and_keys_work_again(broken: str) -> None:
    assert typed(repl_keys(f"a{broken}")) == "a"
    assert screen_keys(f"a{broken}") == ["a"]
    assert screen_keys(f"a{broken}\r") == ["a", "enter"]


@pytest.mark.parametrize("form", ["\x1b[13;2u", "\x1b[27;2;13~", "\x1b[13;2:1u", "\x1b[13:13;2u"])
def test_shift_enter_is_one_in_every_form(form: str) -> None:
    assert [key.key for key in repl_keys(form)] == [Keys.Escape, Keys.ControlM]
    assert screen_keys(form) == ["shift+enter"]


@pytest.mark.parametrize(
    ("form", "key"),
    [("\x1b[97;5u", Keys.ControlA), ("\x1b[228u", "ä"), ("\x1b[97:65;2u", "A"), ("\x1b[9;2u", Keys.BackTab)],
)
def test_numbered_keys_are_keys_at_a_prompt(form: str, key: str) -> None:
    assert [press.key for press in repl_keys(form)] == [key]


@pytest.mark.parametrize(
    "form",
    [
        "\x1b[99999999999;1u",
        "\x1b[000000009999999u",
        "\x1b[000000055296u",
        f"\x1b[97;{'9' * 5000}u",
        "\x1b[55296u",
        "\x1b[1;1:x",
        "\x1b[5;9~",
        "\x1b[99;99~",
    ],
)
def test_numbers_that_are_no_key_end_nothing(form: str) -> None:
    repl_keys(form)
    screen_keys(form)


@pytest.mark.parametrize(
    "keys", ["\x1b]", "\x1b]x", "\x1bP", "\x1b_", "\x1b[A", "\x1b[3~", "\x1bOP", "\x1b[200", "é"]
)
def test_what_may_be_keys_comes_through(keys: str) -> None:
    clock = Clock()
    reports = ReportFilter(clock=clock)
    found = reports.take(keys)
    clock.now += 1
    assert found + reports.expire() == keys


def test_typing_behind_an_answer_that_broke_off_is_lost_for_a_moment_only() -> None:
    clock = Clock()
    reports = ReportFilter(clock=clock)
    found = reports.take("\x1b]11;rgb:1e")
    for _ in range(10):
        clock.now += ANSWER_S / 4
        found += reports.take("x")
    assert "x" * 5 in found
