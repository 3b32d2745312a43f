"""Reading what a person names within bounds: files of bounded size, and TOML of bounded depth."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import Any, cast

from app.open_stores import refuse

MOST_DEPTH = 64
_LONG_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_DEPTH}}}"""
)
"""A key of so many parts; the parser takes time by the square of their number."""


def read_bounded(file: str | os.PathLike[str], limit_bytes: int) -> bytes:
    """What is in `file`, a regular file or a pipe. OSError for all else, and for more than the limit."""
    if not os.fspath(file):
        raise OSError(errno.ENOENT, "its name is empty")
    refuse(file)
    with Path(file).open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "it is neither a file nor a pipe")
        data = stream.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes / 2**20:.3g} MiB")
    return data


def parsed_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. ValueError says what is wrong with it."""
    import tomllib  # Most people have no such file, and a short run pays for each import.

    if _LONG_KEY.search(text):
        raise ValueError("it is nested too deeply")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level: list[Any] = [found]
    for _ in range(MOST_DEPTH):
        below: list[Any] = []
        for one in level:
            match one:
                case dict():
                    below += cast("dict[str, Any]", one).values()
                case list():
                    below += cast("list[Any]", one)
                case int() if not -(2**63) <= one < 2**63:
                    raise ValueError("it contains a number that is too large")
                case _:
                    pass
        if not below:
            return found
        level = below
    raise ValueError("it is nested too deeply")
