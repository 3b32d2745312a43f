"""That a prompt is being read, on standard error: only on a terminal, and gone with the first token."""

from __future__ import annotations

import sys

from app.terminal.figures import reading
from app.terminal.output import is_terminal, takes_styles

_LONG = 512
"""Tokens from which a terminal that cannot rewrite a row is told too."""


class ReadingProgress:
    """What a person at the terminal sees between the question and the first word of its answer."""

    def __init__(self) -> None:
        self._rewrites = takes_styles(sys.stderr)
        self._tells = is_terminal(sys.stderr)
        self._shown = ""

    def __enter__(self) -> ReadingProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def show(self, done: int, total: int, reused: int) -> None:
        """So many of `total` tokens are read, `reused` of them were known."""
        if not self._tells or done >= total:
            return
        words = reading(done, total, reused).capitalize()
        if self._rewrites and words != self._shown:
            sys.stderr.write(f"\r\x1b[K{words}")
        elif not self._rewrites and not self._shown and total - reused > _LONG:
            sys.stderr.write(f"{words}\n")
        sys.stderr.flush()
        self._shown = words

    def end(self) -> None:
        """Something was written, or nothing will be."""
        if self._shown and self._rewrites:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._shown = ""
