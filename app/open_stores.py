"""Which stores of chats this process has open, so that nothing here opens their files beside SQLite.

Closing such a descriptor would give up SQLite's locks, and writing through one would destroy the chats.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

from app import paths

STORE_FILE = "chats.db"
SIDES = ("-wal", "-shm", "-journal")
"""The endings of SQLite's own files beside a store."""
_held: Counter[Path] = Counter()


def hold(path: Path) -> None:
    """A store is open from now on; several times at once too."""
    _held[path] += 1


def let_go(path: Path) -> None:
    """One opening of a store has ended."""
    _held[path] -= 1


def open_files() -> list[Path]:
    """The files of the stores that are open in this process, there or not."""
    stores = [path for path, count in _held.items() if count > 0]
    return [Path(f"{store}{side}") for store in stores for side in ("", *SIDES)]


def refuse(file: str | os.PathLike[str]) -> None:
    """OSError where `file` is a part of a store, by whatever name. Call it before opening, never after."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return
    usual = [Path(f"{paths.data_dir() / STORE_FILE}{side}") for side in ("", *SIDES)]
    for part in {*open_files(), *usual}:
        try:
            is_part = os.path.samestat(found, part.stat())
        except OSError:
            continue
        if is_part:
            raise OSError(errno.EBUSY, "it is part of the store of your chats")
