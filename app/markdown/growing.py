"""A text that grows: what every body keeps of its source, whatever it makes of it."""

from __future__ import annotations

from app.markdown.rows import Row


class GrowingText:
    """The source of a `Body` (see rows.py), kept in pieces until somebody asks for all of it."""

    __slots__ = ("_chunks", "_finished", "_rows")

    def __init__(self, source: str, finished: bool) -> None:
        self._chunks = [source]
        self._finished = finished
        self._rows: list[Row] = []

    @property
    def source(self) -> str:
        """Everything appended so far, as it was."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0]

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def rows(self) -> list[Row]:
        return self._rows

    def finish(self) -> None:
        self._finished = True

    def estimate(self, width: int) -> int:
        source = self.source
        return 1 + source.count("\n") + len(source) // max(1, width)
