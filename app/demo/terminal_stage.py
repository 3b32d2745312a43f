"""A stage that is a terminal of its own: the REPL and commands play here, as do recordings.

The program runs in a pseudo-terminal; what it writes is kept on a screen that needs no window.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.exits import usage
from app.terminal.theming import Palette

QUIET_S = 0.08
"""A program that wrote nothing for so long has drawn what it had to."""
ARMED_AFTER_S = 0.8
"""A question takes no keys in its first half second, lest somebody answers it by accident."""
ECHO_S = 10.0
"""How long a program may take to show what was typed; for one that never shows it, that is all."""
SHOWN_CHARS = 12
CHUNK = 1 << 16
PROMPTS = ("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", ">", "$", "you:")
KEYS: Mapping[str, str] = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "shift+tab": "\x1b[Z",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "alt+up": "\x1b[1;3A",
    "alt+down": "\x1b[1;3B",
    "space": " ",
}


def key_bytes(key: str) -> bytes:
    """What a terminal sends for `key`: a name such as enter, ctrl+c or alt+up, or one character."""
    if key in KEYS:
        return KEYS[key].encode()
    modifier, plus, letter = key.rpartition("+")
    if plus and modifier == "ctrl" and len(letter) == 1 and letter.isalpha():
        return bytes([ord(letter.lower()) & 0x1F])
    if plus and modifier == "alt" and len(letter) == 1:
        return b"\x1b" + letter.encode()
    if len(key) == 1:
        return key.encode()
    raise usage(
        f"There is no key {key!r}.", "Keys are single characters, enter, ctrl+c, alt+up and the like."
    )


class TerminalStage:
    """A program in a pseudo-terminal of `size` columns and rows. An async context manager.

    `heard` is given everything it writes, as it comes.
    """

    def __init__(
        self,
        argv: Sequence[str],
        size: tuple[int, int],
        *,
        environ: Mapping[str, str],
        cwd: str | None = None,
        palette: Palette | None = None,
        heard: Callable[[bytes], None] = lambda _data: None,
    ) -> None:
        import pyte

        self._argv, self._size, self._environ, self._cwd = list(argv), size, dict(environ), cwd
        self._palette = palette
        self._heard = heard
        self._screen: Any = pyte.HistoryScreen(*size, history=10_000)
        self._stream: Any = pyte.ByteStream(self._screen)
        self._changed = time.monotonic()
        self._ended = asyncio.Event()
        self._fd = -1
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> TerminalStage:
        master, slave = os.openpty()
        columns, rows = self._size
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        try:
            self._process = await asyncio.to_thread(self._spawn, slave)
        except OSError:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._fd = master
        os.set_blocking(master, False)
        asyncio.get_running_loop().add_reader(master, self._read)
        return self

    async def __aexit__(self, *_exit: object) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, 5)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        self._ended.set()
        os.close(self._fd)

    async def ended(self) -> int:
        """Wait until the program has closed its terminal; its exit code."""
        await self._ended.wait()
        return await asyncio.to_thread(self._process.wait) if self._process else 0

    async def type(self, text: str) -> None:
        for character in text:
            await self._write(key_bytes("ctrl+j") if character == "\n" else character.encode())
        await self._shown(text)

    async def _shown(self, text: str) -> None:
        """Wait until the end of what was typed is on the screen: a key that comes together with it is no key.

        On a busy machine a program reads late, and takes both for a paste.
        """
        end = "".join(text.split())[-SHOWN_CHARS:]
        deadline = time.monotonic() + ECHO_S
        while not self._ended.is_set() and time.monotonic() < deadline:
            if end in "".join(self.screen().split()):
                return
            await asyncio.sleep(QUIET_S / 8)

    async def press(self, key: str) -> None:
        await self._write(key_bytes(key))

    async def answer(self, key: str) -> None:
        before = self._changed
        await self.press(key)
        # A key that comes together with its line end would be a paste, which answers nothing.
        deadline = time.monotonic() + ECHO_S
        while not self._ended.is_set() and self._changed == before and time.monotonic() < deadline:
            await asyncio.sleep(QUIET_S / 8)
        await self.settled()
        await self.press("enter")

    async def settled(self) -> None:
        """Wait until the program has been silent for a moment, or has ended."""
        while not self._ended.is_set() and (left := self._changed + QUIET_S - time.monotonic()) > 0:
            await asyncio.sleep(left)

    def screen(self) -> str:
        return "\n".join(row.rstrip() for row in self._screen.display)

    def states(self) -> frozenset[str]:
        """By what stands in the last rows: a prompt, or a question."""
        rows = [row.strip() for row in self._screen.display if row.strip()]
        last = rows[-1] if rows else ""
        if last.startswith("╏") or "approve?" in last:
            is_armed = time.monotonic() - self._changed > ARMED_AFTER_S
            return frozenset({"asking", "ready"} if is_armed else {"ready"})
        if last in PROMPTS or last.endswith(("$", PROMPTS[0])):
            return frozenset({"idle", "ready"})
        return frozenset({"running"})

    def picture(self, title: str) -> str:
        from app.demo.picture import draw

        return draw(self._screen, title, self._palette)

    def _spawn(self, terminal: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._argv,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=self._environ,
            cwd=self._cwd,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # The last program that had the terminal is gone.
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
            self._ended.set()
            return
        self._changed = time.monotonic()
        self._heard(data)
        self._stream.feed(data)

    async def _write(self, data: bytes) -> None:
        while data and not self._ended.is_set():
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)


def _take_terminal() -> None:
    """Make the terminal the one that its keys' signals go by."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
