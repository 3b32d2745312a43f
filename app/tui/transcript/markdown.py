"""One message of Markdown: source in, rows out. Placeholder layout of plain paragraphs for now."""

from __future__ import annotations

from app.terminal import sanitize
from app.tui.transcript.rows import COLOUR, CodeBlock, Mode, Row, Run


class MarkdownText:
    """A `Body` (see rows.py) whose source is Markdown."""

    def __init__(self, source: str = "", *, finished: bool = False) -> None:
        self._source = ""
        self._finished = False
        self._rows: list[Row] = []
        self._laid: tuple[int, Mode] | None = None
        if source:
            self.append(source)
        if finished:
            self.finish()

    @property
    def source(self) -> str:
        return self._source

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def rows(self) -> list[Row]:
        return self._rows

    def append(self, text: str) -> None:
        self._source += text

    def finish(self) -> None:
        self._finished = True

    def layout(self, width: int, mode: Mode = COLOUR) -> int:
        width = max(1, width)
        rows: list[Row] = []
        offset = 0
        for line in self._source.split("\n"):
            shown = sanitize(line).replace("\t", " ")
            for at in range(0, max(1, len(shown)), width):
                piece = shown[at : at + width]
                rows.append(Row((Run(piece, "text", offset + at),) if piece else (), offset + at))
            offset += len(line) + 1
        first = 0
        if self._laid == (width, mode):
            limit = min(len(rows), len(self._rows))
            while first < limit and rows[first] == self._rows[first]:
                first += 1
        self._laid = (width, mode)
        self._rows[first:] = rows[first:]
        return first

    def estimate(self, width: int) -> int:
        return 1 + self._source.count("\n") + len(self._source) // max(1, width)

    def release(self) -> None:
        self._rows.clear()
        self._laid = None

    def settle(self, budget: float) -> bool:
        return False

    def block_at(self, offset: int) -> tuple[int, int]:
        start = self._source.rfind("\n\n", 0, offset)
        end = self._source.find("\n\n", offset)
        return (start + 2 if start >= 0 else 0), (end if end >= 0 else len(self._source))

    def code_blocks(self) -> list[CodeBlock]:
        return []
