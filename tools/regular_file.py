"""Reading the start of a file that anybody may have made: a pipe, a device or a folder in its place holds
nobody up."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def start_of(path: Path, most_bytes: int, *, follow: bool = False) -> bytes | None:
    """The first `most_bytes` bytes of the regular file at `path`, None for what is not one.

    A link counts as none, unless it is to be followed. Raises OSError, also for what is no path at all.
    """
    try:
        kind = os.stat(path, follow_symlinks=follow).st_mode
        # Opening a device can do something already.
        if not stat.S_ISREG(kind):
            return None
        kept_off = 0 if follow else os.O_NOFOLLOW
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | kept_off)
    except ValueError as err:
        raise OSError(f"that is not a path: {err}") from err
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(handle)
