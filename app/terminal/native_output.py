"""Keeps what native code prints out of an answer, in the process that the model itself runs in.

A library prints to descriptors 1 and 2, at once or, from a buffer of C's own, as late as the end of the
process. So from one call on both lead to a log for good, and Python's streams write to private copies.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import IO, cast


def keep_native_output_in(log: Path) -> None:
    """Lead descriptors 1 and 2 to `log`, or nowhere where it cannot be written, until the process ends."""
    out, err = _own_copy(sys.stdout, 1), _own_copy(sys.stderr, 2)
    descriptor = _opened(log)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)
    sys.stdout = sys.__stdout__ = out  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]
    sys.stderr = sys.__stderr__ = err  # pyright: ignore[reportAttributeAccessIssue, reportConstantRedefinition]


def _own_copy(stream: IO[str] | None, number: int) -> IO[str]:
    """`stream` on a descriptor of its own, if it writes to `number`; else as it is."""
    wrapper: object = stream
    if not isinstance(wrapper, TextIOWrapper):
        return cast("IO[str]", stream)
    with suppress(OSError, ValueError):
        wrapper.flush()
        if wrapper.fileno() == number:
            binary = os.fdopen(os.dup(number), "wb")
            return cast(
                "IO[str]",
                TextIOWrapper(binary, wrapper.encoding, wrapper.errors, "\n", wrapper.line_buffering),
            )
    return cast("IO[str]", stream)


def _opened(log: Path) -> int:
    from app.paths import touch_private

    with suppress(OSError, ValueError):
        return os.open(touch_private(log), os.O_WRONLY | os.O_APPEND)
    return os.open(os.devnull, os.O_WRONLY)
