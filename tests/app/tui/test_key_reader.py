"""No byte of a terminal ends the reading of keys, and no text that was typed or pasted is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste
from textual.message import Message

from app.tui.key_reader import CUT_S, KeyReader
from tests.app.process import COMMAND
from tests.app.terminal_process import Terminal
from tests.app.tui.pilot import running

BAD = {
    "a latin letter": (b"\xe9", "\ufffd"),
    "a continuation alone": (b"\xb2", "\ufffd"),
    "overlong": (b"\xc0\xaf", "\ufffd\ufffd"),
    "a surrogate": (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    "FE and FF": (b"\xfe\xff", "\ufffd\ufffd"),
    "beyond Unicode": (b"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"),
    "an eight-bit CSI": (b"\x9b", "\ufffd"),
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def written(messages: list[Message]) -> str:
    """What of the messages is text: keys that write, and pastes."""
    parts: list[str] = []
    for message in messages:
        if isinstance(message, Paste):
            parts.append(f"<{message.text}>")
        elif isinstance(message, Key) and message.is_printable:
            parts.append(message.character or "")
    return "".join(parts)


@pytest.mark.parametrize("name", BAD)
def test_a_byte_that_is_no_text_is_replaced(name: str) -> None:
    data, instead = BAD[name]
    reader = KeyReader(clock=Clock())
    assert written(list(reader.read(b"x" + data + b"y"))) == f"x{instead}y"
    paste = b"\x1b[200~p" + data + b"q\x1b[201~z"
    assert written(list(reader.read(paste))) == f"<p{instead}q>z"
    assert written(list(reader.read(b"\x1b]11;rgb:" + data + b"/0\x07after"))) == "after", "a late answer"


def test_a_character_that_comes_in_parts_is_whole() -> None:
    clock = Clock()
    reader = KeyReader(clock=clock)
    data = "é語👨".encode()
    assert "".join(written(list(reader.read(data[at : at + 1]))) for at in range(len(data))) == "é語👨"


def test_the_beginning_of_a_character_waits_for_its_rest_and_no_longer() -> None:
    clock = Clock()
    reader = KeyReader(clock=clock)
    assert written(list(reader.read(b"\xe9"))) == ""
    assert written(list(reader.read(b""))) == ""
    clock.now += CUT_S
    assert written(list(reader.read(b""))) == "\ufffd"
    assert written(list(reader.read(b"y"))) == "y"


def test_a_letter_that_came_with_the_beginning_of_another_waits_with_it() -> None:
    """Else it would stand alone at an approval, and answer it."""
    clock = Clock()
    reader = KeyReader(clock=clock)
    assert written(list(reader.read(b"y\xc3"))) == ""
    clock.now += CUT_S * 0.9
    assert written(list(reader.read(b""))) == ""
    assert written(list(reader.read(b"\xa9s"))) == "y\u00e9s"
    assert written(list(reader.read(b"n\xc3"))) == ""
    clock.now += CUT_S * 1.1
    assert written(list(reader.read(b""))) == "n\ufffd"
    long = b"pasted text that is long" * 10
    assert written(list(reader.read(long + b"\xc3"))) == long.decode(), "a paste is not held up"
    assert written(list(reader.read(b"\xa9"))) == "\u00e9"


NOT_PRINTABLE = (
    "\u3000",
    "\u00a0",
    "\u202f",
    "\u200c",
    "\u200d",
    "\u00ad",
    "\ue0b0",
    "👨\u200d👩",
    "\U000e0067",
)


@pytest.mark.parametrize("text", NOT_PRINTABLE)
def test_what_python_calls_not_printable_is_written_all_the_same(text: str) -> None:
    assert written(list(KeyReader().read(f"a{text}b".encode()))) == f"a{text}b"


@pytest.mark.parametrize("text", ["\u202e", "\u2066", "\u0085", "\x7f", "\x00"])
def test_controls_and_marks_of_direction_are_not_written(text: str) -> None:
    assert written(list(KeyReader().read(f"a{text}b".encode()))) == "ab"


@given(st.lists(st.binary(max_size=60), max_size=12))
def test_no_bytes_stop_it(reads: list[bytes]) -> None:
    clock = Clock()
    reader = KeyReader(clock=clock)
    for read in reads:
        list(reader.read(read))
    clock.now += 60
    list(reader.read(b""))
    list(reader.read(b"\x1b[201~"))
    clock.now += 60
    list(reader.read(b""))
    assert written(list(reader.read(b"hello"))) == "hello"


async def test_typed_wide_spaces_and_joiners_are_in_the_draft() -> None:
    async with running([["hello"]]) as run:
        for character in "a\u3000b\u00a0👨\u200d👩":
            run.app.post_message(Key(character, character))
        await run.until(lambda: run.app.parts.draft.text == "a\u3000b\u00a0👨\u200d👩")


async def test_rare_line_ends_of_a_paste_part_its_words() -> None:
    async with running([["hello"]]) as run:
        run.app.post_message(Paste("one\x0btwo\x0cthree\x85four\u2028five"))
        await run.until(lambda: run.app.parts.draft.text == "one\ntwo\nthree\nfour\nfive")


@pytest.mark.timeout(120)
def test_the_full_screen_goes_on_after_any_byte(tiny_llama: Path) -> None:
    environ = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "FIRESIDE_MODEL": str(tiny_llama)}
    with Terminal([*COMMAND, "tui"], environ, columns=100) as screen:
        screen.wait_for_text("tiny llama")
        for data, _ in BAD.values():
            screen.send(b"x" + data + b"y ")
            screen.send(b"\x1b[200~p" + data + b"q\x1b[201~ ")
        screen.send("still here")
        screen.wait_for_text("still here")
        assert "x\ufffdy" in screen.text and "p\ufffdq" in screen.text
        screen.send("\x11")
        assert screen.wait() == 0


@pytest.mark.timeout(120)
def test_a_reader_that_fails_is_told_and_goes_on(tiny_llama: Path, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(COMMAND[-1]).parent)!r})\n"
        "from app.tui.driver import ScreenDriver\n"
        "process, failed = ScreenDriver.process_message, []\n"
        "def broken(self, message):\n"
        "    if getattr(message, 'character', '') == '!' and not failed:\n"
        "        failed.append(1)\n"
        "        raise RuntimeError('a fault')\n"
        "    process(self, message)\n"
        "ScreenDriver.process_message = broken\n"
        "from app.cli.launch import begin, start_tui\n"
        "begin()\n"
        "sys.exit(start_tui({}))\n"
    )
    environ = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "FIRESIDE_MODEL": str(tiny_llama)}
    with Terminal([COMMAND[0], str(script)], environ, columns=100) as screen:
        screen.wait_for_text("tiny llama")
        screen.send("a!")
        screen.wait_for_text("a fault")
        screen.send("still here")
        screen.wait_for_text("still here")
        screen.send("\x11")
        assert screen.wait() == 0
