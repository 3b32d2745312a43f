"""The log view: the end of the engine's log, without anything that a terminal would obey."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import work
from textual.binding import Binding

from app import paths
from app.terminal.output import sanitize
from app.terminal.text_rows import wrapped
from app.tui.screens.pages import Reader
from app.tui.shell import Shell
from app.tui.widgets.cells import Span
from app.tui.widgets.rows import ListRow

FILES = ("engine.log", "native.log", "screen.log")
TAIL_BYTES = 256 * 1024
MAX_LINES = 2000
_EVIL = re.compile(r"\b(error|failed|fatal|abort)", re.IGNORECASE)
_DOUBT = re.compile(r"\bwarn", re.IGNORECASE)


def tail(path: Path, limit: int = TAIL_BYTES) -> list[str]:
    """The last lines of a log, whole ones, printable. Nothing where there is no log."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - limit)
            file.seek(start)
            raw = file.read(limit)
    except OSError:
        return []
    text = sanitize(raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n"))
    lines = text.expandtabs(4).split("\n")
    whole = lines[1:] if start and len(lines) > 1 else lines
    while whole and not whole[-1].strip():
        whole.pop()
    return whole[-MAX_LINES:]


def log_row(line: str) -> Span:
    """A line of a log, told by its words."""
    if _EVIL.search(line):
        return Span(line, "error")
    return Span(line, "warning" if _DOUBT.search(line) else "text")


class LogScreen(Reader):
    """The log of the engine; tab goes to the other logs, r reads again."""

    WIDTH = 120
    BINDINGS: ClassVar[Any] = [
        Binding("r", "read", show=False),
        Binding("tab", "turn(1)", show=False, priority=True),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
    ]

    def __init__(self, shell: Shell, folder: Path | None = None) -> None:
        hints = (("r", "reloads"), ("tab", "other logs"), ("esc", "closes"))
        super().__init__(shell, FILES[0], hints)
        self._folder = folder or paths.state_dir()
        self._number = 0
        self._lines: list[str] = []
        self._read_once = False

    def on_mount(self) -> None:
        self.action_read()

    def action_turn(self, step: int) -> None:
        self._number = (self._number + step) % len(FILES)
        self.heading = FILES[self._number]
        self._show_head()
        self.action_read()

    @work(exclusive=True, group="log")
    async def action_read(self) -> None:
        """Read the end of the log and go to it."""
        path = self._folder / FILES[self._number]
        self._lines = await asyncio.to_thread(tail, path)
        self._read_once = True
        if self.is_attached:
            self.resized()
            self.list.jump(end=True)

    def page_rows(self) -> Iterable[ListRow]:
        if not self._lines:
            words = "This log is empty." if self._read_once else ""
            return [ListRow((Span(words, bold=True),), indent=0)]
        width = max(10, self.inner_width)
        rows: list[ListRow] = []
        for line in self._lines:
            span = log_row(line)
            rows += [ListRow((Span(part, span.role),), indent=0) for part in _broken(line, width)]
        return rows


def _broken(line: str, width: int) -> list[str]:
    return [line] if cell_len(line) <= width else wrapped(line, width)
