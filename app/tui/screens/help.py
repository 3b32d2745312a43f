"""Help: every key on one page, filtered by typing, and the topics behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from app.help.topics import topic, topics
from app.markdown.fuzzy import match
from app.terminal.glyphs import Glyphs
from app.tui.help_lists import help_lists
from app.tui.screens.dialog import MAX_ROWS, Dialog, Hint, spread
from app.tui.screens.pages import markdown_rows
from app.tui.shell import Shell
from app.tui.widgets.cells import Line, Span, fitted, plain
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import BLANK, ListRow, RowList

KeyRow = tuple[str, str, str]
"""A group, the keys, and what they do."""

KEYS, MORE = "keys", "more keys"
REBIND = "change keys"
"""The page of the topic `keys`, whose list this one replaces."""
FIRST_OF_MORE = 2
"""Keys without a group that the short page has all the same."""
_KEY_WIDTH = 8
_GAP = 2
_TWO_COLUMNS_FROM = 60
_WIDE_FROM = 120
_AROUND_ROWS = 4
"""Rows of the dialog above and below the list."""
_HINTS: Sequence[Hint] = (("tab", "more"), ("", "type to filter"), ("esc", "closes"))


def grouped_keys(rows: Iterable[KeyRow]) -> dict[str, list[KeyRow]]:
    """Keys under their groups, in their order."""
    groups: dict[str, list[KeyRow]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    return groups


def key_page(rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[ListRow]:
    """The keys in two columns, a group beside a group; in one where there is no room for two.

    Keys without a group, or of the group `more`, come last under a rule.
    """
    groups = grouped_keys(rows)
    last = last_keys(groups)
    two = width >= _TWO_COLUMNS_FROM
    column = (width - 4) // 2 + 2 if two else width
    blocks = [_block(name, group, column, glyphs) for name, group in groups.items()]
    page: list[ListRow] = []
    for index in range(0, len(blocks), 2 if two else 1):
        pair = blocks[index : index + (2 if two else 1)]
        page += [BLANK] if page else []
        page += _beside(pair, column)
    if last:
        rule = ListRow((Span(glyphs.rule * width, "faint"),), indent=0)
        page += [*([BLANK] if page else []), rule, *_last_rows(last, column, glyphs, two=two)]
    return page


def short_page(rows: Sequence[KeyRow], width: int, glyphs: Glyphs, height: int) -> list[ListRow] | None:
    """As `key_page`, with only the first keys below the groups; None where `height` is not enough."""
    groups = grouped_keys(rows)
    last = last_keys(groups)[:FIRST_OF_MORE]
    page = key_page([*(row for group in groups.values() for row in group), *last], width, glyphs)
    if len(page) > height:
        del page[max(index for index, row in enumerate(page) if row == BLANK)]
    return page if len(page) <= height else None


def last_keys(groups: dict[str, list[KeyRow]]) -> list[KeyRow]:
    """The keys that have no group of their own; they are taken out of `groups`."""
    return [*groups.pop("", []), *groups.pop("more", [])]


def more_page(rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[ListRow]:
    """The keys that the short page leaves out."""
    two = width >= _TWO_COLUMNS_FROM
    column = (width - 4) // 2 + 2 if two else width
    return _last_rows(last_keys(grouped_keys(rows))[FIRST_OF_MORE:], column, glyphs, two=two)


def _last_rows(rows: Sequence[KeyRow], column: int, glyphs: Glyphs, *, two: bool) -> list[ListRow]:
    lines = [_key_line(row, column, glyphs) for row in rows]
    if not two:
        return _beside([lines], column)
    # Read from left to right: what is needed most stands in the first row.
    return _beside([lines[::2], lines[1::2]], column)


def _block(name: str, rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[Line]:
    return [(Span(name, "muted"),), *(_key_line(row, width, glyphs) for row in rows)]


def _key_line(row: KeyRow, width: int, glyphs: Glyphs) -> Line:
    names = row[1].split(" ")
    # Of several keys for one thing those that have room; what was filtered for is shown whole.
    while max(map(len, names)) > 1 and len(names) > 1 and cell_len(glyphs.key(" ".join(names))) > _KEY_WIDTH:
        names.pop()
    keys = Span(glyphs.key(" ".join(names)), bold=True)
    gap = Span(" " * max(1, _KEY_WIDTH + _GAP - cell_len(keys.text)))
    return fitted((keys, gap, Span(row[2])), width - 2, glyphs.cut_right)


def found_page(rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[ListRow]:
    """The keys that a filter found, one a row, with all their names."""
    keys = [glyphs.key(row[1]) for row in rows]
    column = min(max(map(cell_len, keys), default=0), width // 2)
    return [
        ListRow(
            fitted(
                (*fitted((Span(key, bold=True),), column), Span("  "), Span(row[2])), width, glyphs.cut_right
            ),
            indent=0,
        )
        for key, row in zip(keys, rows, strict=True)
    ]


def _beside(blocks: Sequence[Sequence[Line]], width: int) -> list[ListRow]:
    height = max(len(block) for block in blocks)
    rows: list[ListRow] = []
    for y in range(height):
        spans: list[Span] = []
        for block in blocks:
            spans += fitted(block[y] if y < len(block) else (), width)
        rows.append(ListRow(spans, indent=0))
    return rows


class HelpScreen(Dialog[None]):
    """Keys and topics. Tab walks the pages, typing filters the keys."""

    ROWS = None
    BINDINGS: ClassVar[Any] = [
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("tab", "turn(1)", show=False, priority=True),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
    ]

    def __init__(
        self,
        shell: Shell,
        *,
        page: str = KEYS,
        rows: Sequence[KeyRow] | None = None,
        read: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(shell, page, _HINTS)
        topic_names = [REBIND if name == "keys" else name for name, _ in topics()]
        self._all_pages = (KEYS, MORE, *topic_names)
        self._page = page if page in self._all_pages else KEYS
        self._key_rows = shell.key_rows() if rows is None else rows
        self._read = read or _topic_text
        self._short: list[ListRow] | None = None
        self.filter = Filter("")
        self.list = RowList(id="list")

    def body(self) -> Iterable[Widget]:
        yield spread(self.filter)
        yield spread(self.list, hanging=True, bottom=1)

    def compose(self) -> Any:
        yield from super().compose()
        # The filter takes the blank row under the title, and is not seen before something is typed.
        self._head.styles.margin = (1, 3, 0, 3)

    @property
    def width_wanted(self) -> int:
        return 104 if self.size.width >= _WIDE_FROM else 76

    def rows_wanted(self) -> int:
        return max(MAX_ROWS, len(self._whole_page()) + _AROUND_ROWS)

    def _whole_page(self) -> list[ListRow]:
        return key_page(self._key_rows, self.inner_width, self.ink.glyphs)

    @property
    def _pages(self) -> list[str]:
        """The pages at this size: more keys are one of their own where one page cannot have all."""
        return [name for name in self._all_pages if name != MORE or self._short is not None]

    def resized(self) -> None:
        height = self.sheet_rows - _AROUND_ROWS
        fits = len(self._whole_page()) <= height
        glyphs = self.ink.glyphs
        self._short = None if fits else short_page(self._key_rows, self.inner_width, glyphs, height)
        if self._page not in self._pages:
            self._page = KEYS
        self._fill()

    def _fill(self) -> None:
        query = self.filter.value
        self.filter.hide(not query)
        self.heading = self._page
        self._show_head()
        self.list.show(self._found(query) if query else self._shown_page())
        self.list.jump(end=False)

    def _shown_page(self) -> list[ListRow]:
        match self._page:
            case "keys":
                return self._short or self._whole_page()
            case "more keys":
                return more_page(self._key_rows, self.inner_width, self.ink.glyphs)
            case _:
                return self._topic_rows()

    def _topic_rows(self) -> list[ListRow]:
        name = "keys" if self._page == REBIND else self._page
        rows = markdown_rows(self._read(name), self.inner_width, self.ink)
        return [ListRow(row.left, row.right, indent=0) for row in rows]

    def _found(self, query: str) -> list[ListRow]:
        if self._page not in (KEYS, MORE):
            rows = self._topic_rows()
            found = [row for row in rows if match(query, "".join(span.text for span in row.left), loose=0)]
            return found or _nothing(f"No matches for {plain(query)} on this page.")
        keys = [row for row in self._key_rows if match(query, f"{row[1]} {row[2]}", loose=0)]
        return found_page(keys, self.inner_width, self.ink.glyphs) or _nothing("No key does that.")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(None)

    def action_turn(self, step: int) -> None:
        """Show the next page."""
        pages = self._pages
        self._page = pages[(pages.index(self._page) + step) % len(pages)]
        self.filter.input.value = ""
        self._fill()

    def action_move(self, step: int) -> None:
        self.list.move(step)

    def action_page(self, direction: int) -> None:
        self.list.page(direction)

    def action_close(self) -> None:
        if self.filter.value:
            self.filter.input.value = ""
        else:
            self.dismiss(None)


def _nothing(words: str) -> list[ListRow]:
    return [
        ListRow((Span(words, bold=True),), indent=0),
        ListRow((Span("Type fewer letters to find more; esc shows everything.", "muted"),), indent=0),
    ]


def _topic_text(name: str) -> str:
    return topic(name, help_lists()).text
