"""Text from standard input, and from the files that join a prompt."""

from __future__ import annotations

import os
import re
import select
import stat
from collections.abc import Callable

from app.bounded import read_bounded
from app.characters import clip
from app.exits import usage
from app.files.text import marked_encoding, unmarked_wide

LIMIT_BYTES = 64 * 1024 * 1024
PATIENCE_S = 3.0
_SAMPLE_BYTES = 8192
_BAD_BYTES = re.compile("[\udc80-\udcff]")
_CONTROLS = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
_SHORT_BYTES = 64
"""Of fewer bytes it cannot be told whether they are text with a few wrong ones, or no text at all."""
_EAST_ASIAN_SIGNS = frozenset(map(chr, (*range(0x3000, 0x3030), 0x30FB, 0xFF01, 0xFF0C, 0xFF1F)))
_STDIN = 0


def read_stdin(*, notice: Callable[[str], None], asked: bool = False) -> str | None:
    """What is piped or redirected into the process: UTF-8 with bad bytes replaced, or UTF-16.

    A usage failure for what is neither. None where there is nothing to read: closed, a terminal, a
    device such as /dev/null. With `asked` (the prompt is `-`) a terminal is read too. `notice` is
    told once when nothing comes.
    """
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:
        return None
    if stat.S_ISCHR(mode) and not asked:
        return None
    if not stat.S_ISREG(mode) and not select.select([_STDIN], [], [], PATIENCE_S)[0]:
        notice("waiting for text on standard input (add </dev/null if there is none)")
    data = _read_all()
    _require_text(data)
    return decode(data, "standard input")


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
            "--attach accepts PDFs and text in other encodings.",
        )
    return decode(data, name)


def _is_binary(data: bytes) -> bool:
    """Whether `data` is no text: a zero byte near its start, or over one character in ten that is none."""
    sample = data[:_SAMPLE_BYTES]
    return b"\0" in sample or _is_mostly_bad(sample)


def _is_mostly_bad(sample: bytes) -> bool:
    text = sample.decode("utf-8", errors="surrogateescape")  # one surrogate for each bad byte
    return len(_BAD_BYTES.findall(text)) * 10 > len(text)


def _require_text(data: bytes) -> None:
    """A usage failure for what would reach the model as other characters than it was written in."""
    sample = data[:_SAMPLE_BYTES]
    if marked_encoding(data) or unmarked_wide(sample):
        return
    is_binary = b"\0" in sample or len(_CONTROLS.findall(sample)) * 10 > len(sample)
    if not is_binary and not (_is_mostly_bad(sample) and (len(data) >= _SHORT_BYTES or _may_be_wide(data))):
        return
    raise usage(
        "Standard input is not UTF-8 text.",
        "Convert it with iconv, or give it as a file: --attach reads PDFs and text of other encodings.",
    )


def _may_be_wide(data: bytes) -> bool:
    """Whether UTF-16 makes nothing but letters of it, and signs between those of East Asia."""
    for encoding in ("utf-16-le", "utf-16-be"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if all(letter.isalpha() or letter in _EAST_ASIAN_SIGNS for letter in text):
            return True
    return False


def decode(data: bytes, name: str) -> str:
    """`data` as text, without a byte order mark: UTF-16 and UTF-32, else UTF-8 with bad bytes replaced."""
    if len(data) > LIMIT_BYTES:
        raise usage(f"{name} is larger than {LIMIT_BYTES // 2**20} MiB; no context window is that large.")
    encoding = marked_encoding(data) or unmarked_wide(data[:_SAMPLE_BYTES])
    return data.decode(encoding or "utf-8-sig", errors="replace")


def _read_all() -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size <= LIMIT_BYTES and (chunk := os.read(_STDIN, 1 << 16)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)
