"""Help: every key on one page, filtered by typing, and the topics behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from app.glyphs import Glyphs
from app.help_topics import topic, topics
from app.tui.screens.dialog import Dialog, Hint, spread
from app.tui.screens.pages import markdown_rows
from app.tui.shell import Shell
from app.tui.widgets.cells import Line, Span, fitted
from app.tui.widgets.filter import Filter
from app.tui.widgets.fuzzy import match
from app.tui.widgets.rows import BLANK, Row, RowList

KeyRow = tuple[str, str, str]
"""A group, the keys, and what they do."""

KEYS = "keys"
_KEY_WIDTH = 8
_GAP = 2
_HINTS: Sequence[Hint] = (("tab", "topics"), ("", "type to filter"), ("esc", "closes"))


def grouped_keys(rows: Iterable[KeyRow]) -> dict[str, list[KeyRow]]:
    """Keys under their groups, in their order."""
    groups: dict[str, list[KeyRow]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    return groups


def key_page(rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[Row]:
    """The keys in two columns, a group beside a group; in one where there is no room for two.

    Keys without a group, or of the group `more`, come last under a rule.
    """
    groups = grouped_keys(rows)
    last = [*groups.pop("", []), *groups.pop("more", [])]
    two = width >= 60
    column = (width - 4) // 2 + 2 if two else width
    blocks = [_block(name, group, column, glyphs) for name, group in groups.items()]
    page: list[Row] = []
    for index in range(0, len(blocks), 2 if two else 1):
        pair = blocks[index : index + (2 if two else 1)]
        page += [BLANK] if page else []
        page += _beside(pair, column)
    if last:
        lines = [_key_line(row, column, glyphs) for row in last]
        half = -(-len(lines) // 2) if two else len(lines)
        page += [*([BLANK] if page else []), Row((Span(glyphs.rule * width, "faint"),), indent=0)]
        page += _beside([part for part in (lines[:half], lines[half:]) if part], column)
    return page


def _block(name: str, rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[Line]:
    return [(Span(name, "muted"),), *(_key_line(row, width, glyphs) for row in rows)]


def _key_line(row: KeyRow, width: int, glyphs: Glyphs) -> Line:
    names = row[1].split(" ")
    # Of several keys for one thing those that have room; what was filtered for is shown whole.
    while len(names) > 1 and cell_len(glyphs.key(" ".join(names))) > _KEY_WIDTH:
        names.pop()
    keys = Span(glyphs.key(" ".join(names)), bold=True)
    gap = Span(" " * max(1, _KEY_WIDTH + _GAP - cell_len(keys.text)))
    return fitted((keys, gap, Span(row[2])), width - 2, glyphs.cut_right)


def found_page(rows: Sequence[KeyRow], width: int, glyphs: Glyphs) -> list[Row]:
    """The keys that a filter found, one a row, with all their names."""
    keys = [glyphs.key(row[1]) for row in rows]
    column = min(max(map(cell_len, keys), default=0), width // 2)
    return [
        Row(
            fitted(
                (*fitted((Span(key, bold=True),), column), Span("  "), Span(row[2])), width, glyphs.cut_right
            ),
            indent=0,
        )
        for key, row in zip(keys, rows, strict=True)
    ]


def _beside(blocks: Sequence[Sequence[Line]], width: int) -> list[Row]:
    height = max(len(block) for block in blocks)
    rows: list[Row] = []
    for y in range(height):
        spans: list[Span] = []
        for block in blocks:
            spans += fitted(block[y] if y < len(block) else (), width)
        rows.append(Row(spans, indent=0))
    return rows


class HelpScreen(Dialog[None]):
    """Keys and topics. Tab walks the pages, typing filters the keys."""

    WIDTH = 76
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
        self._names = [KEYS, *(name for name, _ in topics() if name != KEYS)]
        self._page = page if page in self._names else KEYS
        self._key_rows = shell.key_rows() if rows is None else rows
        self._read = read or _topic_text
        self.filter = Filter("")
        self.list = RowList(id="list")

    def body(self) -> Iterable[Widget]:
        yield spread(self.filter)
        yield spread(self.list, hanging=True, bottom=1)

    def compose(self) -> Any:
        yield from super().compose()
        # The filter takes the blank row under the title, and is not seen before something is typed.
        self._head.styles.margin = (1, 3, 0, 3)

    def resized(self) -> None:
        self._fill()

    def _fill(self) -> None:
        query = self.filter.value
        self.filter.hide(not query)
        if self._page == KEYS:
            found = [row for row in self._key_rows if match(query, f"{row[1]} {row[2]}", loose=0)]
            layout = found_page if query else key_page
            rows = layout(found, self.inner_width, self.ink.glyphs)
            if not found:
                rows = [Row((Span("No key does that.", bold=True),), indent=0)]
        else:
            rows = [
                Row(row.left, row.right, indent=0)
                for row in markdown_rows(self._read(self._page), self.inner_width, self.ink)
                if not query or match(query, "".join(span.text for span in row.left), loose=0)
            ]
        self.heading = self._page
        self._show_head()
        self.list.show(rows)
        self.list.jump(end=False)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(None)

    def action_turn(self, step: int) -> None:
        """Show the next page."""
        place = self._names.index(self._page) + step
        self._page = self._names[place % len(self._names)]
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


def _topic_text(name: str) -> str:
    return topic(name).text
