"""Vi's keys on the composer's text area: it does what `ViKeys` says, one undo for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events
from textual.widgets.text_area import Selection

from app.tui.vi.keys import Step, ViKeys

if TYPE_CHECKING:
    from app.tui.widgets.composer import Draft


class ViBindings:
    """Takes the keys of a draft. `changed` is called when the mode is another one, `page` scrolls."""

    def __init__(self, draft: Draft, changed: Callable[[], None], page: Callable[[int], None]) -> None:
        self._draft = draft
        self._changed = changed
        self._page = page
        self.keys = ViKeys()
        self.caret = 0
        """Of the visual mode: on the last character that is selected, not behind it."""

    @property
    def inserts(self) -> bool:
        """Whether keys write."""
        return self.keys.mode == "insert"

    @property
    def takes_redo(self) -> bool:
        """Whether ctrl+r is vi's now."""
        return not self.inserts and bool(self._draft.text)

    def reset(self) -> None:
        """A new message begins: keys write."""
        self.keys.reset()
        self._changed()

    def take(self, event: events.Key) -> bool:
        """Do what a key of vi does; False where it is for somebody else."""
        draft, before = self._draft, self.keys.mode
        char = (event.character or "") if event.is_printable else ""
        step = self.keys.press(event.key, char, draft.text, draft.caret)
        if step is None:
            # Outside the insert mode no letter is text.
            return bool(char) and not self.inserts
        self._do(step)
        if self.keys.mode != before:
            self._changed()
        return True

    def _do(self, step: Step) -> None:
        draft = self._draft
        match step.command:
            case "undo" | "redo" | "older" | "newer":
                for _ in range(step.times):
                    self._walk(step.command)
                step = Step(draft.caret)
            case "page up" | "page down":
                self._page(-1 if step.command == "page up" else 1)
                return
            case _:
                pass
        if step.is_edit:
            start, end = self._whole_words(step.start, step.end)
            draft.history.checkpoint()
            change = draft.put_back if step.is_old else draft.replace_range
            change(start, end, step.text)
            draft.history.checkpoint()
        text = draft.text
        caret = min(step.caret, len(text))
        self.caret = caret
        if self.keys.mode == "visual":
            start, end = self.keys.selected(caret)
            first, last = draft.location_of(start), draft.location_of(min(end, len(text)))
            draft.selection = Selection(first, last) if caret >= self.keys.anchor else Selection(last, first)
            return
        if self.keys.mode == "normal" and caret and (caret == len(text) or text[caret] == "\n"):
            caret -= text[caret - 1] != "\n"
        draft.move_cursor(draft.location_of(caret))

    def _walk(self, command: str) -> None:
        draft = self._draft
        match command:
            case "undo":
                draft.action_undo()
            case "redo":
                draft.action_redo()
            case "older":
                draft.action_older_or_up()
            case _:
                draft.action_newer_or_down()

    def _whole_words(self, start: int, end: int) -> tuple[int, int]:
        """A word that stands for a paste goes as a whole, or what it stands for would be lost."""
        if start == end:
            return start, end
        text = self._draft.text
        for word in self._draft.folds.words:
            at = text.find(word)
            while at >= 0:
                if at < end and start < at + len(word):
                    start, end = min(start, at), max(end, at + len(word))
                at = text.find(word, at + 1)
        return start, end
