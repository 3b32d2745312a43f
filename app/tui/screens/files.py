"""The `@` picker: files of the project by a part of their path. What git ignores is not offered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from textual import work

from app.tui.program.project_files import MOST, project_files
from app.tui.shell import Shell
from app.tui.widgets.cells import Span
from app.tui.widgets.picker import Entry, Picker

Look = Callable[[Path], Sequence[str]]


class FilesPicker(Picker):
    """Choose a file below a folder. Gives back its path relative to it, or None.

    The disk is read in a thread, and no more than `MOST` files of it.
    """

    WIDTH = 104

    def __init__(self, shell: Shell, folder: Path, *, query: str = "", look: Look = project_files) -> None:
        super().__init__(
            shell,
            "files",
            hints=(("enter", "attaches"), ("esc", "closes")),
            placeholder="a part of the path",
            query=query,
            empty="Looking through the folder",
        )
        self._folder = folder
        self._look = look

    def on_mount(self) -> None:
        self._read()

    @work(exclusive=True, group="files")
    async def _read(self) -> None:
        found = await asyncio.to_thread(self._look, self._folder)
        self._empty = "There are no files in this folder."
        self.give([Entry(path, path) for path in found])
        if len(found) >= MOST:
            self.preview.show([])
            self.filter.say((Span(f"the first {MOST:,} files", "warning"),))
