"""Questions on a terminal: only a line that was typed below them answers them, and only what was shown."""

from __future__ import annotations

import os
import pty
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from app import paths
from app.cli import trust_question
from app.terminal import confirm
from app.terminal.confirm import agreed
from tools.trust import TrustBook, project_files

LONG = "\n".join(f"row {number}" for number in range(100))


class Asked:
    """A person at a terminal of 24 rows, and something that asks them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        self._slave, self._monkeypatch = slave, monkeypatch
        self.text = ""
        self.streams: list[TextIO] = []
        self._found: list[Any] = []
        self._thread: threading.Thread | None = None

    def ask(self, question: Callable[[], Any]) -> None:
        # Here, for the test runner puts its own streams there before each test.
        self.streams = [os.fdopen(os.dup(self._slave), mode, encoding="utf-8") for mode in ("r", "w")]
        for name, stream in zip(("stdin", "stderr"), self.streams, strict=True):
            self._monkeypatch.setattr(sys, name, stream)
        size = os.terminal_size((80, 24))
        self._monkeypatch.setattr(confirm.shutil, "get_terminal_size", lambda *_: size)
        self._thread = threading.Thread(target=lambda: self._found.append(question()), daemon=True)
        self._thread.start()

    def until(self, wanted: str, times: int = 1) -> None:
        while self.text.count(wanted) < times:
            self.text += os.read(self.master, 65536).decode("utf-8", "replace")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    @property
    def said(self) -> Any:
        assert self._thread is not None
        self._thread.join(20)
        return self._found[0]


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    asked = Asked(monkeypatch)
    yield asked
    # Whoever still reads gets the end: nothing is closed below a thread that is at it.
    os.close(asked.master)
    if asked._thread is not None:
        asked._thread.join(5)
    for stream in asked.streams:
        stream.close()
    os.close(asked._slave)


@pytest.mark.parametrize(
    "words", ["yes but only the first", "y y", "y.", "yeah", "yep", "n", "", "Yes, please"]
)
def test_words_are_no_yes(person: Asked, words: str) -> None:
    person.ask(lambda: agreed("Fetch it?"))
    person.until("[y/N] ")
    person.type(f"{words}\n")
    assert person.said is False


@pytest.mark.parametrize("word", ["y", "YES", " yes "])
def test_a_yes_is_one(person: Asked, word: str) -> None:
    person.ask(lambda: agreed("Fetch it?"))
    person.until("[y/N] ")
    person.type(f"{word}\n")
    assert person.said is True


def test_what_was_typed_ahead_answers_nothing(person: Asked) -> None:
    person.type("y\ny\ny")
    person.until("y\r\ny\r\ny")
    person.ask(lambda: agreed("Fetch it?"))
    person.until("[y/N] ")
    person.type("n\n")
    assert person.said is False


def test_lines_that_come_together_answer_nothing(person: Asked) -> None:
    person.ask(lambda: agreed("Fetch it?"))
    person.until("[y/N] ")
    person.type("y\nand more\ny\n")
    person.until("Several lines at once do not count")
    person.until("[y/N] ", times=2)
    person.type("n\n")
    assert person.said is False


def test_a_long_text_is_agreed_to_once_its_last_row_was_there(person: Asked) -> None:
    person.ask(lambda: agreed(f"{LONG}\nRun it?"))
    for left in (79, 58, 37, 16):
        person.until(f"{left} rows unread")
        assert "Run it?" not in person.text and f"row {100 - left}" not in person.text
        person.type("\n")
    person.until("row 99")
    person.until("Run it? [y/N] ")
    person.type("y\n")
    assert person.said is True


@pytest.mark.parametrize(("key", "asks"), [("u", True), ("y", False), ("n", False), ("yes", False)])
def test_rows_unread_are_passed_over_only_by_their_own_key(person: Asked, key: str, asks: bool) -> None:
    person.ask(lambda: agreed(f"{LONG}\nRun it?"))
    person.until("79 rows unread")
    person.type(f"{key}\n")
    if asks:
        person.until("Run it? [y/N] ")
        person.type("y\n")
        assert person.said is True
        return
    if key != "n":
        person.until("Please press")
        person.until("79 rows unread", times=2)  # what is typed before the question stands there is let go
        person.type("n\n")
    assert person.said is False
    assert "Run it?" not in person.text


@pytest.mark.parametrize(
    "keys", [("s", "\n", "\n", "\n", "y"), ("u",), ("y", "n"), ("s", "u", "y"), ("s", "n", "n")]
)
def test_a_folder_of_many_rows_is_trusted_read_or_by_a_key_that_says_unread(
    person: Asked, keys: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust_question, "is_terminal", lambda stream: True)
    (tmp_path / "AGENTS.md").write_text("".join(f"rule {number}\n" for number in range(60)) + "#\0 last\n")
    person.ask(lambda: trust_question.ask_about_trust(tmp_path))
    for number, key in enumerate(keys, 1):
        person.until("[N]o ", 1) if number == 1 else person.until("]o ", number)
        person.type(key if key == "\n" else f"{key}\n")
    person.said  # noqa: B018
    found = TrustBook(paths.data_dir() / "trust.json").check(tmp_path, project_files(tmp_path))
    assert (found.state == "trusted") == (keys[-1] in ("y", "u"))
    assert ("\u2400 last" in person.text) == ("\n" in keys)
