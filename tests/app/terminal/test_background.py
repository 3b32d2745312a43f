from __future__ import annotations

import os
import re
import sys

import pytest

from app.terminal.theming import ground_is_dark
from tests.app.terminal_process import ROOT, Terminal

pytestmark = pytest.mark.timeout(60)

SCRIPT = """
import sys, termios
from app.terminal import background as ground
from app.terminal.background import ask_ground
ground._WAIT_S = float(sys.argv[1])
before = termios.tcgetattr(0)
print("answer:", ascii(ask_ground()), termios.tcgetattr(0) == before)
"""


@pytest.mark.parametrize(
    ("answer", "dark"),
    [
        (b"\x1b]11;rgb:fbfb/f9f9/f4f4\x1b\\\x1b[?62;c", False),
        (b"\x1b]11;rgb:1919/1414/1111\x07\x1b[?62;c", True),
        (b"\x1b[?1;2c", True),
        (b"", True),
    ],
)
def test_the_terminal_is_asked_and_left_as_it_was(answer: bytes, dark: bool) -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    with Terminal([sys.executable, "-c", SCRIPT, "50" if answer else "0.1"], environ) as terminal:
        terminal.screen.report_device_attributes = lambda *_, **__: None  # pyright: ignore
        terminal.wait_for(lambda: b"\x1b[c" in terminal.raw, "the question")
        if answer:
            terminal.send(answer)
        assert terminal.wait() == 0
        found = re.search(r"answer: (.*) (True|False)", terminal.text)
    assert found is not None
    assert found[2] == "True"
    assert ground_is_dark(None if found[1] == "None" else found[1], {}) is dark


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.terminal.background import ask_ground

    monkeypatch.setenv("TERM", "dumb")
    assert ask_ground() is None
