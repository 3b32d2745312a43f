"""Keeps standard output for the answer while a person's tools run in this process.

A tool prints, and so do the programs that it starts: what it wants to tell the model it gives back.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, cast

_OUT, _ERR = 1, 2


@contextmanager
def own_output() -> Generator[IO[str]]:
    """The way to standard output; what anybody else writes there meanwhile goes to standard error."""
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
