"""What Fireside's own tools wrote while something else ran: with an approval each, so it is no surprise."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Generator
from pathlib import Path

_MOST_FILES = 200
_MOST_BYTES = 16 << 20

Written = dict[Path, str]
"""Files by their real path, with the SHA-256 of what was written last."""

_waiting: list[Written] = []


def expect(path: Path, data: bytes) -> None:
    """Tell those who compare a workspace that `data` is about to be written to the real path `path`."""
    for one in _waiting:
        one[path] = hashlib.sha256(data).hexdigest()


@contextlib.contextmanager
def expecting() -> Generator[Written]:
    """What is told of meanwhile."""
    mine: Written = {}
    _waiting.append(mine)
    try:
        yield mine
    finally:
        _waiting[:] = [one for one in _waiting if one is not mine]


def is_expected(path: Path, written: Written) -> bool:
    """Whether the file at `path`, or each file of the folder there, is exactly what was written."""
    if not any(path == one or path in one.parents for one in written):
        return False
    todo, count = [path], 0
    while todo:
        one = todo.pop()
        count += 1
        try:
            found = os.lstat(one)
            if stat.S_ISDIR(found.st_mode):
                todo += [one / name for name in os.listdir(one)]
            elif _digest(one, found) != written.get(one):
                return False
        except OSError:
            return False
        if count > _MOST_FILES:
            return False
    return True


def _digest(path: Path, found: os.stat_result) -> str:
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
        return "of no file that is compared"
    return hashlib.sha256(path.read_bytes()).hexdigest()
