"""The chat in words alone, for dumb terminals, screen readers and pipes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import IO

from app.commands.face import Rows
from app.frontend.question import Question, body_of, fact_rows
from app.repl.page import (
    CARD_ROWS,
    HOW_TO_ANSWER,
    LEAST_PAGE_ROWS,
    ToolRow,
    Unread,
    end_of,
    offer_rows,
)
from app.terminal.glyphs import ASCII
from app.terminal.output import notify, one_line, sanitize

PLAIN_CELLS = 120
"""Where rows of a card break: what is read aloud is not as wide as a screen."""


class PlainPage:
    """The page as words: no colours, no drawing, nothing that is written twice."""

    def __init__(self, out: IO[str], *, show_thinking: bool = False, piped: bool = False) -> None:
        """Without a person (`piped`) only the conversation is written, and errors go to standard error."""
        self.clear_row: Callable[[], None] = lambda: None
        """Called before a row begins."""
        self._out = out
        self._piped = piped
        self._show_thinking = show_thinking
        self._name = "model"
        self._open = ""
        self._states: set[str] = set()
        self._unread = Unread()

    def user(self, text: str, note: str = "") -> None:
        self._text(f"you{f' ({one_line(note)})' if note else ''}: {text}")

    def begin(self, name: str, note: str = "") -> None:
        self._name = one_line(name)
        if note:
            self._line(f"{self._name} ({note})")

    def answer(self, text: str) -> None:
        self._stream("answer", f"{self._name}: ", text)

    def end_answer(self) -> None:
        self._close()

    def think(self, text: str) -> None:
        if self._show_thinking:
            self._stream("thought", "thought: ", text)

    def end_thought(self, seconds: float | None) -> None:
        if self._show_thinking:
            self._close()
        else:
            self._line("thought" if seconds is None else f"thought: {seconds:.1f} s")

    def tool(self, row: ToolRow) -> None:
        target = f" {row.target}" if row.target else ""
        self._line(f"tool: {row.name}{target}, {row.outcome}{f': {row.summary}' if row.summary else ''}")
        for line in end_of(row.detail):
            self._line(line, "  ")

    def card(self, question: Question, note: str) -> None:
        word = "approve?" if question.kind == "call" else "answer?"
        subject = question.tool if question.kind == "call" else question.message
        how = f" ({HOW_TO_ANSWER})" if question.kind == "call" and not self._piped else ""
        self._line(f"{word} {subject}{how}")
        self._unread = Unread(question.id, body_of(question, PLAIN_CELLS, ASCII))
        self.read_on(self._unread.count if self._piped else 0)
        for row in [*fact_rows(question, PLAIN_CELLS, ASCII), *offer_rows(question, PLAIN_CELLS)]:
            self._line("".join(text for text, _ in row), "  ")
        if note:
            self._line(note, "  ")

    def unread(self, question: Question) -> int:
        return self._unread.count if self._unread.question_id == question.id else 0

    def read_on(self, count: int = 0) -> None:
        page = max(LEAST_PAGE_ROWS, shutil.get_terminal_size().lines - CARD_ROWS)
        for row in self._unread.take(count or page):
            self._line("".join(text for text, _ in row), "  ")

    def state(self, text: str) -> None:
        # A figure that changes would be written again and again: only the word is told, once.
        word = text.split(" ")[0]
        if self._piped:
            return
        if not word:
            self._states.clear()
        elif word == "loading" and word not in self._states:
            self._states.add(word)
            self._line("loading the model")

    def stats(self, text: str) -> None:
        if not self._piped:
            self._line(text)

    def note(self, text: str, *, warning: bool = False) -> None:
        if self._piped:
            notify(text)
        else:
            self._line(f"note: {text}")

    def news(self, text: str, *, error: bool = False) -> None:
        if error and self._piped:
            self._close()
            notify(text)
        elif text.strip():
            # More lines than one are told as such: none of them is a line of the chat.
            first, *more = (f"error: {text}" if error else text).split("\n")
            self._line(first)
            for line in more:
                self._line(line, "  ")

    def table(self, title: str, body: Rows | str) -> None:
        if title:
            self._line(f"{title}:")
        if isinstance(body, str):
            self._text(body)
            return
        for row in body:
            self._line(", ".join(cell for cell in row if cell), "  ")

    def facts(self, name: str, facts: Sequence[str]) -> None:
        if not self._piped:
            self._line(", ".join([name, *facts]))

    def rest(self) -> None:
        self._close()

    # ---- parts -----------------------------------------------------------------------------

    def _stream(self, kind: str, prefix: str, text: str) -> None:
        text = sanitize(text)
        if self._open != kind:
            self._close()
            text = text.lstrip("\n")
            if not text:
                return
            self.clear_row()
            self._out.write(prefix)
            self._open = kind
        self._out.write(text)
        self._out.flush()

    def _close(self) -> None:
        if self._open:
            self._open = ""
            self._out.write("\n")
            self._out.flush()

    def _line(self, text: str, indent: str = "") -> None:
        self._text(f"{indent}{one_line(text)}")

    def _text(self, text: str) -> None:
        self._close()
        self.clear_row()
        self._out.write(f"{sanitize(text).rstrip()}\n")
        self._out.flush()
