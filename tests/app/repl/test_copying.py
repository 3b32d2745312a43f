"""`/copy` where no clipboard can be reached: nothing is claimed, and the text goes somewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.terminal.clipboard import OSC52_LIMIT
from tests.app.repl.terminal import scripted

pytestmark = pytest.mark.timeout(120)

FAR = {"SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22", "PATH": "/nowhere", "DISPLAY": "", "WAYLAND_DISPLAY": ""}


@pytest.mark.parametrize(
    ("within", "sequence"),
    [
        ({"TMUX": "", "STY": ""}, b"\x1b]52;c;aMOpbGxv\x07"),
        ({"TMUX": "/tmp/none,1,0"}, b"\x1bPtmux;\x1b\x1b]52;c;aMOpbGxv\x07\x1b\\"),
        ({"TMUX": "", "STY": "1.pts-0"}, b"\x1bP\x1b]52;c;aMOpbGxv\x07\x1b\\"),
    ],
    ids=["plain", "tmux", "screen"],
)
def test_over_ssh_the_terminal_gets_the_text_and_success_is_not_claimed(
    tmp_path: Path, within: dict[str, str], sequence: bytes
) -> None:
    with scripted(tmp_path, [["h\u00e9llo"]], **FAR, **within) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("go")
        terminal.wait("h\u00e9llo")
        terminal.wait("ctx ")
        terminal.say("/copy")
        terminal.wait("sent to the terminal")
        terminal.wait("/copy to FILE saves it")
        terminal.until(lambda: sequence in terminal.output, "the sequence")
        assert "copied" not in terminal.text


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_what_the_terminal_cannot_take_is_in_the_file_that_is_named(
    tmp_path: Path, isolated_home: Path, term: str
) -> None:
    text = "x" * OSC52_LIMIT if term == "xterm" else "short"
    with scripted(tmp_path, [[f"```\n{text}\n```"]], **FAR, TMUX="", STY="", TERM=term) as terminal:
        terminal.wait("ctrl+d leaves" if term == "xterm" else "you:")
        terminal.type("go\r" if term == "xterm" else "go\n")
        terminal.wait("ctx " if term == "xterm" else "short")
        terminal.type("/copy code\r" if term == "xterm" else "/copy code\n")
        kept = isolated_home / ".local/state/fireside/copied.txt"
        terminal.until(
            lambda: f"saved in {kept}".replace(" ", "") in "".join(terminal.text.split()), "a path"
        )
        assert kept.read_text().strip() == text
        assert b"]52;" not in terminal.output
        assert "Traceback" not in terminal.text
