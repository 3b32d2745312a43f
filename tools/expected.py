"""Files that became code with a person's approval while something else ran: these are no surprise."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from pathlib import Path

_JUST_NOW_S = 1.0
_waiting: list[set[Path]] = []
_last: dict[Path, float] = {}


def expect(path: Path) -> None:
    """Tell those who compare a workspace that `path` is written with an approval of its own."""
    _last[path] = time.monotonic()
    for one in _waiting:
        one.add(path)


@contextlib.contextmanager
def expecting() -> Generator[set[Path]]:
    """The paths that are told of meanwhile, and those of just now, which may not be written yet."""
    now = time.monotonic()
    for path in [path for path, at in list(_last.items()) if now - at > _JUST_NOW_S]:
        _last.pop(path, None)
    mine = set(_last)
    _waiting.append(mine)
    try:
        yield mine
    finally:
        _waiting[:] = [one for one in _waiting if one is not mine]
