"""What a tool prints by itself, in this process or by a program, is obeyed by no terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.process import COMMAND
from tests.app.repl.chatting import home_files
from tests.app.repl.terminal import Terminal, scripted

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.timeout(60)

NOISY = r"""
import ctypes, logging, os, subprocess, sys, warnings
from fireside import tool

TITLE = "\x1b]0;FORGED %s\x07heard"

@tool(does="nothing")
def noisy() -> str:
    "Make noise."
    print(TITLE % "print", flush=True)
    print(TITLE % "errors", file=sys.stderr, flush=True)
    os.write(1, (TITLE % "one").encode())
    os.write(2, (TITLE % "two").encode())
    logging.getLogger("noisy").warning(TITLE, "log")
    warnings.warn(TITLE % "warning")
    subprocess.run(["printf", TITLE % "program"])
    subprocess.run(["sh", "-c", "printf '%s' \"$1\" >&2", "sh", TITLE % "program errors"])
    ctypes.CDLL(None).puts((TITLE % "native").encode())
    ctypes.CDLL(None).fflush(None)
    return "quiet"

print(TITLE % "import", flush=True)
"""


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    file = tmp_path / "noisy.py"
    file.write_text(NOISY)
    return file


@pytest.mark.parametrize(
    ("flags", "face"), [((), "repl"), (("--plain",), "repl"), ((), "tui")], ids=["styled", "plain", "screen"]
)
def test_what_a_tool_prints_reaches_no_terminal(
    tool: Path, tmp_path: Path, flags: tuple[str, ...], face: str
) -> None:
    replies = [[{"call": "noisy", "arguments": {}}], ["It was quiet."]]
    given = (*flags, "--tools", str(tool), "--workspace", str(tmp_path))
    with scripted(tmp_path, replies, *given, FACE=face, FIRESIDE_DATA=str(tmp_path / "data")) as terminal:
        terminal.until(lambda: re.search("you:|tools ask", terminal.text), "the prompt")
        terminal.press_until("zebra", "zebra")
        terminal.type("\r")
        terminal.wait("It was quiet.")
        terminal.type("\x04")
        terminal.wait_end()
    assert re.findall(rb"FORGED \w+", terminal.output) == []


PARROT = """
from fireside import tool

@tool(does="nothing")
def parrot(word: str) -> str:
    "Say it."
    print("heard", word, flush=True)
    return "said"
"""


def test_what_a_tool_prints_in_a_private_chat_is_kept_nowhere(tmp_path: Path, isolated_home: Path) -> None:
    file = tmp_path / "parrot.py"
    file.write_text(PARROT)
    first, second = ({"call": "parrot", "arguments": {"word": word}} for word in ("kakapo", "quetzal"))
    with scripted(tmp_path, [[first], ["So."], [second], ["Indeed."]], "--tools", str(file)) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("zebra")
        terminal.wait("So.")
        terminal.say("/private")
        terminal.wait("Private chat")
        terminal.say("okapi")
        terminal.wait("Indeed.")
        terminal.type("\x04")
        terminal.wait_end()
    kept = home_files(isolated_home)
    assert "heard kakapo" in kept
    assert "quetzal" not in kept


def test_the_full_screen_keeps_nothing_of_it_either(tmp_path: Path, isolated_home: Path) -> None:
    file = tmp_path / "parrot.py"
    file.write_text(PARROT)
    call = {"call": "parrot", "arguments": {"word": "quetzal"}}
    flags = ("--private", "--tools", str(file))
    with scripted(tmp_path, [[call], ["Indeed."]], *flags, FACE="tui") as terminal:
        terminal.wait("tools ask")
        terminal.press_until("zebra", "zebra")
        terminal.type("\r")
        terminal.wait("Indeed.")
    assert "quetzal" not in home_files(isolated_home)


def test_an_editor_has_the_terminal(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\n[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && printf "at a terminal" > "$1"\n')
    editor.chmod(0o755)
    with scripted(tmp_path, [], VISUAL=str(editor)) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.press_until("\x07", "at a terminal")


def test_where_only_errors_are_seen_they_are_clean_too(tool: Path, tmp_path: Path) -> None:
    line = " ".join([*COMMAND, "tools", "run", str(tool), ">", str(tmp_path / "out")])
    command = ["-c", line]
    with Terminal(command, program="/bin/sh", FIRESIDE_DATA=str(tmp_path / "data")) as terminal:
        assert terminal.wait_end() == 0
    assert (tmp_path / "out").read_text() == "quiet\n"
    assert terminal.text.count("heard") >= 8
    assert b"FORGED" not in terminal.output


BESIDE = """
import sys
from pathlib import Path
from app.terminal.native_output import keep_native_output_in
from app.terminal.output import notify
from app.terminal.own_output import own_output

if sys.argv[1:]:
    keep_native_output_in(Path(sys.argv[1]))
with own_output() as out:
    print("\\x1b]0;FORGED\\x07heard")
    print("\\x1b[2J\\x1b]0;FORGED\\x07heard", file=sys.stderr)
    assert sys.stderr.isatty()
    notify("told")
    out.write("answered\\n")
    out.flush()
print("after", file=sys.stderr)
"""


@pytest.mark.parametrize("log", [False, True])
def test_beside_an_answer_it_is_clean(tmp_path: Path, log: bool) -> None:
    command = ["-c", BESIDE, *([str(tmp_path / "log")] if log else [])]
    with Terminal(command, PYTHONPATH=str(ROOT)) as terminal:
        assert terminal.wait_end() == 0, terminal.text
    assert sorted(terminal.text.split()) == ["after", "answered", "fireside:", "heard", "heard", "told"]
    assert b"FORGED" not in terminal.output and b"\x1b[2J" not in terminal.output


def test_errors_that_no_terminal_gets_stay_as_they_are(tmp_path: Path) -> None:
    script = "from app.terminal.own_output import *\nwith own_output(): os.write(2, b'a\\x1bb')"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b"a\x1bb"
