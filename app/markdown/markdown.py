"""One message of Markdown: source in, rows out, at a cost per token that does not grow.

Pieces are only kept when they arrive; they are parsed and laid out together when rows are asked for.
"""

from __future__ import annotations

from bisect import bisect_right
from time import perf_counter
from typing import NamedTuple

from app.markdown.clean import Cleaner, clean
from app.markdown.code import advance_code, lay_code
from app.markdown.grammar import parser
from app.markdown.highlight import load_lexers
from app.markdown.inline import Meter
from app.markdown.layout import Layout, LayoutContext, lay_text
from app.markdown.leaves import Leaf
from app.markdown.literal import GrowingText
from app.markdown.resume import Document, parse_whole
from app.markdown.rows import COLOUR, CodeBlock, Mode, Row
from app.markdown.tables import lay_table

_UNUSED = Cleaner()
_FREE = 1_000
"""Characters that one layout may read without making the next one wait."""
_SHARE = 8
"""A layout that read more comes again when the text has grown by a part of what it read."""


def warm() -> None:
    """Load what the first message and the first block of code need, so that neither waits (60 ms).

    Safe in any thread.
    """
    parser()
    load_lexers()


class _Place(NamedTuple):
    """Where the rows of a leaf stand in the message."""

    start: int
    gap: int
    height: int


class MarkdownText(GrowingText):
    """A `Body` (see rows.py) whose source is Markdown."""

    __slots__ = (
        "_cleaner",
        "_closed",
        "_dirty",
        "_document",
        "_meter",
        "_page",
        "_pending",
        "_places",
    )

    def __init__(self, source: str = "", *, finished: bool = False) -> None:
        # Ten thousand of these are made at once: what only parsing needs comes with it.
        super().__init__(source, finished)
        self._pending: list[str] | None = None
        self._closed = False
        self._document: Document | None = None
        self._cleaner = _UNUSED
        self._page: tuple[int, Mode] | None = None
        self._dirty = 0
        self._places: list[_Place] = []
        self._meter = Meter()

    @property
    def read_characters(self) -> int:
        """Characters the block parser was given so far: what a token costs, on any machine."""
        return self._document.read if self._document else 0

    @property
    def last_work(self) -> int:
        """Characters that the last layout gave to parsers, and what else cost as much."""
        return self._meter.characters

    def append(self, text: str) -> None:
        self._chunks.append(text)
        if self._closed:
            # Late text is read with the rest, as a whole.
            self._closed, self._document, self._pending = False, None, None
            self._forget_rows()
        elif self._pending is not None:
            self._pending.append(text)

    def leaves(self) -> list[Leaf]:
        """The blocks of the message, first to last; offsets in them are those of the cleaned text."""
        return self._parsed().leaves

    def layout(self, width: int, mode: Mode = COLOUR) -> int:
        width = max(1, width)
        if self._page == (width, mode) and self._can_wait():
            return len(self._rows)
        read = self.read_characters
        self._meter.characters = 0
        document = self._parsed()
        self._meter.characters += 4 * max(0, len(document.leaves) - self._dirty)
        if self._page != (width, mode):
            self._page = (width, mode)
            self._forget_rows()
        page = LayoutContext(width, mode, self._cleaner, document.references, self._meter)
        changed = self._place(document.leaves, page)
        self._dirty = len(document.leaves)
        self._meter.characters += document.read - read
        return changed

    def _can_wait(self) -> bool:
        """Whether what came since the last layout is too little for the work that another one is.

        So the work on a text is a multiple of its length, whatever is open in it.
        """
        if self._finished or not self._pending or self._meter.characters <= _FREE:
            return False
        if self._document is None or self._dirty < len(self._document.leaves):
            return False
        return sum(map(len, self._pending)) * _SHARE < self._meter.characters

    def release(self) -> None:
        self._forget_rows()
        self._page = None
        for leaf in self._document.leaves if self._document else ():
            leaf.laid = None

    def settle(self, budget: float) -> bool:
        deadline = perf_counter() + budget
        for index, leaf in enumerate(self._document.leaves if self._document else ()):
            if leaf.kind != "fence":
                continue
            stale, more = advance_code(leaf, deadline)
            if stale:
                self._dirty = min(self._dirty, index)
            if more:
                return True
        return False

    def block_at(self, offset: int) -> tuple[int, int]:
        return self._block(self._leaf_starts(), offset)

    def _leaf_starts(self) -> list[int]:
        return [self._cleaner.source_offset(leaf.offset) for leaf in self._parsed().leaves]

    def _block(self, starts: list[int], offset: int) -> tuple[int, int]:
        index = bisect_right(starts, offset)
        start = starts[index - 1] if index else 0
        end = starts[index] if index < len(starts) else len(self.source)
        return start, start + len(self.source[start:end].rstrip())

    def code_blocks(self) -> list[CodeBlock]:
        found: list[CodeBlock] = []
        starts = self._leaf_starts()
        for leaf, at in zip(self._parsed().leaves, starts, strict=True):
            if leaf.kind not in ("fence", "indented"):
                continue
            start, end = self._block(starts, at)
            code = "".join(
                [f"{self._source_line(*line)}\n" for line in zip(leaf.lines, leaf.line_offsets, strict=True)]
            )
            language = leaf.info.split()[0] if leaf.info else ""
            found.append(CodeBlock(language, code, start, end, leaf.kind == "fence"))
        return found

    def _source_line(self, line: str, offset: int) -> str:
        start = self._cleaner.source_offset(offset)
        end = self._cleaner.source_offset(offset + len(line))
        raw = self.source[start:end].removesuffix("\r")
        # A tab that stands partly for the indent of a list is blanks in the code.
        return raw if clean(raw) == line else line

    def _parsed(self) -> Document:
        """The document with all that has arrived; notes the first leaf that changed."""
        if self._document is None:
            self._cleaner = Cleaner()
            if self._finished:
                return self._parse_at_once()
            self._document = Document()
            self._pending = [self.source]
        document = self._document
        if self._pending:
            text = self._cleaner.feed("".join(self._pending))
            self._pending.clear()
            self._dirty = min(self._dirty, document.append(text))
        if self._finished and not self._closed:
            self._closed = True
            self._dirty = min(self._dirty, document.append(self._cleaner.feed("", last=True)))
            self._dirty = min(self._dirty, document.finish(clean(self.source)))
        return document

    def _parse_at_once(self) -> Document:
        self._closed = True
        self._document = parse_whole(self._cleaner.feed(self.source, last=True))
        self._dirty = 0
        return self._document

    def _forget_rows(self) -> None:
        self._rows.clear()
        self._places.clear()
        self._dirty = 0

    def _place(self, leaves: list[Leaf], page: LayoutContext) -> int:
        """Lay out the leaves from the first dirty one on; the first row that changed."""
        rows, places = self._rows, self._places
        first = min(self._dirty, len(places))
        at = sum(places[first - 1]) if first else 0
        changed: int | None = None
        for index in range(first, len(leaves)):
            leaf = leaves[index]
            same = _lay(leaf, page)
            new = leaf.laid.rows if isinstance(leaf.laid, Layout) else []
            place = _Place(at, leaf.gap, len(new))
            at = sum(place)
            old = places[index] if index < len(places) else None
            if changed is None and old == place and same == len(new):
                continue
            if changed is None:
                in_place = old is not None and (old.start, old.gap) == (place.start, place.gap)
                kept = min(same, old.height) if in_place and old else 0
                changed = place.start + (place.gap + kept if kept else 0)
                del rows[changed:], places[index:]
                rows += new[kept:] if kept else _with_gap(leaf, new)
            else:
                rows += _with_gap(leaf, new)
            places.append(place)
        if changed is None and at < len(rows):
            changed = at
            del rows[at:]
        del places[len(leaves) :]
        return len(rows) if changed is None else changed


def _with_gap(leaf: Leaf, rows: list[Row]) -> list[Row]:
    return [Row((), rows[0].offset)] * leaf.gap + rows if rows else []


def _lay(leaf: Leaf, page: LayoutContext) -> int:
    match leaf.kind:
        case "fence" | "indented":
            return lay_code(leaf, page)
        case "table":
            return lay_table(leaf, page)
        case "definition":
            leaf.laid = None
            return 0
        case _:
            return lay_text(leaf, page)
