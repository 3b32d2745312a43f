"""Textual's driver, made to stop and go on in any way that a shell, a person or the guard asks for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import termios
from collections.abc import Callable, Generator
from enum import Enum
from typing import IO, Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.drivers.linux_driver import LinuxDriver

from app.tui.key_reader import KeyReader

BELL = "\x07"
LEFT_BY_PROGRAMS = "".join(
    (
        "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l",  # mouse and pastes
        "\x1b[r\x1b[4l\x1b>\x1b(B\x0f",  # margins, inserting, keypad, character sets
        "\x1b[?1049l\x1b[0m",
    )
)
"""Puts away what an editor that was killed has set in the terminal; elsewhere it changes nothing."""
READ_BYTES = 4096
WAIT_S = 0.1
"""How long a read waits at most before the clock is looked at: a lone escape is a key by then."""
LOOK_S = 1.0
"""How often to look whether the terminal is still there; a signal tells it only to some."""


class _MoreKeys(Enum):
    """Keys that Textual knows only from terminals with the kitty protocol; elsewhere it takes
    alt+enter for enter, which sends what is half written."""

    ALT_ENTER = "alt+enter"


cast("dict[str, tuple[Enum, ...]]", ANSI_SEQUENCES_KEYS)["\x1b\r"] = (_MoreKeys.ALT_ENTER,)


class ScreenDriver(LinuxDriver):
    """Stops and goes on in the event loop, and counts on nothing when it goes on.

    Textual does both in the signal handler, which waits for ever where it interrupted a write, starts
    its screen at every SIGCONT, also where it never stopped, and paints nothing where nothing changed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]
        self._loop = asyncio.get_running_loop()
        self._is_to_stop = False
        self._is_lent = False
        self._file = cast("IO[str]", _Output(self._file))
        self._loop.call_later(LOOK_S, self._look)

    def run_input_thread(self) -> None:
        """Read keys until the driver lets go of them. What fails is told, and the next read goes on."""
        reader = KeyReader(self._debug)
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                try:
                    data = os.read(self.fileno, READ_BYTES) if selector.select(WAIT_S) else None
                    if data == b"":  # without its terminal, which `_look` will see
                        self.exit_event.wait(WAIT_S)
                    for message in reader.read(data or b""):
                        self.process_message(message)
                except BlockingIOError:
                    pass
                except BaseException as err:
                    reader.recover()
                    if not isinstance(err, OSError):
                        self._in_loop(lambda err=err: self._tell(err))
                    self.exit_event.wait(WAIT_S)

    def _tell(self, err: BaseException) -> None:
        said = getattr(self._app, "say", None)
        if said is not None:
            said(
                f"A key could not be read ({type(err).__name__}: {err}); the keys after it work.", error=True
            )

    def write(self, data: str) -> None:
        """Draw, but not on a terminal that another program has: there only the bell is heard."""
        if not self._is_lent:
            super().write(data)
        elif data == BELL:
            self._file.write(data)
            self._file.flush()

    def _get_terminal_size(self) -> tuple[int, int]:
        """Columns and rows of the terminal itself. COLUMNS and LINES, once exported, do not follow it."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self.fileno)
            if size.columns and size.lines:
                return size.columns, size.lines
        return super()._get_terminal_size()

    @contextlib.contextmanager
    def lent(self) -> Generator[None]:
        """Within, another program has the terminal: nothing is read or drawn, and the loop goes on."""
        self.suspend_application_mode()
        modes = self.attrs_before
        self._is_lent = True
        try:
            with self.no_automatic_restart():
                yield
        finally:
            if modes is not None:
                # A program that was killed leaves its own.
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(self.fileno, termios.TCSANOW, modes)
            self._file.write(LEFT_BY_PROGRAMS)
            self._file.flush()
            if not self._app._exit:  # pyright: ignore[reportPrivateUsage]
                self._is_lent = False
                self._must_signal_resume = True  # whoever has sent the terminal a picture sends it anew
                self.resume_application_mode()
                self._app.call_later(self._app.refresh)

    @property
    def is_lent(self) -> bool:
        """Whether another program has the terminal."""
        return self._is_lent

    def use_mouse(self, on: bool) -> None:
        """Take the mouse, or leave it to the terminal for its own selection; holds after a stop too."""
        if not on:
            self._disable_mouse_support()
        self._mouse = on
        if on:
            self._enable_mouse_support()

    def _sigtstp_application(self, *_: object) -> None:
        if not self._auto_restart:  # a program has the terminal, and the loop may wait for it
            os.kill(os.getpid(), signal.SIGSTOP)
        elif not self._is_to_stop:
            self._is_to_stop = True
            self._in_loop(self._stop)

    def _sigcont_application(self, *_: object) -> None:
        if self._auto_restart:
            self._in_loop(self._go_on)

    def _in_loop(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so will the process
            self._loop.call_soon_threadsafe(work)

    def _stop(self) -> None:
        if self._draws:
            self.suspend_application_mode()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._is_to_stop = False

    def _go_on(self) -> None:
        if self._app._exit:  # pyright: ignore[reportPrivateUsage] # there is no public way
            return
        if self._draws:
            self.suspend_application_mode()
        self._must_signal_resume = True
        self.resume_application_mode()
        self._app.call_later(self._app.refresh)

    @property
    def _draws(self) -> bool:
        return self._writer_thread is not None and self._writer_thread.is_alive()

    def _look(self) -> None:
        """Without its terminal the program ends, as by a hangup; else it would read nothing for ever."""
        if self._app._exit:  # pyright: ignore[reportPrivateUsage]
            return
        try:
            termios.tcgetattr(self.fileno)
        except termios.error:
            self._app.exit(return_code=128 + signal.SIGHUP)
        else:
            self._loop.call_later(LOOK_S, self._look)


class _Output:
    """The terminal for Textual's writing thread, which would end with it, and keep waiting whoever draws."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()
