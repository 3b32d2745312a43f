"""Text from standard input and from files, and how it joins the prompt."""

from __future__ import annotations

import os
import re
import select
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from app.exits import usage

LIMIT_BYTES = 64 * 1024 * 1024
PATIENCE_S = 3.0
_STDIN = 0


def read_stdin(*, notice: Callable[[str], None], asked: bool = False) -> str | None:
    """What is piped or redirected into the process, undecodable bytes replaced.

    None where there is nothing to read: closed, a terminal, a device such as /dev/null. With
    `asked` (the prompt is `-`) a terminal is read too. `notice` is told once when nothing comes.
    """
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:
        return None
    if stat.S_ISCHR(mode) and not asked:
        return None
    if not stat.S_ISREG(mode) and not select.select([_STDIN], [], [], PATIENCE_S)[0]:
        notice("waiting for text on standard input (add </dev/null if there is none)")
    return decode(_read_all(), "standard input")


def read_file(name: str) -> str:
    """The text of the file that `-f` names, undecodable bytes replaced."""
    try:
        with Path(name).open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except OSError as err:
        raise usage(f"{name} cannot be read: {err.strerror}.") from err
    return decode(data, name)


def decode(data: bytes, name: str) -> str:
    """UTF-8 `data` as text, with bad bytes replaced and without a byte order mark."""
    if len(data) > LIMIT_BYTES:
        raise usage(f"{name} is larger than {LIMIT_BYTES // 2**20} MiB; no context window holds that.")
    return data.decode("utf-8-sig", errors="replace")


def join_parts(prompt: str, parts: Sequence[tuple[str, str]]) -> str:
    """The prompt first, then each (name, text) fenced as a part of its own."""
    return "\n\n".join([prompt, *(_fenced(name, text) for name, text in parts)])


def _fenced(name: str, text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    title = f"{name}:\n" if name else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{title}{fence}\n{text}{end}{fence}"


def _read_all() -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size <= LIMIT_BYTES and (chunk := os.read(_STDIN, 1 << 16)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
