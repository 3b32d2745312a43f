"""The seam: the row between conversation and composer, and the one place where news appears."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from app.terminal.glyphs import Glyphs
from app.terminal.output import sanitize, squeezed
from app.terminal.text_rows import Span, cut, width_of, wrapped
from app.tui.grid import Grid, grid_of

NEWS_S = 4.0
DASHES = 3
LEAST_TITLE = 8
LEAST_NEWS = 12
"""Cells of news that still say something beside a key hint."""
GAP = 3
ERROR_S = 1.5
"""How long an error stays at least while somebody writes on."""
MOST_ERROR_ROWS = 8


Hint = tuple[str, str]
"""A key, by its name in the table of keys or as it is written, and what it does here; without a key,
what goes on."""


class News(NamedTuple):
    """Something to tell once. An error stays until a key is pressed."""

    text: str
    error: bool = False
    mark: str = ""
    """A glyph before the text, in `role`."""
    role: str = "success"
    hints: Sequence[Hint] = ()


def seam_row(title: str, right: Sequence[Span], width: int, glyphs: Glyphs) -> list[Span]:
    """The row, `width` cells wide: the title after three dashes, one thing before the last three."""
    dash, line = glyphs.rule, "$faint"
    said = sum(cell_len(text) for text, _ in right)
    if right and said > width - 2 * DASHES:
        text = "".join(text for text, _ in right)
        right = [(cut(text, max(1, width - 2 * DASHES - 2), glyphs.cut_right), right[0][1])]
        said = cell_len(right[0][0])
    ends: list[Span] = [(" ", ""), *right, (f" {dash * DASHES}", line)] if said else []
    room = width - (said + 2 + DASHES if said else 0)
    head: list[Span] = []
    if title and room >= LEAST_TITLE + 2 * (DASHES + 1):
        title = cut(title, room - 2 * (DASHES + 1), glyphs.cut_right)
        head = [(f"{dash * DASHES} ", line), (title, "$muted"), (" ", "")]
        room -= DASHES + 2 + cell_len(title)
    return [*head, (dash * max(0, room), line), *ends]


class Seam(Static):
    """Shows the first of: error news, the count of new lines, the key hint for where you are, news.

    All but an error also share the row, where it holds them; the hint keeps its place at the right.
    An error that one row does not hold stands above it, whole. `label` writes the key of a hint.
    """

    DEFAULT_CSS = "Seam { height: 1; width: 1fr; background: $background; }"

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__("", id="seam", markup=False)
        self._glyphs = glyphs
        self.label: Callable[[str], str] = glyphs.key
        self._grid = grid_of(80)
        self._title = ""
        self._new_lines = 0
        self._hints: Sequence[Hint] = ()
        self._news: News | None = None
        self._timer: Timer | None = None
        self._told_at = 0.0
        self._height = 1
        self.spans: list[Span] = []
        """What it shows, for tests and screen readers."""

    def place(self, grid: Grid) -> None:
        """Stand in the columns of `grid`."""
        self._grid = grid
        self._draw()

    def keys_changed(self) -> None:
        """Other keys may work where the prompt is now."""
        if self._new_lines or self._news is not None or self._hints:
            self._draw()

    def set_title(self, title: str) -> None:
        """Name the chat at the left; empty where the side pane shows it."""
        title = sanitize(title).replace("\n", " ")
        if title != self._title:
            self._title = title
            self._draw()

    def set_new_lines(self, count: int) -> None:
        """How many lines were written below what is seen."""
        if count != self._new_lines:
            self._new_lines = count
            self._draw()

    def set_hints(self, hints: Sequence[Hint]) -> None:
        """Keys, and what they do where the prompt is."""
        if tuple(hints) != self._hints:
            self._hints = tuple(hints)
            self._draw()

    def say(self, news: News) -> None:
        """Tell news for four seconds; an error until `dismiss`."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._news, self._told_at = news, time.monotonic()
        if not news.error:
            self._timer = self.set_timer(NEWS_S, self._forget)
        self._draw()

    def dismiss(self, *, typing: bool = False) -> None:
        """A key was pressed: an error has been seen; not by who goes on `typing` at once."""
        if self._news is None or not self._news.error:
            return
        if not typing or time.monotonic() - self._told_at >= ERROR_S:
            self._forget()

    def withdraw(self, news: News) -> None:
        """`news` holds no longer; whatever else was told since stays."""
        if self._news is news:
            if self._timer is not None:
                self._timer.stop()
            self._forget()

    @property
    def news(self) -> News | None:
        """What is told now."""
        return self._news

    def _forget(self) -> None:
        self._news, self._timer = None, None
        self._draw()

    def _right(self) -> list[Span]:
        news = self._news
        if news is not None and news.error:
            above = self._fits(news.text)
            return [(f"{self._glyphs.failed} ", "$error"), (squeezed(news.text), "$error")] if above else []
        room = self._grid.column - 2 * DASHES - 2
        right: list[Span] = []
        for part in (self._counted(), self._hinted(self._hints)):
            if part and (not right or width_of(right) + GAP + width_of(part) <= room):
                right = _beside(right, part)
        if news is None:
            return right
        room -= width_of(right) + GAP if right else 0
        told = self._told(news)
        if right and width_of(told) > room:
            if room < LEAST_NEWS:
                return right
            told = _cut(told, room, self._glyphs.cut_right)
        return _beside(told, right)

    def _counted(self) -> list[Span]:
        if not self._new_lines:
            return []
        return [
            (f"{self._glyphs.below} ", "$primary"),
            (f"{self._new_lines:,} new line{'s' if self._new_lines > 1 else ''}  ", "$muted"),
            (self.label("newest"), "bold"),
        ]

    def _told(self, news: News) -> list[Span]:
        spans: list[Span] = [(f"{news.mark} ", f"${news.role}")] if news.mark else []
        spans.append((squeezed(news.text), "$muted"))
        return _beside(spans, self._hinted(news.hints))

    def _hinted(self, hints: Sequence[Hint]) -> list[Span]:
        spans: list[Span] = []
        for key, word in hints:
            spans += [("  ", "")] if spans else []
            shown = self.label(key) if key else ""
            spans += [(shown, "bold")] if shown else []
            spans.append((f" {word}" if shown else word, "$muted"))
        return spans

    def _fits(self, error: str) -> bool:
        return cell_len(squeezed(error)) + 2 <= self._grid.column - 2 * DASHES - 2

    def _error_rows(self) -> list[str]:
        """An error that does not fit into the row, whole."""
        news = self._news
        if news is None or not news.error or self._fits(news.text):
            return []
        cells = self._grid.measure - 2
        rows = wrapped(squeezed(news.text), cells)
        if len(rows) > MOST_ERROR_ROWS:
            rows[MOST_ERROR_ROWS - 1 :] = [
                cut(" ".join(rows[MOST_ERROR_ROWS - 1 :]), cells, self._glyphs.cut_right)
            ]
        return rows

    def _draw(self) -> None:
        grid = self._grid
        row: list[Span] = [
            (" " * grid.edge, ""),
            *seam_row(self._title, self._right(), grid.column, self._glyphs),
        ]
        rows = self._error_rows()
        above: list[Span] = []
        for place, text in enumerate(rows):
            mark = self._glyphs.failed if place == 0 else " " * cell_len(self._glyphs.failed)
            above.append((f"{' ' * grid.text}{mark} {text}\n", "$error"))
        if (spans := [*above, *row[1:]]) == self.spans and self.content:
            return
        self.spans = spans
        # The row keeps its size, and while a person reads above it changes with every new line.
        if len(rows) + 1 != self._height:
            self._height = self.styles.height = len(rows) + 1
        self.update(Content.assemble(*above, *row), layout=False)


def _beside(left: list[Span], right: list[Span]) -> list[Span]:
    """Two groups of words, three cells apart."""
    return [*left, (" " * GAP, ""), *right] if left and right else [*left, *right]


def _cut(spans: Sequence[Span], cells: int, mark: str) -> list[Span]:
    found: list[Span] = []
    for text, style in spans:
        if cell_len(text) > cells:
            return [*found, (cut(text, cells, mark), style)]
        found.append((text, style))
        cells -= cell_len(text)
    return found
