"""The list that opens above the draft while a command or a file is being named. It only offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widgets import Static

from app.terminal.glyphs import Glyphs
from app.terminal.text_rows import Span, cut, padded, width_of
from app.tui.grid import Grid, grid_of
from app.tui.widgets.cells import plain

MOST_ROWS = 8
"""With the one that tells how many more there are."""
LABEL_SHARE = 2


@dataclass(frozen=True)
class Suggestion:
    """One thing the draft may become: `text` takes the place of what was typed."""

    text: str
    label: str
    detail: str = ""


class CompletionList(Static):
    """A few rows over the conversation, the likely one selected."""

    DEFAULT_CSS = """
    CompletionList {
        height: auto; width: 1fr; display: none; layer: above; dock: bottom; background: transparent;
    }
    """

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__("", id="completion", markup=False)
        self._glyphs = glyphs
        self._grid = grid_of(80)
        self._offers: Sequence[Suggestion] = ()
        self._cursor = 0
        self.span = (0, 0)
        """Where in the draft the offers go."""

    @property
    def opened(self) -> bool:
        """Whether there is something to choose."""
        return bool(self._offers)

    @property
    def offers(self) -> Sequence[Suggestion]:
        return self._offers

    @property
    def chosen(self) -> Suggestion | None:
        """The selected offer."""
        return self._offers[self._cursor] if self._offers else None

    def place(self, grid: Grid, rows_below: int) -> None:
        """Stand in the columns of `grid`, above so many rows."""
        self._grid = grid
        self.styles.margin = (0, 0, rows_below, 0)
        self._draw()

    def show(self, offers: Sequence[Suggestion], span: tuple[int, int]) -> None:
        """Offer these; none closes the list."""
        self._offers, self.span, self._cursor = tuple(offers), span, 0
        self.display = bool(offers)
        self._draw()

    def move(self, step: int) -> None:
        """Select another one, around the ends."""
        if self._offers:
            self._cursor = (self._cursor + step) % len(self._offers)
            self._draw()

    def _draw(self) -> None:
        if not self._offers:
            return
        grid, glyphs = self._grid, self._glyphs
        cells = grid.measure
        rows = MOST_ROWS if len(self._offers) <= MOST_ROWS else MOST_ROWS - 1
        first = max(0, min(self._cursor - rows // 2, len(self._offers) - rows))
        shown = self._offers[first : first + rows]
        width = min(cells // LABEL_SHARE, max(width_of([(plain(offer.label), "")]) for offer in shown))
        lines: list[Span] = []
        for place, offer in enumerate(shown, first):
            picked = place == self._cursor
            ground = "$selection" if picked else "$panel"
            name: Span = (cut(plain(offer.label), width, glyphs.cut_right), "bold" if picked else "")
            row = padded([name], width)
            detail = cut(plain(offer.detail), max(0, cells - width - 3), glyphs.cut_right)
            row = padded(
                [(" ", ""), *row, ("   ", ""), (detail, "" if picked else "$muted")], grid.column - 1
            )
            edge: Span = (glyphs.edge, "$primary") if picked else (" ", "")
            lines += [("\n", "")] if lines else []
            lines += [(" " * grid.edge, ""), edge]
            lines += [(text, f"{style} on {ground}".strip()) for text, style in row]
        if len(self._offers) > rows:
            more = padded([(" ", ""), (self._more(first, first + rows), "$muted")], grid.column - 1)
            lines += [("\n", ""), (" " * (grid.edge + 1), "")]
            lines += [(text, f"{style} on $panel".strip()) for text, style in more]
        self.update(Content.assemble(*lines))

    def _more(self, first: int, end: int) -> str:
        """How many there are below what is shown; at the end, above it."""
        if below := len(self._offers) - end:
            return f"{self._glyphs.below} {below} more"
        return f"{self._glyphs.above} {first} more"
