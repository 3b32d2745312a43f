"""Whether keys wrote the first character of the line that is edited: only then it may be a command."""

from __future__ import annotations

from prompt_toolkit.buffer import Buffer

from app.frontend.draft import Beginning


class Beginnings:
    """Follows a buffer by its changes: the line being written, and those of the history, which keys wrote."""

    def __init__(self) -> None:
        self.pasting = False
        """Whether what changes is a paste."""
        self._of: dict[int, Beginning] = {}
        self._line = 1
        self._text = ""
        self._came = ""
        """Of the last change, what came to stand at the beginning."""

    @property
    def typed(self) -> bool:
        """Whether keys wrote the first character."""
        return self._here.typed

    def reset(self, text: str = "", *, typed: bool = True) -> None:
        """Another line begins, with this text."""
        self._of, self._line, self._text = {}, 1, text
        self._here.reset(typed=typed)

    def changed(self, buffer: Buffer) -> None:
        """The text is another one, by an edit that ends at the caret, or because another line is shown."""
        # Counted from the end: older lines come to be known while somebody writes.
        line = len(buffer._working_lines) - buffer.working_index  # pyright: ignore[reportPrivateUsage]
        before, self._text = self._text, buffer.text
        if line != self._line:
            self._line = line
            return
        grown = len(buffer.text) - len(before)
        start = buffer.cursor_position - max(grown, 0)
        is_first = not buffer.text[:start].strip()
        self._came = buffer.text[start : buffer.cursor_position] if is_first else ""
        if self.pasting:
            self._here.pasted(first=bool(self._came.strip()))
        elif is_first or before.lstrip()[:1] != buffer.text.lstrip()[:1]:
            self._here.uncovered()

    def inserted(self, _: Buffer) -> None:
        """What the last change brought was written at the caret: no undo, and nothing that was cut before."""
        if not self.pasting:
            self._here.written(self._came)

    @property
    def _here(self) -> Beginning:
        return self._of.setdefault(self._line, Beginning())
