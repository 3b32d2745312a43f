"""Something to read: pages of rows that scroll by keys. Help, the engine's log and Markdown use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from textual.binding import Binding
from textual.widget import Widget

from app.markdown.markdown import MarkdownText
from app.markdown.rows import Mode, split_style
from app.tui.screens.dialog import Dialog, Hint, spread
from app.tui.shell import Shell
from app.tui.widgets.cells import Span
from app.tui.widgets.rows import ListRow, RowList
from app.tui.widgets.style import WidgetStyle

_ROLES = {
    "link": "accent",
    "chip": "primary",
    "code": "text",
    "added": "diff_add",
    "removed": "diff_remove",
}


def markdown_rows(text: str, width: int, ink: WidgetStyle) -> list[ListRow]:
    """Markdown of our own as rows of at most `width` cells, one indent in."""
    body = MarkdownText(text, finished=True)
    body.layout(max(8, width), Mode(plain=ink.plain, ascii=not ink.glyphs.unicode, link_targets=True))
    rows: list[ListRow] = []
    for row in body.rows:
        spans: list[Span] = []
        for run in row.runs:
            role, attributes = split_style(run.style)
            spans.append(
                Span(
                    run.text,
                    _role_of(role, ink),
                    bold="b" in attributes,
                    italic="i" in attributes,
                    underline="u" in attributes or role == "link",
                )
            )
        rows.append(ListRow(spans))
    return rows


def _role_of(role: str, ink: WidgetStyle) -> str:
    for kind, style in ink.palette.syntax.items():
        if kind == role:
            return style.role
    return _ROLES.get(role, role)


class Reader(Dialog[None]):
    """Rows to read. Keys scroll, esc and q close."""

    WIDTH = 104
    BINDINGS: ClassVar[Any] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home,g", "jump(False)", show=False),
        Binding("end,G", "jump(True)", show=False),
        Binding("q", "close", show=False),
    ]

    def __init__(self, shell: Shell, title: str, hints: Sequence[Hint] = (("esc", "closes"),)) -> None:
        super().__init__(shell, title, hints)
        self.list = RowList(id="list")

    def body(self) -> Iterable[Widget]:
        yield spread(self.list, hanging=True, bottom=1)

    def page_rows(self) -> Iterable[ListRow]:
        """What there is to read, for the width there is now."""
        return ()

    def resized(self) -> None:
        self.list.show(self.page_rows())

    def action_move(self, step: int) -> None:
        self.list.move(step)

    def action_page(self, direction: int) -> None:
        self.list.page(direction)

    def action_jump(self, end: bool) -> None:
        self.list.jump(end=end)
