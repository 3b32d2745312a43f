"""The one picker: a filter, a list with facts at the right, and room for a preview. It only chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from app.markdown.fuzzy import Match, ranked
from app.tui.screens.dialog import Dialog, Hint, spread
from app.tui.shell import Shell
from app.tui.widgets.cells import Line, Span, fitted, marked, plain, width_of
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import BLANK, Lines, ListRow, RowList, heading

AT_ONCE = 2000
"""Entries ranked between two frames."""
MAX_SHOWN = 500
"""Of what fits a filter; nobody scrolls further, they type on."""
_LEAST_LABEL = 20
_AROUND_ROWS, _LEAST_ROWS = 6, 4
"""Rows of a picker beside list and preview, and those of the list that a preview must leave."""


@dataclass(frozen=True)
class Entry:
    """One thing to choose. `label` is matched, with `terms` that are not shown."""

    key: str
    label: str
    detail: str = ""
    """A muted second column."""
    facts: Line = ()
    """At the right end."""
    group: str = ""
    terms: str = ""

    @property
    def matched(self) -> str:
        return f"{self.label} {self.terms}" if self.terms else self.label


class Picker(Dialog[str | None]):
    """Choose one of some entries by typing a part of it. Gives back its key, or None.

    `empty` is said where there is nothing to choose, `title` above the list and `hints` beside it.
    """

    BINDINGS: ClassVar[Any] = [
        Binding("up,ctrl+p", "move(-1)", "up", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", "down", show=False, priority=True),
        Binding("pageup", "page(-1)", "a page up", show=False, priority=True),
        Binding("pagedown", "page(1)", "a page down", show=False, priority=True),
        Binding("ctrl+home", "jump(False)", "first", show=False, priority=True),
        Binding("ctrl+end", "jump(True)", "last", show=False, priority=True),
    ]
    PREVIEW_ROWS: ClassVar[int] = 0

    def __init__(
        self,
        shell: Shell,
        title: str,
        entries: Iterable[Entry] = (),
        *,
        hints: Sequence[Hint] = (("enter", "chooses"), ("esc", "closes")),
        current: str | None = None,
        query: str = "",
        empty: str = "There is nothing to choose.",
        placeholder: str = "type to filter",
    ) -> None:
        super().__init__(shell, title, hints)
        self._entries = list(entries)
        self._current = current
        self._empty = empty
        self._ranked: tuple[str, list[tuple[Entry, Match]]] | None = None
        self.filter = Filter(placeholder, query)
        self.list = RowList(id="list")
        self.preview = Lines(id="preview")

    def body(self) -> Iterable[Widget]:
        yield spread(self.filter)
        yield spread(self.list, hanging=True, top=1, bottom=1)
        if self.PREVIEW_ROWS:
            self.preview.styles.height = self.PREVIEW_ROWS
            yield spread(self.preview, bottom=1)

    # ---- what is shown ---------------------------------------------------------------------

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, whether they fit the filter or not."""
        return self._entries

    @property
    def chosen(self) -> Entry | None:
        """The entry that enter would choose."""
        key = self.list.selected
        return next((entry for entry in self._entries if entry.key == key), None)

    def give(self, entries: Iterable[Entry]) -> None:
        """Offer other entries; the selection stays where its entry does."""
        self._entries = list(entries)
        self._ranked = None
        self.refill()

    def resized(self) -> None:
        self.preview.display = self.sheet_rows - _AROUND_ROWS - self.PREVIEW_ROWS >= _LEAST_ROWS
        self.refill()

    def refill(self, *, best: bool = False) -> None:
        """Show what fits the filter, `best` with its first entry selected."""
        query = self.filter.value
        among = self._entries
        if self._ranked and query.startswith(self._ranked[0]):
            # What did not fit the beginning of a query does not fit the whole.
            among = [entry for entry, _ in self._ranked[1]]
        if len(among) > AT_ONCE and query.split():
            self._rank_in_steps(query, best)
        else:
            self._take(query, _fitting(query, among), best)

    @work(exclusive=True, group="rank")
    async def _rank_in_steps(self, query: str, best: bool) -> None:
        """Rank thousands of entries so that keys and frames get their turn between them."""
        found: list[tuple[Entry, Match]] = []
        for start in range(0, len(self._entries), AT_ONCE):
            found += _fitting(query, self._entries[start : start + AT_ONCE])
            await asyncio.sleep(0)
        found.sort(key=lambda pair: -pair[1].score)
        self._take(query, found, best)

    def _take(self, query: str, found: list[tuple[Entry, Match]], best: bool) -> None:
        if not self.is_attached:
            return
        # An empty query keeps the order of the entries, which one that fits all may have changed.
        self._ranked = (query, found) if query.split() else None
        shown = found[:MAX_SHOWN]
        rows = self.rows_of(shown) if found else self._nothing(query)
        first = shown[0][0].key if shown else None
        self.list.show(rows, first if best else self._current)
        if found:
            self._current = None
        self.filter.say(f"{len(found):,} of {len(self._entries):,}" if query and self._entries else "")
        self.selected(self.chosen)

    def rows_of(self, found: Sequence[tuple[Entry, Match]]) -> list[ListRow]:
        """The list, with a heading above each group that is together."""
        label_width = self._label_width([entry for entry, _ in found])
        rows: list[ListRow] = []
        group = ""
        for entry, fit in found:
            if entry.group != group:
                rows += [BLANK] if rows else []
                rows.append(heading(entry.group))
                group = entry.group
            rows.append(self.row_of(entry, fit, label_width))
        return rows

    def row_of(self, entry: Entry, fit: Match, label_width: int) -> ListRow:
        """The row of one entry, what was typed marked in it."""
        label = plain(entry.label)
        places = [(start, min(end, len(label))) for start, end in fit.places if start < len(label)]
        spans = marked(label, places, Span(""), Span("", "accent", bold=True, underline=True))
        named = len(spans)
        if entry.detail:
            detail = (Span(plain(entry.detail), "muted"),)
            spans = [*fitted(spans, label_width, self.ink.glyphs.cut_right), Span("   "), *detail]
        return ListRow(spans, entry.facts, entry.key, named=named)

    def _label_width(self, entries: Sequence[Entry]) -> int:
        widest = max((width_of([Span(plain(entry.label))]) for entry in entries), default=0)
        return max(min(widest, self.inner_width * 2 // 5), min(_LEAST_LABEL, widest))

    def _nothing(self, query: str) -> list[ListRow]:
        if not self._entries:
            return [ListRow((Span(plain(self._empty), bold=True),))]
        return [
            ListRow(
                (
                    Span("Nothing here matches ", bold=True),
                    Span(plain(query), bold=True),
                    Span(".", bold=True),
                )
            ),
            ListRow((Span("Fewer letters find more; they need not be adjacent.", "muted"),)),
        ]

    def selected(self, entry: Entry | None) -> None:
        """Another entry is under the mark."""

    # ---- keys ------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self.filter.input:
            event.stop()
            self.typed()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.choose()

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        event.stop()
        self.selected(self.chosen)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.choose()

    def action_move(self, step: int) -> None:
        self.list.move(step)

    def action_page(self, direction: int) -> None:
        self.list.page(direction)

    def action_jump(self, end: bool) -> None:
        self.list.jump(end=end)

    def typed(self) -> None:
        """Something was typed into the filter."""
        self.refill(best=True)

    def choose(self) -> None:
        """Enter: give back what is selected."""
        if (entry := self.chosen) is not None:
            self.dismiss(entry.key)


def _fitting(query: str, entries: Sequence[Entry]) -> list[tuple[Entry, Match]]:
    """What fits: letters may be scattered over a label, not over the terms behind it."""
    return ranked(query, entries, lambda entry: entry.matched, lambda entry: len(entry.label))
