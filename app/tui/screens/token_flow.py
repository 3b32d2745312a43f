"""A reply as its tokens: how they are laid out in rows, and the widget that walks among them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.events import Click, Resize
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from app.terminal.output import sanitize
from app.tui.widgets.cells import Span
from app.tui.widgets.style import style_of
from app.tui.widgets.wheel import Wheel

DOUBTED, UNLIKELY = 0.5, 0.2
_MOST_TOKEN_CHARS = 200


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a reply with its probability, and the likeliest others as (id, text, probability)."""

    id: int
    text: str
    p: float
    others: tuple[tuple[int, str, float], ...] = ()


Piece = tuple[int, str]
"""A token's number, and text of it on one row."""


def tokens_of(wire: Iterable[Mapping[str, Any]]) -> list[Token]:
    """The tokens of a message as the store keeps them."""
    found: list[Token] = []
    for token in wire:
        top = [(int(number), str(text), _probability(logprob)) for number, text, logprob in token["top"]]
        found.append(Token(int(token["id"]), str(token["text"]), _probability(token["logprob"]), tuple(top)))
    return found


def _probability(logprob: float) -> float:
    return 0.0 if math.isnan(logprob) else math.exp(min(0.0, logprob))


def visible(text: str, number: int) -> str:
    """A token as it is shown: blanks as they are, newlines and tabs written out, nothing as its number."""
    shown = sanitize(text[:_MOST_TOKEN_CHARS].replace("\n", "\\n").replace("\t", "\\t"))
    return shown or f"<{number}>"


def span_of(token: Token, text: str) -> Span:
    """Below a half underlined, below a fifth bold too; the colour only repeats it."""
    doubted = token.p < DOUBTED
    return Span(text, "warning" if doubted else "text", bold=token.p < UNLIKELY, underline=doubted)


def percent(p: float) -> str:
    """`41 %`, `0.3 %`, `under 0.1 %`."""
    if p >= 0.0995:
        return f"{p * 100:.0f} %"
    return f"{p * 100:.1f} %" if p >= 0.001 else "under 0.1 %"


def flow(tokens: Sequence[Token], width: int) -> list[list[Piece]]:
    """Tokens in rows of at most `width` cells: broken before words, after newlines, else anywhere."""
    rows: list[list[Piece]] = [[]]
    left = width
    for word in _words(tokens):
        size = sum(cell_len(text) for _, text in word)
        if rows[-1] and size > left:
            rows.append([])
            left = width
        for number, text in word:
            while cell_len(text) > left:
                head = _head(text, left) if left or rows[-1] else text[:1]
                if head:
                    rows[-1].append((number, head))
                text = text[len(head) :]
                rows.append([])
                left = width
            if text:
                rows[-1].append((number, text))
                left -= cell_len(text)
            if tokens[number].text.endswith("\n"):
                rows.append([])
                left = width
    return rows if rows[-1] or len(rows) == 1 else rows[:-1]


def _words(tokens: Sequence[Token]) -> list[list[Piece]]:
    """Tokens that belong to one word, together."""
    words: list[list[Piece]] = []
    for number, token in enumerate(tokens):
        starts = token.text[:1].isspace() or (number and tokens[number - 1].text[-1:].isspace())
        if starts or not words:
            words.append([])
        words[-1].append((number, visible(token.text, token.id)))
    return words


def _head(text: str, width: int) -> str:
    head = ""
    for char in text:
        if cell_len(head + char) > width:
            break
        head += char
    return head


class TokenFlow(Wheel, Widget, can_focus=True):
    """A reply as its tokens, with one of them under the cursor."""

    DEFAULT_CSS = "TokenFlow { height: 1fr; background: $panel; }"
    BINDINGS: ClassVar[Any] = [
        Binding("left,h", "walk(-1)", show=False),
        Binding("right,l", "walk(1)", show=False),
        Binding("up,k", "row(-1)", show=False),
        Binding("down,j", "row(1)", show=False),
        Binding("home", "to(0)", show=False),
        Binding("end", "to(-1)", show=False),
        Binding("n", "doubt(1)", show=False),
        Binding("p", "doubt(-1)", show=False),
    ]

    class Moved(Message):
        """Another token is under the cursor."""

    def __init__(self, tokens: Sequence[Token], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._tokens = tokens
        self._at = 0
        self._first = 0
        self._laid: tuple[int, list[list[Piece]]] = (0, [])

    @property
    def at(self) -> int:
        """The number of the token under the cursor."""
        return self._at

    def _lines(self) -> list[list[Piece]]:
        width = max(1, self.size.width - 1)
        if self._laid[0] != width:
            self._laid = (width, flow(self._tokens, width))
        return self._laid[1]

    def go(self, number: int) -> None:
        """Put the cursor on a token."""
        number = max(0, min(number, len(self._tokens) - 1))
        if not self._tokens:
            return
        self._at = number
        row = self._row_of(number)
        self._first = max(min(self._first, row), row - self.size.height + 1, 0)
        self.refresh()
        self.post_message(self.Moved())

    def _row_of(self, number: int) -> int:
        lines = enumerate(self._lines())
        return next((row for row, line in lines if any(piece[0] == number for piece in line)), 0)

    def action_walk(self, step: int) -> None:
        self.go(self._at + step)

    def action_to(self, number: int) -> None:
        self.go(number if number >= 0 else len(self._tokens) - 1)

    def action_row(self, step: int) -> None:
        lines, row = self._lines(), self._row_of(self._at)
        x = _column(lines[row], self._at)
        row += step
        while 0 <= row < len(lines) and not lines[row]:
            row += step
        if not 0 <= row < len(lines):
            return
        self.go(min(lines[row], key=lambda piece: abs(_column(lines[row], piece[0]) - x))[0])

    def action_doubt(self, step: int) -> None:
        """The next token that was less likely than not."""
        number = self._at + step
        while 0 <= number < len(self._tokens):
            if self._tokens[number].p < DOUBTED:
                self.go(number)
                return
            number += step

    def on_click(self, event: Click) -> None:
        lines, row = self._lines(), event.y + self._first
        x = 0
        for number, text in lines[row] if row < len(lines) else ():
            x += cell_len(text)
            if event.x < x:
                self.go(number)
                return

    def roll(self, rows: int) -> None:
        self._first = max(0, min(self._first + rows, len(self._lines()) - self.size.height))
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        self.go(self._at)

    def render_line(self, y: int) -> Strip:
        ink, lines, row = style_of(self), self._lines(), y + self._first
        width = self.size.width
        strips: list[Strip] = []
        for number, text in lines[row] if row < len(lines) else ():
            span = span_of(self._tokens[number], text)
            here = number == self._at
            strips.append(ink.strip([span], "selection" if here else "panel"))
        used = sum(strip.cell_length for strip in strips)
        return Strip.join([*strips, ink.strip([Span(" " * max(0, width - used))], "panel")])


def _column(line: Sequence[Piece], number: int) -> int:
    x = 0
    for other, text in line:
        if other == number:
            return x
        x += cell_len(text)
    return x
