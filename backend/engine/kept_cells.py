"""What the cache held of conversations, in files: a chat that is opened again is restored, not read again.

A file is for one conversation, one model and one way of loading it. One that is foreign, torn or
too large is as good as none. The folder keeps to a budget; the least recently used go first.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

MAGIC = b"fireside cells 1\n"
LEFT_FREE_BYTES = 1 << 30
"""Of the disk: files that only save time never take the last of it."""
MOST_HEADER_BYTES = 64 << 20
_LENGTH = struct.Struct("<Q")
_NAME = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}\.cells")
_STALE_S = 3600.0


@dataclass(frozen=True, eq=False)
class KeptCells:
    """What a slot held: its tokens, and llama.cpp's bytes of their cells. `spelled` is the conversation
    in the tokens that were really written, and `texts` what its next prompt may then begin with."""

    tokens: list[int]
    cells: bytearray
    texts: tuple[str, ...] = ()
    spelled: tuple[int, ...] = ()


class CellFiles:
    """The files of one model in `folder`; `model` says in full what must be the same for its cells to fit.

    `most_bytes` is for the folder, whatever model its files are of. Nothing here raises: what cannot
    be kept or read back is read by the model again.
    """

    def __init__(self, folder: Path, model: str, most_bytes: int) -> None:
        self.folder, self._most_bytes = folder, most_bytes
        self._model = model
        self._mark = blake2b(model.encode(), digest_size=8).hexdigest()

    def read(self, conversation: str) -> KeptCells | None:
        """What is kept of a conversation; a file that is not whole is removed."""
        path = self._path(conversation)
        try:
            data = _read_private(path, self._most_bytes)
            found = None if data is None else _unpacked(data, self._model)
        except OSError:
            return None
        except Exception:  # Whatever is wrong with it, it is of no use.
            found = None
        with contextlib.suppress(OSError):
            os.utime(path) if found else path.unlink()
        return found

    def write(self, conversation: str, kept: KeptCells) -> bool:
        """Keep it in place of what was kept of the conversation; False where it cannot be."""
        size = len(kept.cells)
        temporary = self.folder / f".{os.getpid()}-{_name(conversation)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if size > self._most_bytes or shutil.disk_usage(self.folder).free < size + LEFT_FREE_BYTES:
                return False
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                for part in _packed(kept, self._model):
                    file.write(part)
            temporary.replace(self._path(conversation))
            self._trim()
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        return True

    def _path(self, conversation: str) -> Path:
        return self.folder / f"{_name(conversation)}-{self._mark}.cells"

    def _trim(self) -> None:
        """Remove the least recently used files until the rest fits, and what a killed program left."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                about = path.lstat()
                if _NAME.fullmatch(path.name):
                    found.append((about.st_mtime, about.st_size, path))
                elif path.name.startswith(".") and _age_s(about) > _STALE_S:
                    path.unlink()
        left = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if left <= self._most_bytes:
                return
            path.unlink(missing_ok=True)
            left -= size


def drop(folder: Path, conversation: str) -> None:
    """Remove what is kept of a conversation, of whatever model."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{_name(conversation)}-*.cells"):
            path.unlink(missing_ok=True)


def model_mark(path: Path, **loaded: Any) -> str:
    """What tells a model file and a way of loading it from others: its size, both its ends, and `loaded`."""
    with path.open("rb") as file:
        ends = file.read(1 << 20)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (1 << 20)))
        ends += file.read()
    digest = blake2b(ends, digest_size=16).hexdigest()
    return json.dumps({"size": size, "ends": digest, **loaded}, sort_keys=True, default=str)


def _name(conversation: str) -> str:
    return blake2b(conversation.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _age_s(about: os.stat_result) -> float:
    import time

    return time.time() - about.st_mtime


def _read_private(path: Path, most_bytes: int) -> bytearray | None:
    """A regular file of this user that nobody else could write. None for any other. OSError where there
    is none."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        about = os.fstat(file.fileno())
        is_private = stat.S_ISREG(about.st_mode) and not about.st_mode & 0o022
        if not is_private or about.st_uid != os.getuid() or about.st_size > most_bytes + MOST_HEADER_BYTES:
            return None
        data = bytearray(about.st_size)
        return data if file.readinto(data) == about.st_size else None


def _packed(kept: KeptCells, model: str) -> Iterator[Any]:
    tokens = array("i", kept.tokens).tobytes()
    spelled = array("i", kept.spelled).tobytes()
    crc = 0
    for part in (tokens, spelled, kept.cells):
        crc = zlib.crc32(part, crc)
    header = json.dumps(
        {
            "model": model,
            "tokens": len(tokens),
            "texts": kept.texts,
            "spelled": len(spelled),
            "cells": len(kept.cells),
            "crc": crc,
        }
    ).encode("ascii")
    yield MAGIC
    yield _LENGTH.pack(len(header))
    yield header
    yield tokens
    yield spelled
    yield kept.cells


def _unpacked(data: bytearray, model: str) -> KeptCells | None:
    start = len(MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    if not data.startswith(MAGIC) or length > MOST_HEADER_BYTES:
        return None
    header = json.loads(data[start : start + length].decode("ascii"))
    body = memoryview(data)[start + length :]
    sizes = header["tokens"], header["spelled"], header["cells"]
    if header["model"] != model or sum(sizes) != len(body) or zlib.crc32(body) != header["crc"]:
        return None
    tokens, spelled = array("i"), array("i")
    tokens.frombytes(body[: sizes[0]])
    spelled.frombytes(body[sizes[0] : sizes[0] + sizes[1]])
    body.release()
    del data[: start + length + sizes[0] + sizes[1]]
    return KeptCells(list(tokens), data, tuple(map(str, header["texts"])), tuple(spelled))
