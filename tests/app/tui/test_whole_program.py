"""`fireside` in a terminal, with the starter model: start, type, answer, quit, and the chat is stored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.app.terminal_process import ROOT, Terminal

pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]
LAUNCH = (sys.executable, str(ROOT / "fireside.py"))


def environ() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "SHELL": "/bin/sh"}


def stored(*arguments: str) -> str:
    command = [*LAUNCH, *arguments]
    return subprocess.run(command, env=environ(), capture_output=True, text=True, check=True).stdout


def started(arguments: Sequence[str] = (), columns: int = 80, rows: int = 24) -> Terminal:
    return Terminal([*LAUNCH, *arguments, "--max-tokens", "12"], environ(), columns, rows)


def test_start_type_answer_quit(starter_model: Path) -> None:
    assert starter_model.exists()
    with started() as terminal:
        terminal.wait_for_text("message   / command")
        terminal.send("Say hello\r")
        terminal.wait_for_text("tok/s")
        terminal.wait_for(lambda: "esc stops" not in terminal.text, "the end of the reply")
        assert "Say hello" in terminal.text
        assert "SmolLM2 135M" in terminal.text
        terminal.send("\x04")
        assert terminal.wait() == 0
        assert terminal.state() == terminal.before
        shown = terminal.raw.decode("utf-8", "replace")
    found = re.search(r"fireside --resume (\w+)", shown)
    assert found is not None
    chats = json.loads(stored("sessions", "list", "--json"))["sessions"]
    assert [chat["title"] for chat in chats] == ["Say hello"]
    assert chats[0]["id"].removeprefix("sess_").startswith(found[1])


def test_what_is_typed_while_it_starts_is_there(starter_model: Path) -> None:
    assert starter_model.exists()
    with started() as terminal:
        terminal.wait_for(lambda: terminal.state() != terminal.before, "the keys to be taken")
        terminal.send("typed early")
        terminal.wait_for_text("typed early")
        terminal.send("\x1b\rsecond")  # alt+enter, as terminals without the kitty protocol say it
        terminal.wait_for_text("second")
        assert "typed earlysecond" not in terminal.text
        assert "esc stops" not in terminal.text
        terminal.send("\x03\x03\x03")
        assert terminal.wait() == 0


def test_a_chat_goes_on_in_another_run(starter_model: Path) -> None:
    assert starter_model.exists()
    stored("-p", "Name a colour", "--max-tokens", "4", "--tools", "now", "--tool-format", "generic")
    with started(["--continue"], 140, 40) as terminal:
        terminal.wait_for_text("Name a colour")
        terminal.wait_for_text("chats")
        terminal.send("\x03\x03")
        assert terminal.wait() == 0


def test_a_paste_never_sends(starter_model: Path) -> None:
    assert starter_model.exists()
    with started() as terminal:
        terminal.wait_for_text("message   / command")
        terminal.send("\x1b[200~first line\rsecond line\r\x1b[201~")
        terminal.wait_for_text("second line")
        assert "esc stops" not in terminal.text
        terminal.send("third\rfourth\r fifth")  # without brackets, in one read
        terminal.wait_for_text("fifth")
        assert "esc stops" not in terminal.text
        terminal.send("\x03\x03\x03")
        assert terminal.wait() == 0
    assert json.loads(stored("sessions", "list", "--json"))["sessions"] == []


def test_tui_needs_a_terminal() -> None:
    done = subprocess.run(
        [*LAUNCH, "tui"], env=environ(), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 2
    assert "terminal" in done.stderr
