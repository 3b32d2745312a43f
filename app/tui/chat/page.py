"""The page of one chat on the one transcript: what is not shown grows all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.tui.transcript.entry import Entry

if TYPE_CHECKING:
    from app.tui.transcript.view import Position, Transcript


class ChatPage:
    """Passes on what concerns the screen while its chat is `shown`."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.shown = False
        self._position: Position | None = None
        self._closed = False

    def show(self, entries: Sequence[Entry]) -> None:
        """Put the chat's entries on the screen, where the person stood."""
        self.shown = True
        self.transcript.replace_all(entries, self._position)

    def replace(self, entries: Sequence[Entry], *, keep_place: bool = False) -> None:
        """Other entries altogether."""
        if self.shown:
            self.transcript.replace_all(entries, self.transcript.position if keep_place else None)

    def leave(self) -> None:
        """Another chat takes the screen."""
        if self.shown:
            self._position = self.transcript.position
            self.shown = False

    def close(self) -> None:
        """There is no screen any more: entries only grow."""
        self.shown = False
        self._closed = True

    def add(self, entry: Entry) -> None:
        """One more entry, at the end."""
        if self.shown:
            self.transcript.add(entry)

    def discard(self, entry: Entry) -> None:
        if self.shown:
            self.transcript.discard(entry)

    def append_text(self, entry: Entry, delta: str) -> None:
        """More of the text that streams into an entry."""
        if self._closed:
            entry.grow(delta)
        else:
            self.transcript.append_text(entry, delta)

    def finish(self, entry: Entry) -> None:
        """Nothing more streams into an entry."""
        if self._closed:
            entry.finish()
        else:
            self.transcript.finish(entry)

    def changed(self, entry: Entry) -> None:
        """Attributes of an entry are others."""
        if not self._closed:
            self.transcript.changed(entry)

    def flush(self) -> None:
        """What waits for the next frame is in its entry now."""
        if not self._closed:
            self.transcript.flush()

    def fold_thought(self, entry: Entry) -> bool:
        """Fold a thought whose answer begins."""
        return False if self._closed else self.transcript.fold_thought(entry)
