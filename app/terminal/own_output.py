"""Keeps standard output for the answer while a person's tools run in this process.

A tool prints, and so do the programs that it starts: what it wants to tell the model it gives back. What
it prints may be the words of a model or of a page, so a terminal is sent its text and nothing it would obey.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, cast

from app.terminal.output import is_terminal, sanitize

_OUT, _ERR = 1, 2
_REST_S = 0.5
"""How long what is still on its way may take once no tool runs: a program it left behind may go on."""


@contextmanager
def own_output() -> Generator[IO[str]]:
    """The way to standard output; what anybody else writes there meanwhile goes to standard error."""
    with _clean_errors(), _own_output() as out:
        yield out


@contextmanager
def _own_output() -> Generator[IO[str]]:
    mine = cast("IO[str] | None", sys.stdout)
    others = cast("IO[str] | None", sys.stderr) or io.StringIO()
    out = mine or io.StringIO()
    with suppress(OSError, ValueError):
        out.flush()
    saved = _dup(_OUT)
    if saved is not None and mine is not None and _leads_to(mine, _OUT):
        way = os.fdopen(os.dup(saved), "wb")
        out = io.TextIOWrapper(way, encoding=getattr(mine, "encoding", None), errors="replace")
    if saved is not None:
        _lead_to_errors()
    sys.stdout = others
    try:
        yield out
    finally:
        with suppress(OSError, ValueError):
            others.flush()
        sys.stdout = mine
        if saved is not None:
            os.dup2(saved, _OUT)
            os.close(saved)
        if out is not mine:
            with suppress(OSError):  # whoever read it has gone
                out.close()


def _dup(number: int) -> int | None:
    try:
        return os.dup(number)
    except OSError:  # it is closed
        return None


def _leads_to(stream: IO[str], number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):
        return False


def _lead_to_errors() -> None:
    try:
        os.dup2(_ERR, _OUT)
    except OSError:  # there is none
        hole = os.open(os.devnull, os.O_WRONLY)
        os.dup2(hole, _OUT)
        os.close(hole)


# ---- errors that a person looks at -----------------------------------------------------------------


class _Errors(io.TextIOWrapper):
    """Standard error for everybody: what is written is cleaned on its way to the terminal, `own`."""

    own: IO[str]

    def isatty(self) -> bool:
        return True


@contextmanager
def _clean_errors() -> Generator[None]:
    """Within, what is written to standard error is cleaned, where that is a terminal."""
    before = cast("IO[str] | None", sys.stderr)
    if before is None or not is_terminal(before):
        yield
        return
    before.flush()
    own, saved = before, _dup(_ERR) if _leads_to(before, _ERR) else None
    reading, writing = os.pipe()
    if saved is not None:
        # Programs and native code write there, too.
        way, encoding = os.fdopen(os.dup(saved), "wb"), getattr(before, "encoding", None)
        own = io.TextIOWrapper(way, encoding, "replace", newline="\n", line_buffering=True)
        os.dup2(writing, _ERR)
    errors = _Errors(os.fdopen(writing, "wb"), "utf-8", "replace", newline="\n", line_buffering=True)
    errors.own = own
    cleaner = threading.Thread(target=_clean, args=(reading, own), name="clean errors", daemon=True)
    cleaner.start()
    sys.stderr = errors
    try:
        yield
    finally:
        sys.stderr = before
        if saved is not None:
            os.dup2(saved, _ERR)
            os.close(saved)
        with suppress(OSError, ValueError):
            errors.flush()
        del errors  # which ends the pipe, unless a tool has kept it
        cleaner.join(_REST_S)
        with suppress(OSError, ValueError):
            own.flush()


def _clean(reading: int, own: IO[str]) -> None:
    """Hand on what comes as a terminal would leave it, line by line, until nobody can write any more."""
    from tools.printed import Printed

    printed, decoder = Printed(), codecs.getincrementaldecoder("utf-8")("replace")
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while data := pipe.read(1 << 16):
            _tell(own, printed.feed(decoder.decode(data)))
    _tell(own, printed.feed(decoder.decode(b"", final=True)) + printed.end())


def _tell(own: IO[str], text: str) -> None:
    with suppress(OSError, ValueError):
        own.write(sanitize(text))
        own.flush()
