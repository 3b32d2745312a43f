"""The token view: how sure a reply was of each token, and what else it could have written there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding
from textual.widget import Widget

from app.sessions.errors import FiresideError
from app.sessions.items import Message as TextMessage
from app.sessions.manager import SessionManager
from app.tui.screens.dialog import Dialog, Hint, spread
from app.tui.screens.token_flow import Token, TokenFlow, percent, tokens_of, visible
from app.tui.shell import Shell
from app.tui.widgets.cells import Span, fitted, plain, wrapped
from app.tui.widgets.rows import Lines, ListRow, RowList
from app.tui.widgets.style import WidgetStyle

_MOST_ALTERNATIVES = 20
_METER_CELLS = 20
_MOST_ITEMS = 200
_FLOW_HINTS: Sequence[Hint] = (
    ("arrows", "walk"),
    ("n", "next doubt"),
    ("enter", "alternatives"),
    ("esc", "closes"),
)
_EMPTY_HINTS: Sequence[Hint] = (("enter", "records them"), ("esc", "closes"))
_NO_TOKENS = (
    "This reply has no recorded tokens.",
    "Enter records the tokens of later replies in this chat, each with its likeliest alternatives.",
)
Record = Callable[[], Awaitable[None]]
RECORDED_ALTERNATIVES = 5
_LIST_HINTS: Sequence[Hint] = (("enter", "continues from it"), ("tab", "back"), ("esc", "closes"))


@dataclass(frozen=True)
class TokenChoice:
    """Write the reply again from a token on, with another one in its place."""

    index: int
    token_id: int


def alternative_rows(token: Token, ink: WidgetStyle, width: int) -> list[ListRow]:
    """What could have stood there, likeliest first; the one that does stand there is told."""
    others = list(token.others)[:_MOST_ALTERNATIVES]
    if all(number != token.id for number, _, _ in others):
        others.append((token.id, token.text, token.p))
    others.sort(key=lambda other: -other[2])
    meter = max(4, min(_METER_CELLS, width - 27))
    name_width = max(8, width - meter - 26)
    rows: list[ListRow] = []
    for number, text, p in others:
        cells = round(p * meter)
        written = number == token.id
        name = Span(f'"{visible(text, number)}"', bold=written)
        spans = [
            *fitted((name,), name_width, ink.glyphs.cut_right),
            Span("  "),
            Span(ink.glyphs.meter * cells, "primary" if written else "muted"),
            Span(ink.glyphs.rule * (meter - cells), "faint"),
            Span(f"  {percent(p)}"),
        ]
        rows.append(ListRow(spans, (Span("written", "muted"),) if written else (), str(number)))
    return rows


class TokenView(Dialog[TokenChoice | None]):
    """Look at a reply's tokens; gives back from which one to write on, or None."""

    WIDTH = 104
    BINDINGS: ClassVar[Any] = [
        Binding("tab,shift+tab", "zone", show=False, priority=True),
        Binding("enter", "choose", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
    ]

    def __init__(self, shell: Shell, tokens: Sequence[Token], record: Record) -> None:
        """`record` has the tokens of later replies recorded, where these were not."""
        super().__init__(shell, "tokens", _FLOW_HINTS if tokens else _EMPTY_HINTS)
        self._tokens = tokens
        self._record: Record | None = record
        self._told = _NO_TOKENS
        self._empty = Lines(id="empty")
        self._in_list = False
        self.flow = TokenFlow(tokens, id="flow")
        self._fact = Lines(id="fact")
        self.list = Alternatives(id="list")

    def body(self) -> Iterable[Widget]:
        if not self._tokens:
            yield spread(self._empty, bottom=1)
            return
        yield spread(self.flow)
        yield spread(self._fact, top=1)
        yield spread(self.list, hanging=True, bottom=1)

    def resized(self) -> None:
        if not self._tokens:
            self._show_empty()
            return
        self.list.styles.height = max(3, min(8, self.sheet_rows // 3))
        self._show_token()

    def _show_empty(self) -> None:
        fact, further = self._told
        rows = [ListRow((Span(line, bold=True),), indent=0) for line in wrapped(fact, self.inner_width)]
        rows += [ListRow((Span(line, "muted"),), indent=0) for line in wrapped(further, self.inner_width)]
        self._empty.show(rows)

    def _show_token(self) -> None:
        number = self.flow.at
        token = self._tokens[number]
        place = Span(f"token {number + 1:,} of {len(self._tokens):,}", "muted")
        sure = Span(f"   {percent(token.p)}", bold=True)
        rule = ListRow((Span(self.ink.glyphs.rule * self.inner_width, "faint"),), indent=0)
        self._fact.show([rule, ListRow((place, sure), (Span(f"id {token.id}", "muted"),), indent=0)])
        self.list.active = self._in_list
        self.list.show(alternative_rows(token, self.ink, self.inner_width - 2), str(token.id))

    def on_token_flow_moved(self, event: TokenFlow.Moved) -> None:
        event.stop()
        self._show_token()

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        event.stop()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._continue_from(event.key)

    def action_zone(self) -> None:
        """Go between the reply and the alternatives."""
        if not self._tokens:
            return
        self._in_list = not self._in_list
        self.list.active = self._in_list
        self.hint(_LIST_HINTS if self._in_list else _FLOW_HINTS)
        (self.list if self._in_list else self.flow).focus()

    def action_move(self, step: int) -> None:
        self.list.move(step)

    @work(exclusive=True, group="record")
    async def _record_from_now_on(self, record: Record) -> None:
        try:
            await record()
        except FiresideError as err:
            self._told = ("The tokens cannot be recorded.", plain(str(err)))
        else:
            self._record = None
            again = self.shell.label("retry")
            self._told = (
                "Token details are recorded from the next reply on.",
                f"{again} regenerates the reply.",
            )
            self.hint(_EMPTY_HINTS[1:])
        self._show_empty()

    def action_choose(self) -> None:
        if not self._tokens:
            if self._record is not None:
                self._record_from_now_on(self._record)
        elif not self._in_list:
            self.action_zone()
        elif (key := self.list.selected) is not None:
            self._continue_from(key)

    def _continue_from(self, key: str) -> None:
        if int(key) != self._tokens[self.flow.at].id:
            self.dismiss(TokenChoice(self.flow.at, int(key)))


class Alternatives(RowList, can_focus=True):
    """The other tokens. It holds the focus while one is chosen."""


async def last_tokens(manager: SessionManager, session_id: str) -> tuple[str, list[Token]]:
    """The newest reply of a chat that has recorded tokens: its item's id and they; none where none has."""
    for item in await manager.list_items(session_id, limit=_MOST_ITEMS, order="desc"):
        if isinstance(item, TextMessage) and item.role == "assistant" and item.tokens:
            return item.id, tokens_of(item.tokens)
    return "", []


async def record_tokens(manager: SessionManager, session_id: str) -> None:
    """Have the tokens of a chat's later replies recorded."""
    held = dict((await manager.settings(session_id))["config"]["value"])
    await manager.configure(session_id, config={**held, "logprobs": RECORDED_ALTERNATIVES})
