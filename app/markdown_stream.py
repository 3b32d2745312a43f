"""Markdown on a terminal while it is being written.

The open block streams as plain text and is drawn anew, once, when it closes. Where the rows it
takes are not certain (resized, taller than the screen, doubtful widths), it stays as it is.
"""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from functools import cache
from typing import IO, TYPE_CHECKING

from app.terminal import sanitize

if TYPE_CHECKING:
    from app.repl.ink import Ink

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])\s")
_MAYBE_LIST_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)]?)?$")
_TAB = "    "


class MarkdownStream:
    """Writes one reply to the terminal `out`; pieces may split it anywhere."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._source = ""
        self._rows = _Rows(shutil.get_terminal_size())
        self._pending_gap = False

    def write(self, text: str) -> None:
        """Show `text`, and draw every block that it closes."""
        text = sanitize(text)
        if not self._source:
            text = text.lstrip("\n")
        # Only a line's end, or the first text after an empty line, can close a block.
        may_close = "\n" in text or self._source.endswith("\n\n")
        shown, self._source = len(self._source), self._source + text
        while may_close and (end := closed_block(self._source)) is not None:
            self._show(self._source[shown:end])
            self._settle(self._source[:end])
            self._source, shown = self._source[end:].lstrip("\n"), 0
        self._show(self._source[shown:])
        self._out.flush()

    def finish(self, *, draw: bool = True) -> None:
        """Close the last block; without `draw` it stays plain (a reply cut off by a person)."""
        if draw and self._source.strip():
            self._settle(self._source)
        elif self._rows.column:
            self._out.write("\n")
        self._source = ""
        self._out.flush()

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
            lines = [f"\x1b[K{line}\n" for line in render_block(block, size.columns).split("\n")]
            self._out.write(f"{up}\r{''.join(lines)}\x1b[J")
        elif rows.column:
            self._out.write("\n")
        self._rows = _Rows(size)
        self._pending_gap = True


def closed_block(source: str) -> int | None:
    """Where the first block of `source` ends, or None while it may still grow."""
    lines = source.splitlines(keepends=True)
    if not lines:
        return None
    if fence := _FENCE.match(lines[0]):
        return _fence_end(lines, fence.group(1))
    is_list = _LIST_ITEM.match(lines[0]) is not None
    end, inner = 0, ""
    for index, line in enumerate(lines):
        if inner:
            inner = "" if _closes(line, inner) else inner
        elif fence := _FENCE.match(line):
            if not is_list:
                return end
            inner = fence.group(1)
        elif line.strip() and index and not lines[index - 1].strip() and source[:end].strip():
            grows = is_list and (line[0] == " " or _LIST_ITEM.match(line) or _MAYBE_LIST_ITEM.match(line))
            if not grows:
                return end
        end += len(line)
    return None


def render_block(block: str, width: int) -> str:
    """One Markdown block as styled terminal text, without surrounding empty lines."""
    from app.tui.transcript.markdown import MarkdownText

    ink = _ink()
    text = MarkdownText(block, finished=True)
    # The cell at the right is for the mark of a broken line of code.
    text.layout(max(1, width - 1), ink.mode)
    while text.settle(1.0):
        text.layout(max(1, width - 1), ink.mode)
    return "\n".join(ink.body(row, width - 1) for row in text.rows).strip("\n")


@cache
def _ink() -> Ink:
    from app.config import resolve
    from app.glyphs import choose
    from app.ground import palette_on_ground
    from app.repl.ink import Ink

    settings = resolve({})
    palette, _ = palette_on_ground(settings.get("theme"))
    return Ink(palette, choose(bool(settings.get("ascii"))))


def _fence_end(lines: list[str], fence: str) -> int | None:
    end = len(lines[0])
    for line in lines[1:]:
        end += len(line)
        if line.endswith("\n") and _closes(line, fence):
            return end
    return None


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
