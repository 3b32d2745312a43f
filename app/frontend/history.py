"""The messages a person sent before, for the arrow keys of the composer. A private chat leaves none."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from app import paths

MOST = 1000
MAX_BYTES = 1 << 20


class History:
    """Newest last. `file` keeps it, one JSON text a line; None keeps it in memory.

    `walk` goes through those that begin with a prefix; what was being typed is the end of the walk.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries: list[str] | None = None
        self._place: int | None = None
        self._prefix = ""
        self._draft = ""

    @property
    def entries(self) -> list[str]:
        """All that is kept, oldest first."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    @property
    def walking(self) -> bool:
        """Whether an older message is shown."""
        return self._place is not None

    def add(self, text: str, *, keep: bool = True) -> None:
        """Remember a message; `keep` writes it to the file too."""
        self.end()
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        del self.entries[:-MOST]
        if keep and self._file is not None:
            self._append(self._file, text)

    def older(self, draft: str, prefix: str) -> str | None:
        """The message before the one shown that begins with `prefix`; None at the oldest."""
        if self._place is None:
            self._draft, self._prefix = draft, prefix
        start = len(self.entries) if self._place is None else self._place
        for place in range(start - 1, -1, -1):
            if self.entries[place].startswith(self._prefix) and self.entries[place] != draft:
                self._place = place
                return self.entries[place]
        return None

    def newer(self) -> str | None:
        """The message after the one shown, at last the draft; None where nothing is walked through."""
        if self._place is None:
            return None
        for place in range(self._place + 1, len(self.entries)):
            if self.entries[place].startswith(self._prefix):
                self._place = place
                return self.entries[place]
        self._place = None
        return self._draft

    def end(self) -> None:
        """The walk is over: somebody typed."""
        self._place = None

    def _read(self) -> list[str]:
        if self._file is None or not paths.is_own(self._file):
            return []
        found: list[str] = []
        try:
            with self._file.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - MAX_BYTES))
                lines = file.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return []
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, str):
                    found.append(entry)
        return found[-MOST:]

    def _append(self, file: Path, text: str) -> None:
        # A history that cannot be written is no reason to lose the message.
        with contextlib.suppress(OSError):
            paths.touch_private(file)
            with file.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(text) + "\n")


def history_file() -> Path:
    """Where the full-screen face keeps what was sent."""
    return paths.state_dir() / "history.jsonl"
