"""A program in a terminal of its own: a pty, a thread that reads it, and what it shows by pyte."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyte

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 50
_KEYBOARD = re.compile(rb"\x1b\[([<>])\d*u")
_UNFINISHED = re.compile(rb"\x1b(\[[<>]?\d*)?$")

# Tests that a shell runs in the background have SIGINT ignored, and so would the program.
_START = """
import os, signal, sys
os.login_tty(0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.close(int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class State:
    """What a program is to leave as it found it."""

    termios: list[Any]
    modes: frozenset[int]
    cursor_hidden: bool
    keyboard: int
    """How deep the kitty keyboard's stack is."""


class Display:
    """What a terminal shows of the bytes it is given."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.raw = bytearray()
        self.keyboard = 0
        """How deep the kitty keyboard's stack is, which pyte does not know."""
        self._stream = pyte.ByteStream(self.screen)
        self._held = b""

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def feed(self, data: bytes) -> None:
        self.raw += data
        data = self._held + data
        unfinished = _UNFINISHED.search(data)
        cut = unfinished.start() if unfinished else len(data)
        data, self._held = data[:cut], data[cut:]
        for found in _KEYBOARD.finditer(data):
            self.keyboard = max(0, self.keyboard + (1 if found[1] == b">" else -1))
        self._stream.feed(_KEYBOARD.sub(b"", data))


class Terminal:
    """Runs `command` until it ends or the terminal is closed. Use as a context manager.

    `tap` is called, in another thread, with all that is written, and with b"" at the end.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
        tap: Callable[[bytes], None] = lambda _: None,
        display: Display | None = None,
    ) -> None:
        self._display = display or Display(columns, rows)
        self._tap = tap
        self._changed = threading.Condition()
        leader, follower = pty.openpty()
        self._leader = leader
        self.resize(columns, rows)
        self.before = self.state()
        # Not a fork of this process: beside threads its child may wait for ever before it is the program.
        begins, told = os.pipe()
        os.set_inheritable(told, True)
        starter = [sys.executable, "-I", "-S", "-c", _START, str(told), *command]
        # What a caller made inheritable goes along, as a benchmark's pipe does.
        started = subprocess.Popen(starter, stdin=follower, env=dict(environ), close_fds=False)
        started.returncode = 0  # it is waited for here
        self.pid = started.pid
        os.close(told)
        os.read(begins, 1)
        self.began = time.perf_counter()
        """When the program itself was started."""
        os.close(begins)
        os.close(follower)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._code: int | None = None

    @property
    def screen(self) -> pyte.Screen:
        return self._display.screen

    @property
    def raw(self) -> bytearray:
        return self._display.raw

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._code is None:
            for kill in (os.killpg, os.kill):
                try:
                    kill(self.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            os.waitpid(self.pid, 0)
        self.close()

    def forget(self) -> None:
        """The program has been waited for by somebody else."""
        self._code = 0

    def close(self) -> None:
        """Close the terminal's window."""
        if self._leader >= 0:
            leader, self._leader = self._leader, -1
            os.close(leader)

    def state(self) -> State:
        with self._changed:
            return State(
                termios.tcgetattr(self._leader),
                frozenset(self.screen.mode),
                bool(self.screen.cursor.hidden),
                self._display.keyboard,
            )

    @property
    def text(self) -> str:
        with self._changed:
            return self._display.text

    def send(self, keys: bytes | str) -> None:
        os.write(self._leader, keys.encode() if isinstance(keys, str) else keys)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with self._changed:
            self.screen.resize(rows, columns)

    def wait_for(self, condition: Callable[[], bool], what: str = "") -> None:
        """Wait until `condition` holds, which is asked again whenever something was written."""
        until = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"{what or condition} did not come; on the screen:\n{self.text}")
            with self._changed:
                self._changed.wait(0.05)

    def wait_for_text(self, text: str) -> None:
        self.wait_for(lambda: text in self.text, repr(text))

    def wait(self) -> int:
        """The exit code, 128 + n for a signal; all that was written has been read then."""
        code = -1

        def ended() -> bool:
            nonlocal code
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
            return bool(pid)

        self.wait_for(ended, "the end")
        self._code = 128 - code if code < 0 else code
        self._settle()
        return self._code

    def _settle(self) -> None:
        """Wait until what is on its way has been read: the reader sees the end, or nothing more comes."""
        self._reader.join(PATIENCE_S)

    def _read(self) -> None:
        data = b"first"
        while data:
            try:
                data = os.read(self._leader, 65536)
            except OSError:  # nobody has the other end open any longer
                data = b""
            with self._changed:
                self._display.feed(data)
                self._changed.notify_all()
            self._tap(data)
