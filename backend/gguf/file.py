"""A GGUF file as untrusted bytes: opening it, telling what it is if it is no GGUF, reading it in bounds.

It reads with `pread` and never maps the file: a file that shrinks while it is read would end the
process. Every claim of a length is held against the file's size before anything is allocated.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from backend.types import LoadCause, ModelLoadError

DOWNLOAD_AGAIN = "Download the file again and compare its size with the one the source names."
GET_GGUF = "Choose a file that ends in .gguf; most models are published in that format too."
MAGIC = b"GGUF"

_CHUNK_BYTES = 1 << 18
_WALK_BYTES = 32 << 20
"""Most bytes of text arrays walked past in one file; the largest real ones take 15 MB."""
_OBJECT_BYTES = 33
"""What a Python bytes object takes beside its content."""
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


def shown(text: object, limit: int = 80) -> str:
    """`text` of an untrusted file for a message: on one line, escaped, at most `limit` characters."""
    line = str(text)[: limit + 1]
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def gib(count: float) -> str:
    """Bytes of memory, of disk, or of a model, as people are told of them: `2.3 GiB`."""
    return "<0.1 GiB" if 0 < count < (1 << 30) / 20 else f"{count / (1 << 30):,.1f} GiB"


def quoted(text: object) -> str:
    """`shown(text)` in quotes."""
    return f"'{shown(text)}'"


def fail(path: Path, problem: str, cause: LoadCause, remedy: str) -> NoReturn:
    """Raise ModelLoadError: `problem` is a clause whose subject is the file."""
    raise ModelLoadError(f"{shown(path, 300)} {problem}.", cause=cause, remedy=remedy)


# ---- opening -------------------------------------------------------------------------------


@contextmanager
def opened(path: Path) -> Generator[tuple[int, int]]:
    """A descriptor and the size in bytes of the regular file at `path`, or ModelLoadError."""
    try:
        # O_NONBLOCK: a named pipe would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as err:
        raise _unopened(path, err) from err
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            fail(path, "is a directory", "not_gguf", "Name the .gguf file inside it.")
        if not stat.S_ISREG(status.st_mode):
            fail(path, "is a device or a pipe, not a file", "not_gguf", GET_GGUF)
        if status.st_size == 0:
            fail(path, "is empty (0 bytes)", "not_gguf", "Download it again.")
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def _unopened(path: Path, err: OSError | ValueError) -> ModelLoadError:
    where = shown(path, 300)
    if isinstance(err, PermissionError):
        return ModelLoadError(
            f"{where} may not be read.",
            cause="not_found",
            remedy=f"Allow it: chmod u+r '{shown(path, 300)}'.",
        )
    if isinstance(err, FileNotFoundError):
        return ModelLoadError(
            f"{where} does not exist.", cause="not_found", remedy="Check the path for a typo."
        )
    reason = err.strerror if isinstance(err, OSError) else str(err)
    return ModelLoadError(
        f"{where} cannot be opened: {reason}.", cause="not_found", remedy="Check the path for a typo."
    )


# ---- what a file is, if it is no GGUF -------------------------------------------------------

_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs",
        "is a Git LFS pointer, not the model itself",
        "Run `git lfs pull` beside it.",
    ),
    (b"PK\x03\x04", "is a zip archive or a PyTorch checkpoint, not GGUF", GET_GGUF),
    (b"\x80\x02", "is a Python pickle (a PyTorch checkpoint), not GGUF", GET_GGUF),
    (b"\x80\x03", "is a Python pickle (a PyTorch checkpoint), not GGUF", GET_GGUF),
    (b"\x80\x04", "is a Python pickle (a PyTorch checkpoint), not GGUF", GET_GGUF),
    (b"\x89HDF", "is an HDF5 file, not GGUF", GET_GGUF),
    (b"\x1f\x8b", "is a gzip archive", "Unpack it first, then name the .gguf file inside."),
    (b"\x28\xb5\x2f\xfd", "is a zstd archive", "Unpack it first, then name the .gguf file inside."),
    (b"\xfd7zXZ", "is an xz archive", "Unpack it first, then name the .gguf file inside."),
    (b"7z\xbc\xaf", "is a 7z archive", "Unpack it first, then name the .gguf file inside."),
    (b"lmgg", "is a GGML file, the format before GGUF", "Get the model again as GGUF."),
    (b"fmgg", "is a GGML file (ggmf), the format before GGUF", "Get the model again as GGUF."),
    (b"tjgg", "is a GGML file (ggjt), the format before GGUF", "Get the model again as GGUF."),
    (b"algg", "is a LoRA adapter in the old GGML format", "Convert the adapter to GGUF."),
)


def refuse_foreign(path: Path, head: bytes, size: int) -> NoReturn:
    """Raise the ModelLoadError that says what a file starting with `head` is instead of a GGUF."""
    for magic, problem, remedy in _FOREIGN:
        if head.startswith(magic):
            fail(path, problem, "not_gguf", remedy)
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<!--")):
        problem = "is not GGUF: it looks like an HTML page, perhaps a login or error page of the download"
        fail(path, problem, "not_gguf", "Open the link in a browser, then download the file itself.")
    if _is_safetensors(head, size):
        fail(path, "is a safetensors file, not GGUF", "not_gguf", GET_GGUF)
    if text.startswith(b"{"):
        fail(path, "is not GGUF: it looks like JSON", "not_gguf", GET_GGUF)
    if not head.strip(b"\0"):
        fail(path, "starts with zeros only: its download has not finished", "truncated", DOWNLOAD_AGAIN)
    if MAGIC.startswith(head):
        fail(path, f"has {size} bytes: it is cut off in its first word", "truncated", DOWNLOAD_AGAIN)
    fail(path, "is not GGUF: it does not start with the letters GGUF", "not_gguf", GET_GGUF)


def _is_safetensors(head: bytes, size: int) -> bool:
    if len(head) < 9 or head[8:9] != b"{":
        return False
    (header_bytes,) = _U64.unpack_from(head)
    return header_bytes <= max(size, 100 << 20)


# ---- reading -------------------------------------------------------------------------------


class Reader:
    """A position in the file, over one chunk of it in memory."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self.size = size
        self.position = 0
        self._descriptor = descriptor
        self._chunk = b""
        self._start = 0
        self._walk_budget = _WALK_BYTES

    def take(self, count: int, what: str) -> bytes:
        self.need(count, what)
        begin = self.position - self._start
        if begin + count > len(self._chunk):
            self._fill(count)
            begin = 0
        self.position += count
        return self._chunk[begin : begin + count]

    def need(self, count: int, what: str) -> None:
        left = self.size - self.position
        if count <= left:
            return
        if count > _CHUNK_BYTES:
            problem = f"claims {count:,} bytes for {what} where only {left:,} are left in the file"
            fail(self.path, problem, "bad_metadata", DOWNLOAD_AGAIN)
        problem = f"ends after {self.size:,} bytes, inside its header ({what})"
        fail(self.path, problem, "truncated", DOWNLOAD_AGAIN)

    def skip(self, count: int, what: str) -> None:
        self.need(count, what)
        self.position += count

    def u32(self, what: str) -> int:
        return _U32.unpack(self.take(4, what))[0]

    def u64(self, what: str) -> int:
        return _U64.unpack(self.take(8, what))[0]

    def text(self, limit: int, what: str) -> bytes:
        length = self.u64(f"the length of {what}")
        if length > limit:
            self.need(length, what)
            fail(self.path, f"contains {what} of {length:,} bytes", "bad_metadata", DOWNLOAD_AGAIN)
        return self.take(length, what)

    def skip_texts(self, count: int, what: str) -> None:
        """Walk past `count` texts: 250,000 of them take 15 ms, one call each would take 200."""
        left = count
        while left:
            self.need(8, what)
            self._fill(8)
            before = self.position
            chunk, at, unpack = self._chunk, 0, _U64.unpack_from
            last = len(chunk) - 8
            for done in range(left):
                if at > last:
                    left -= done
                    break
                at += 8 + unpack(chunk, at)[0]
            else:
                left = 0
            self.need(at, what)
            self.position = before + at
            self.walked(min(at, _CHUNK_BYTES))

    def take_texts(self, count: int, what: str) -> list[bytes]:
        """`count` texts, read in one go where they lie in one chunk: 50,000 take 10 ms."""
        found: list[bytes] = []
        while len(found) < count:
            self.need(8, what)
            self._fill(8)
            chunk, at, unpack = self._chunk, 0, _U64.unpack_from
            last = len(chunk) - 8
            before = len(found)
            while at <= last and len(found) < count:
                end = at + 8 + unpack(chunk, at)[0]
                if end > len(chunk):
                    break
                found.append(chunk[at + 8 : end])
                at = end
            self.position += at
            self.walked(at + _OBJECT_BYTES * (len(found) - before))
            if not at:
                found.append(self.text(_CHUNK_BYTES, what))
        return found

    def walked(self, count: int) -> None:
        """Charge bytes of text lists to the limit that one file has."""
        self._walk_budget -= count
        if self._walk_budget < 0:
            problem = f"has text lists of over {_WALK_BYTES >> 20} MB in its header"
            fail(self.path, problem, "bad_metadata", DOWNLOAD_AGAIN)

    def _fill(self, count: int) -> None:
        self._chunk = os.pread(self._descriptor, max(count, _CHUNK_BYTES), self.position)
        self._start = self.position
        if len(self._chunk) < count:
            fail(self.path, "became shorter while it was read", "truncated", DOWNLOAD_AGAIN)
