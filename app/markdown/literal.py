"""Text that grows, and the plainest of it: no markup, its own line breaks, long lines wrapped at blanks.

Complete lines are laid out once, so a growing output costs what its last piece costs.
"""

from __future__ import annotations

import re

from app.markdown.clean import Cleaner
from app.markdown.rows import COLOUR, CodeBlock, Mode, Row, Run
from app.markdown.wrap import breaks, run_starts, slice_runs

TAB = "    "
_FREE = 1_000
"""Characters up to which a line is laid out again with each piece; a longer one, when it grew by a share."""
_SHARE = 8
_PIECES = re.compile(r"\t|[^\t]+")


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


class LiteralText(GrowingText):
    """A `Body` (see rows.py) whose source is shown as it is."""

    __slots__ = (
        "_cleaner",
        "_closed",
        "_laid",
        "_lines",
        "_pending",
        "_starts",
    )

    def __init__(self, source: str = "", *, finished: bool = False) -> None:
        super().__init__(source, finished)
        self._pending = [source]
        self._closed = False
        self._cleaner = Cleaner()
        self._lines: list[tuple[str, int]] = [("", 0)]
        self._laid: tuple[int, Mode] | None = None
        self._starts: list[int] = []

    def append(self, text: str) -> None:
        self._chunks.append(text)
        self._pending.append(text)

    def restart_line(self) -> None:
        """The last line is written again: what stood in it is gone."""
        self._read()
        _, offset = self._lines[-1]
        self._chunks = [self.source[: self._cleaner.source_offset(offset)]]
        self._cleaner.cut(offset)
        self._lines[-1] = ("", offset)
        self._pending.append("")  # the rows are others, whether more comes or not

    def layout(self, width: int, mode: Mode = COLOUR) -> int:
        if self._laid == (width, mode) and (self._is_read or self._can_wait()):
            return len(self._rows)
        self._read()
        if self._laid != (width, mode):
            self._laid = (width, mode)
            self._rows.clear()
            self._starts.clear()
        # the last line that was laid out may have grown
        line = max(0, len(self._starts) - 1)
        first = self._starts[line] if self._starts else 0
        old = self._rows[first:]
        del self._rows[first:], self._starts[line:]
        for text, offset in self._shown(line):
            self._starts.append(len(self._rows))
            self._lay_line(text, offset, max(1, width))
        new = self._rows
        for row in old:
            if first >= len(new) or new[first] != row:
                break
            new[first] = row
            first += 1
        return first

    @property
    def _is_read(self) -> bool:
        """Whether nothing came since the text was last laid out."""
        return not self._pending and self._closed == self._finished

    def _can_wait(self) -> bool:
        """Whether what came is too little for laying out all of a long last line once more."""
        line = len(self._lines[-1][0])
        if (
            self._finished
            or not self._pending
            or line <= _FREE
            or any("\n" in text for text in self._pending)
        ):
            return False
        return sum(map(len, self._pending)) * _SHARE < line

    def release(self) -> None:
        self._rows.clear()
        self._starts.clear()
        self._laid = None

    def settle(self, budget: float) -> bool:
        return False

    def block_at(self, offset: int) -> tuple[int, int]:
        source = self.source
        start = source.rfind("\n\n", 0, max(0, offset))
        end = source.find("\n\n", max(0, offset))
        return (start + 2 if start >= 0 else 0), (len(source) if end < 0 else end)

    def code_blocks(self) -> list[CodeBlock]:
        return []

    def _read(self) -> None:
        text = "".join(self._pending)
        self._pending.clear()
        ends = self._finished and not self._closed
        self._closed = self._finished
        if not text and not ends:
            return
        last, offset = self._lines[-1]
        lines = (last + self._cleaner.feed(text, last=ends)).split("\n")
        del self._lines[-1]
        for line in lines:
            self._lines.append((line, offset))
            offset += len(line) + 1

    def _shown(self, line: int) -> list[tuple[str, int]]:
        """Lines from `line` on; the empty one after a last newline is none."""
        lines = self._lines[line:]
        return lines[:-1] if lines and not lines[-1][0] and len(self._lines) > 1 else lines

    def _lay_line(self, line: str, start: int, width: int) -> None:
        runs = [
            Run(TAB) if piece[0] == "\t" else Run(piece[0], "text", offset + piece.start())
            for text, offset in self._cleaner.pieces(line, start)
            for piece in _PIECES.finditer(text)
        ]
        at = self._cleaner.source_offset(start)
        if len(runs) == 1 and runs[0].offset >= 0:
            text, _, offset, *_ = runs[0]
            self._rows += [
                Row((Run(text[first:end], "text", offset + first),) if end > first else (), offset + first)
                for first, end in breaks(text, width)
            ]
            return
        starts = run_starts(runs)
        for first, end in breaks("".join([run.text for run in runs]), width):
            row = slice_runs(runs, starts, first, end)
            at = max(at, next((run.offset for run in row if run.offset >= 0), at))
            self._rows.append(Row(tuple(row), at))
