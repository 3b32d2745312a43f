"""Markdown on a terminal while it is being written.

The open block streams as plain text and is drawn anew, once, when it closes. Where the rows it
takes are not certain (resized, taller than the screen, doubtful widths), it stays as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

from app.terminal.output import sanitize

if TYPE_CHECKING:
    from app.markdown.sgr import TerminalStyle

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])\s")
_MAYBE_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)]?)?$")
_TAB = "    "


class MarkdownStream:
    """Writes one reply to the terminal `out`; pieces may split it anywhere."""

    def __init__(self, out: IO[str], ink: Callable[[], TerminalStyle]) -> None:
        """`ink` is asked for how a person wants it drawn, once the first block is."""
        self._out = out
        self._ink = cache(ink)
        self._lines: list[str] = []
        """Whole lines of the open block."""
        self._partial = ""
        self._block = _Block()
        self._rows = _Rows(shutil.get_terminal_size())
        self._pending_gap = False

    def write(self, text: str) -> None:
        """Show `text`, and draw every block that it closes."""
        for piece in sanitize(text).splitlines(keepends=True):
            self._take(piece)
        self._out.flush()

    def finish(self, *, draw: bool = True) -> None:
        """Close the last block; without `draw` it stays plain (a reply cut off by a person)."""
        source = "".join(self._lines) + self._partial
        if draw and source.strip():
            self._settle(source)
        elif self._rows.column:
            self._out.write("\n")
        self._begin()
        self._out.flush()

    def _begin(self) -> None:
        self._lines, self._partial, self._block = [], "", _Block()

    def _take(self, piece: str) -> None:
        """A line, or a part of one that goes on: only a line's end, or text after an empty line, closes."""
        if piece == "\n" and not self._lines and not self._partial:
            return
        line, is_whole = self._partial + piece, piece.endswith("\n")
        end: _End = None
        if is_whole:
            end = self._block.take(line)
        elif not self._partial and self._block.after_blank:
            end = replace(self._block).take(line)
        if end == "before":
            self._settle("".join(self._lines))
            self._begin()
            self._take(line)
            return
        self._show(piece)
        if is_whole:
            self._lines.append(line)
            self._partial = ""
        else:
            self._partial = line
        if end == "after":
            self._settle("".join(self._lines))
            self._begin()

    def _show(self, text: str) -> None:
        if not text:
            return
        if self._pending_gap:
            self._out.write("\n")
            self._pending_gap = False
        text = text.replace("\t", _TAB)
        self._rows.add(text)
        self._out.write(text)

    def _settle(self, block: str) -> None:
        rows, size = self._rows, shutil.get_terminal_size()
        if rows.certain and rows.size == size and rows.count < size.lines - 1:
            up = f"\x1b[{rows.count}A" if rows.count else ""
            # Line by line: some terminals keep what one sweep from the top corner erases.
            lines = [f"\x1b[K{line}\n" for line in render_block(block, size.columns, self._ink()).split("\n")]
            self._out.write(f"{up}\r{''.join(lines)}\x1b[J")
        elif rows.column:
            self._out.write("\n")
        self._rows = _Rows(size)
        self._pending_gap = True


_End: TypeAlias = Literal["before", "after"] | None


@dataclass(slots=True)
class _Block:
    """One block, line by line, each looked at once."""

    is_list: bool = False
    fence: str = ""
    inner: str = ""
    """The fence that is open inside of a list."""
    begun: bool = False
    has_text: bool = False
    after_blank: bool = False

    def take(self, line: str) -> _End:
        """Whether the block ends before this line, or with it; None while it may still grow."""
        first, self.begun = not self.begun, True
        if self.fence:
            return "after" if _closes(line, self.fence) else None
        fence = _FENCE.match(line)
        if first:
            self.is_list = _LIST_ITEM.match(line) is not None
            self.fence = fence.group(1) if fence else ""
        elif self.inner:
            self.inner = "" if _closes(line, self.inner) else self.inner
        elif fence:
            if not self.is_list:
                return "before"
            self.inner = fence.group(1)
        elif line.strip() and self.after_blank and self.has_text and not self._goes_on(line):
            return "before"
        self.after_blank = not line.strip()
        self.has_text = self.has_text or not self.after_blank
        return None

    def _goes_on(self, line: str) -> bool:
        return self.is_list and (
            line[0] == " " or bool(_LIST_ITEM.match(line) or _MAYBE_LIST_ITEM.match(line))
        )


def render_block(block: str, width: int, ink: TerminalStyle) -> str:
    """One Markdown block as styled terminal text, without surrounding empty lines."""
    from app.markdown.markdown import MarkdownText

    text = MarkdownText(block, finished=True)
    # The cell at the right is for the mark of a broken line of code.
    text.layout(max(1, width - 1), ink.mode)
    while text.settle(1.0):
        text.layout(max(1, width - 1), ink.mode)
    return "\n".join(ink.body(row, width - 1) for row in text.rows).strip("\n")


def _closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and set(text) == {fence[0]}


class _Rows:
    """How many rows below its first one the open block takes on a screen of `size`."""

    def __init__(self, size: os.terminal_size) -> None:
        self.size = size
        self.count = 0
        self.column = 0
        self.certain = True
        self._doubtful_line = False

    def add(self, text: str) -> None:
        for char in text:
            if char == "\n":
                self.count, self.column, self._doubtful_line = self.count + 1, 0, False
                continue
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            self._doubtful_line |= _has_doubtful_width(char)
            if self.column + width > self.size.columns:
                self.count, self.column = self.count + 1, 0
            self.column += width
            if self._doubtful_line and 2 * self.column > self.size.columns:
                self.certain = False


def _has_doubtful_width(char: str) -> bool:
    if char < "\u0300":
        return unicodedata.east_asian_width(char) == "A"
    wide = unicodedata.east_asian_width(char)
    return char > "\U0001f000" or wide == "A" or unicodedata.category(char) in ("Mn", "Me", "Mc", "Cf")
