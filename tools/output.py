"""What a tool wrote, bounded: the head and the tail in memory, the whole in a file, bad bytes replaced.

Refuses nothing; text of any kind comes out as text that can be encoded.
"""

from __future__ import annotations

import codecs
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tools.printed import Printed

_MOST_ERROR = 2000
"""Characters of an exception that are told."""
_LEAST_BYTES = 256
_MARKER_BYTES = 96
_SAMPLE_BYTES = 8192


def clean_text(text: str) -> str:
    """`text` as UTF-8 can hold it: escaped surrogate pairs joined, lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def text_of(value: object) -> str:
    """A tool's return value as the text a model reads; never raises."""
    match value:
        case None:
            return ""
        case str():
            return clean_text(value)
        case bytes() | bytearray() if b"\0" in value[:_SAMPLE_BYTES]:
            return f"[{len(value):,} bytes that are not text]"
        case bytes() | bytearray():
            return value.decode("utf-8", "replace")
        case _:
            return clean_text(_json_or_str(value))


def describe_error(err: BaseException) -> str:
    """An exception as one readable text of bounded length; never raises."""
    try:
        text = clean_text(str(err)).strip()
    except Exception:  # An author's __str__ may raise anything; the error must still be told.
        text = ""
    name = type(err).__name__
    text = f"{name}: {text}" if text else name
    return text if len(text) <= _MOST_ERROR else f"{text[:_MOST_ERROR]} [... {len(text):,} characters in all]"


def cap_middle(text: str, limit_bytes: int) -> str:
    """`text` in at most `limit_bytes` bytes of UTF-8: head, a marker with the original size, tail."""
    capture = Capture(limit_bytes)
    capture.write(clean_text(text).encode())
    return capture.finish().text


@dataclass(frozen=True)
class Captured:
    """Output as a model reads it, and where the whole of it is."""

    text: str
    size_bytes: int
    """The original size."""
    file: Path | None = None
    """The whole output; None when it was short, when no folder was given, or when the disk is full."""
    file_is_whole: bool = True
    """False when the output was longer than what is kept."""
    line_count: int | None = None
    """Lines that a program printed; None for what no program printed."""


class Capture:
    """Collects output of any length in bounded memory.

    `limit_bytes` bounds what a model reads (at least 256). Longer output is kept in a new file of
    `folder` (0600), up to `kept_bytes`; without a folder only head and tail remain. What a program
    `prints` is read as a terminal would show it; the file keeps every byte.
    """

    def __init__(
        self,
        limit_bytes: int,
        *,
        folder: Path | None = None,
        kept_bytes: int = 64 << 20,
        prints: bool = False,
    ) -> None:
        self.limit_bytes = max(limit_bytes, _LEAST_BYTES)
        self._half = (self.limit_bytes - _MARKER_BYTES) // 2
        self._folder = folder
        self._kept_bytes = kept_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._printed = Printed() if prints else None
        self._raw: bytearray | None = bytearray()
        self._text = bytearray()
        self._tail = bytearray()
        self._text_bytes = 0
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self.size_bytes = 0

    def write(self, data: bytes) -> str:
        """Take the next bytes; returns them as text, an unfinished character held back."""
        text = self._decoder.decode(data)
        self._keep(data)
        self._remember((text if self._printed is None else self._printed.feed(text)).encode())
        return text

    def finish(self) -> Captured:
        """The output so far; nothing may be written afterwards."""
        rest = self._decoder.decode(b"", final=True)
        if self._printed is not None:
            rest = self._printed.feed(rest) + self._printed.end()
        lines = self.line_count
        self._remember(rest.encode())
        if self._file is not None:
            self._file.close()
        if self._text_bytes <= self.limit_bytes:
            return Captured(self._text.decode(), self.size_bytes, None, line_count=lines)
        head = self._text[: self._half].decode("utf-8", "ignore")
        tail = self._tail[-self._half :].decode("utf-8", "ignore")
        left_out = self._text_bytes - len(head.encode()) - len(tail.encode())
        marker = f"\n[... {left_out:,} of {self.size_bytes:,} bytes left out ...]\n"
        whole = self.size_bytes <= self._kept_bytes
        return Captured(head + marker + tail, self.size_bytes, self._path, whole, lines)

    @property
    def line_count(self) -> int | None:
        """Lines that a program printed so far; None for what no program printed."""
        return None if self._printed is None else self._printed.line_count

    def fresh(self) -> Capture:
        """An empty one with the same limits."""
        prints = self._printed is not None
        return Capture(self.limit_bytes, folder=self._folder, kept_bytes=self._kept_bytes, prints=prints)

    def discard(self) -> None:
        """Close and remove what was kept."""
        if self._file is not None:
            self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self._file = self._path = None

    def _remember(self, data: bytes) -> None:
        self._text_bytes += len(data)
        room = self.limit_bytes - len(self._text)
        if room > 0:
            self._text += data[:room]
        self._tail += data
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

    def _keep(self, data: bytes) -> None:
        before = self.size_bytes
        self.size_bytes += len(data)
        if self._folder is None:
            return
        if self._raw is not None:
            self._raw += data
            if self.size_bytes <= self.limit_bytes:
                return
            data, before, self._raw = bytes(self._raw), 0, None
            self._open(self._folder)
        if self._file is None:
            return
        try:
            self._file.write(data[: max(self._kept_bytes - before, 0)])
        except OSError:  # The disk is full; the head and the tail are still there.
            self.discard()

    def _open(self, folder: Path) -> None:
        path = folder / f"{secrets.token_hex(8)}.txt"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(path, flags, 0o600), "wb")
            self._path = path
        except OSError:
            self._file = self._path = None


def _json_or_str(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        pass
    except Exception:  # `default=str` runs an author's __str__.
        return f"<{type(value).__name__}>"
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
