"""A person at a terminal: keys in, a screen out, and every byte that was written kept."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pyte

from tests.app.process import COMMAND

SCRIPT = Path(__file__).with_name("scripted_chat.py")
PATIENCE_S = 60


class Terminal:
    """A Python program in a terminal of its own."""

    def __init__(
        self,
        command: list[str],
        *,
        rows: int = 24,
        columns: int = 80,
        program: str = sys.executable,
        **environ: str,
    ) -> None:
        variables = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "", **environ}
        self.child = pexpect.spawn(
            program, command, env=variables, dimensions=(rows, columns), timeout=PATIENCE_S
        )
        self.child.delaybeforesend = None
        self.output = b""
        self._screen = pyte.HistoryScreen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self._screen)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *reason: object) -> None:
        self.child.close(force=True)

    # ---- what is seen ----------------------------------------------------------------------

    @property
    def lines(self) -> list[str]:
        """Every row there was, those that scrolled away first."""
        gone = [
            "".join(row[place].data for place in range(self._screen.columns))
            for row in self._screen.history.top
        ]
        return [row.rstrip() for row in [*gone, *self._screen.display]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()

    @property
    def row(self) -> str:
        """The row with the cursor."""
        return self._screen.display[self._screen.cursor.y].rstrip()

    def read(self) -> bool:
        """Take what was written; False at the end."""
        try:
            data = self.child.read_nonblocking(65536, timeout=0.1)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.output += data
        # pyte knows no keyboard or cursor-shape requests; they draw nothing
        self._stream.feed(re.sub(rb"\x1b\[[>=?][0-9;]*[a-zA-Z]", b"", data))
        return True

    def wait(self, wanted: str, *, times: int = 1) -> None:
        """Until the screen, with all that scrolled away, shows `wanted` so often."""
        self.until(lambda: self.text.count(wanted) >= times, wanted)

    def until(self, is_so: Any, what: str = "") -> None:
        """Until something is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if not self.read() and not is_so():
                raise AssertionError(f"ended without {what!r}:\n{self.text}")
            if time.monotonic() > deadline:
                raise AssertionError(f"never showed {what!r}:\n{self.text}\n{self.output[-400:]!r}")

    def wait_end(self) -> int:
        """Until it has ended; its exit status."""
        while self.read():
            pass
        self.child.wait()
        return int(self.child.exitstatus if self.child.exitstatus is not None else -self.child.signalstatus)

    # ---- what is done ----------------------------------------------------------------------

    def type(self, keys: str) -> None:
        self.child.send(keys.encode())

    def say(self, text: str) -> None:
        """Write a line and send it, as a person would: the text is there before the key."""
        self.type(text)
        wanted = "".join(text.split())[-20:]
        self.until(lambda: wanted in "".join(self.text[-400:].split()), text)
        self.type("\r")

    def answer(self, key: str) -> None:
        """Answer a question: its keys work only when it has stood there for a moment."""
        self.until(lambda: self.row.endswith("\u203a"), "a question")

        def is_there() -> bool:
            if self.row.endswith(f"\u203a {key}"):
                return True
            self.type(key)
            self.read()
            return self.row.endswith(f"\u203a {key}")

        self.until(is_there, key)
        self.type("\r")

    def press_until(self, keys: str, wanted: str) -> None:
        """Press keys, again after a second, until something is shown: they may be dropped at first."""
        pressed = 0.0

        def is_there() -> bool:
            nonlocal pressed
            if wanted in self.text:
                return True
            if time.monotonic() - pressed > 1:
                pressed = time.monotonic()
                self.type(keys)
            return False

        self.until(is_there, wanted)

    def resize(self, rows: int, columns: int) -> None:
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)


def scripted(folder: Path, replies: list[list[Any]], *flags: str, **environ: str) -> Terminal:
    """`fireside repl` on a scripted engine."""
    script = folder / "script.json"
    script.write_text(json.dumps(replies), encoding="utf-8")
    return Terminal([str(SCRIPT), str(script), *flags], **environ)


def fireside_repl(*flags: str | Path, **environ: str) -> Terminal:
    """The program itself."""
    return Terminal([*COMMAND[1:], "repl", *map(str, flags)], **environ)
