"""What was typed or pasted behind the end of a chat line by line never runs in the shell."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from tests.app.repl.terminal import SCRIPT
from tests.app.terminal_process import Terminal

LEAVES = {"Ctrl-D": "\x04", "two of them": "\x04\x04"}
PASTES = {
    "a line": "touch ran\r",
    "lines": "touch ran\r" * 20,
    "half a line": "touch ra",
    "more than a terminal holds": "touch ran # "
    + "x" * 200
    + "\r"
    + ("touch ran # " + "y" * 200 + "\r") * 60,
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "styled"])
@pytest.mark.parametrize(
    ("leave", "paste"),
    [
        ("Ctrl-D", "a line"),
        ("Ctrl-D", "lines"),
        ("Ctrl-D", "half a line"),
        ("Ctrl-D", "more than a terminal holds"),
        ("two of them", "a line"),
    ],
)
def test_what_follows_the_end_is_not_run(tmp_path: Path, leave: str, paste: str, plain: bool) -> None:
    shell = shutil.which("bash") or "/bin/sh"
    script = tmp_path / "script.json"
    script.write_text(json.dumps([["Fine."]]))
    (tmp_path / "chat.sh").write_text(
        f'exec "{sys.executable}" "{SCRIPT}" "$CHAT" {"--plain" if plain else ""}\n'
    )
    environ = {**os.environ, "TERM": "xterm", "PS1": "$ ", "CHAT": str(script)}
    with Terminal([shell, "--norc", "--noprofile", "-i"], environ, 100, 40) as terminal:
        terminal.send(f"cd {tmp_path}; sh chat.sh; printf 'en%s\\n' ded\r")
        terminal.wait_for_text("you:" if plain else "\u203a")
        # A terminal takes only so much at once.
        sending = threading.Thread(target=terminal.send, args=(LEAVES[leave] + PASTES[paste],))
        sending.start()
        terminal.wait_for_text("ended")
        sending.join(20)
        terminal.send("\x15printf 'st%s\\n' ill\r")
        terminal.wait_for_text("still")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "ra").exists()
