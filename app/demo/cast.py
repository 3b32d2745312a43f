"""Records what a terminal is sent as an asciinema cast, version 2."""

from __future__ import annotations

import codecs
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Self

MAX_PAUSE_S = 3.0
"""A longer silence is told as one of this length."""


class Cast:
    """Writes `file` while the demo plays: a header, then `[seconds, "o", text]` a line.

    `clock` gives seconds that only grow. Raises OSError where the file cannot be written.
    """

    def __init__(
        self, file: Path, size: tuple[int, int], title: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path, self._size, self._title, self._clock = file, size, title, clock
        # A character may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last, self._at = clock(), 0.0
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._file = self._path.open("w", encoding="utf-8")
        columns, rows = self._size
        self._line({"version": 2, "width": columns, "height": rows, "title": self._title})
        self._last = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def hear(self, data: bytes) -> None:
        """Take what the terminal was just sent."""
        now = self._clock()
        self._at += min(now - self._last, MAX_PAUSE_S)
        self._last = now
        if text := self._decoder.decode(data):
            self._line([round(self._at, 3), "o", text])

    def _line(self, value: object) -> None:
        if self._file is not None:
            self._file.write(json.dumps(value) + "\n")
