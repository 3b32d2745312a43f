"""Keeps native output off the screen: while the full-screen face runs, descriptors 1 and 2 lead to a log.

The face draws on a private copy of the terminal, so whatever native code prints, or does to those two
descriptors, neither garbles nor blanks the picture. Programs that need the terminal are given `terminal`.
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


class FdGuard:
    """A context manager for the time that the face runs; OSError where the log cannot be written."""

    def __init__(self, log: Path) -> None:
        self._log = log
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
        screen = os.dup(2 if os.isatty(2) else 1)
        self._screen = io.TextIOWrapper(os.fdopen(screen, "wb"), "utf-8", "replace", newline="\n")
        self._set_streams(self._screen, self._screen)
        self._lead_to_log()
        return self

    def __exit__(self, *_: object) -> None:
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
    def terminal(self) -> tuple[int, int]:
        """The descriptors of output and errors that a program such as an editor is to be given."""
        out, err = self._saved
        return out, err

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


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
