"""Text from standard input and from files, and how it joins the prompt."""

from __future__ import annotations

import os
import re
import select
import stat
from collections.abc import Callable, Sequence

from app.bounded import read_bounded
from app.exits import usage
from app.kinds import clip

LIMIT_BYTES = 64 * 1024 * 1024
PATIENCE_S = 3.0
_SAMPLE_BYTES = 8192
_BAD_BYTES = re.compile("[\udc80-\udcff]")
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
    """The text of the file that `-f` names, undecodable bytes replaced; a usage failure for a binary one."""
    try:
        data = read_bounded(name, LIMIT_BYTES)
    except (OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        raise usage(f"{clip(name) or 'The file'} cannot be read: {reason}.") from err
    if _is_binary(data):
        raise usage(
            f"{clip(name)} is not UTF-8 text.",
            "--attach takes PDFs and text of other encodings.",
        )
    return decode(data, name)


def _is_binary(data: bytes) -> bool:
    """Whether `data` is no text: a zero byte near its start, or over one character in ten that is none."""
    sample = data[:_SAMPLE_BYTES]
    if b"\0" in sample:
        return True
    text = sample.decode("utf-8", errors="surrogateescape")  # one surrogate for each bad byte
    return len(_BAD_BYTES.findall(text)) * 10 > len(text)


def decode(data: bytes, name: str) -> str:
    """UTF-8 `data` as text, with bad bytes replaced and without a byte order mark."""
    if len(data) > LIMIT_BYTES:
        raise usage(f"{name} is larger than {LIMIT_BYTES // 2**20} MiB; no context window holds that.")
    return data.decode("utf-8-sig", errors="replace")


def join_parts(prompt: str, parts: Sequence[tuple[str, str]]) -> str:
    """The prompt first, then each (name, text) fenced as a part of its own."""
    return "\n\n".join([prompt, *(fenced(name, text) for name, text in parts)])


def fenced(title: str, text: str) -> str:
    """`text` as a part of its own in a message: a fence longer than any inside, under its title."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    head = f"{title}:\n" if title else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{head}{fence}\n{text}{end}{fence}"


def _read_all() -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size <= LIMIT_BYTES and (chunk := os.read(_STDIN, 1 << 16)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
