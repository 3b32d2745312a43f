"""Keeps what others print off the screen: while a face runs, descriptors 1 and 2 lead to a log.

The face draws on a private copy of the terminal, so whatever native code or a tool prints, or does to those
two descriptors, neither garbles nor blanks the picture, and no terminal obeys it. Programs that need the
terminal are given `terminal`.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

from app.paths import touch_private

LOG_BYTES = 1024 * 1024
"""A log larger than this begins anew."""

_OUTPUTS = (1, 2)
_entered: list[FdGuard] = []


class FdGuard:
    """A context manager for the time that the face runs; OSError where the log cannot be written.

    `for_textual`: the streams that Textual draws on lead to the screen, too.
    """

    def __init__(self, log: Path, *, for_textual: bool = True) -> None:
        self._log = log
        self._for_textual = for_textual
        self._saved: list[int] = []
        self._streams: tuple[TextIO | None, TextIO | None] = (None, None)
        self._screen: TextIO | None = None

    def __enter__(self) -> FdGuard:
        touch_private(self._log).chmod(0o600)
        if self._log.stat().st_size > LOG_BYTES:
            os.truncate(self._log, 0)
        _flush()
        self._streams = (sys.__stdout__, sys.__stderr__)
        self._saved = [os.dup(number) for number in _OUTPUTS]
        # Textual draws on `__stderr__`, and asks `__stdout__` for the size of the terminal.
        screen = os.dup(2 if self._for_textual and os.isatty(2) else 1)
        encoding = "utf-8" if self._for_textual else sys.stdout.encoding
        self._screen = io.TextIOWrapper(
            os.fdopen(screen, "wb"), encoding, "replace", newline="\n", line_buffering=not self._for_textual
        )
        if self._for_textual:
            self._set_streams(self._screen, self._screen)
        self._lead_to_log()
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        _flush()
        self._lead_to_terminal()
        self._set_streams(*self._streams)
        if self._screen is not None:
            with suppress(OSError):  # the terminal is gone, and with it what was to be drawn
                self._screen.close()
        for saved in self._saved:
            os.close(saved)
        self._saved, self._screen = [], None

    @property
    def screen(self) -> TextIO:
        """What the face draws on, while it runs."""
        assert self._screen is not None
        return self._screen

    @property
    def terminal(self) -> tuple[int, int]:
        """The descriptors of output and errors that a program such as an editor is to be given."""
        out, err = self._saved
        return out, err

    def keep_nothing(self) -> None:
        """No log any more."""
        self._log = Path(os.devnull)
        self._lead_to_log()

    def _lead_to_log(self) -> None:
        log = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for number in _OUTPUTS:
            os.dup2(log, number)
        os.close(log)

    def _lead_to_terminal(self) -> None:
        for saved, number in zip(self._saved, _OUTPUTS, strict=True):
            os.dup2(saved, number)

    def _set_streams(self, out: TextIO | None, err: TextIO | None) -> None:
        sys.__stdout__ = cast("TextIO", out)  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]
        sys.__stderr__ = cast("TextIO", err)  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]


def keep_nothing_printed() -> None:
    """From now on what others print goes nowhere: a private chat's tool may print what was said in it."""
    _flush()
    for guard in _entered:
        guard.keep_nothing()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
