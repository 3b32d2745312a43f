"""Files that became code with a person's approval while something else ran: these are no surprise."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

_waiting: list[set[Path]] = []


def expect(path: Path) -> None:
    """Tell those who compare a workspace that `path` is written with an approval of its own."""
    for one in _waiting:
        one.add(path)


@contextlib.contextmanager
def expecting() -> Generator[set[Path]]:
    """The paths that are told of meanwhile."""
    mine: set[Path] = set()
    _waiting.append(mine)
    try:
        yield mine
    finally:
        _waiting[:] = [one for one in _waiting if one is not mine]
