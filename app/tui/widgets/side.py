"""The chats pane: every chat in one widget, grouped by time, with its state as mark and word.

It shows what it is given and posts what a person wants done; it changes no chat itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message

from app.clock import now
from app.frontend.ages import age, grouped
from app.sessions.records import is_asked_once
from app.tui.frame import is_tall
from app.tui.widgets.cells import Span, cut, fitted, plain
from app.tui.widgets.rows import BLANK, Lines, ListRow, RowList, lines
from app.tui.widgets.style import style_of

if TYPE_CHECKING:
    from app.sessions.snapshot import SessionSummary
    from app.terminal.glyphs import Glyphs
    from app.tui.shell import LiveState, Shell

ChatState = Literal["asks", "running", "waits", "new", "failed", "idle"]
Wish = Literal["open", "rename", "pin", "archive", "delete", "fork"]

UNTITLED = "new chat"
ONE_SHOTS = "one-shots"
"""The row that stands for all chats of one question, and its key."""
KEYS: Sequence[tuple[tuple[str, str], tuple[str, str]]] = (
    (("enter", "open"), ("r", "rename")),
    (("p", "pin"), ("a", "archive")),
    (("d", "delete"), ("f", "fork")),
)
"""What can be done with the selected chat; told while the pane has the keys."""
_KEYS_FROM_ROWS = 16
_KEY_COLUMN = 14
_NO_CHATS = ("No chats yet.", "Write a message to", "begin the first.")
_OLDER = "older ones: /chats"
_EMBER_S = 0.5
_TEXT_AT = 4
_GAP = 2
_END = 2
"""Cells between a row's word and the pane's right edge."""


@dataclass(frozen=True, slots=True)
class ChatLine:
    """One chat of the list. `word` stands at the right where the state has none of its own."""

    id: str
    title: str
    updated_at: int
    pinned: bool = False
    state: ChatState = "idle"
    word: str = ""
    once: bool = False
    """Whether it is one question of `fireside -p` that nobody went on with."""


def chat_line(summary: SessionSummary, live: LiveState | None = None) -> ChatLine:
    """A chat as the store and, where it is open here, the screen know it."""
    state, word = _state(summary, live)
    title = plain(summary.title or "") or UNTITLED
    once = is_asked_once(summary.labels)
    return ChatLine(summary.id, title, summary.updated_at, summary.pinned, state, word, once)


def _state(summary: SessionSummary, live: LiveState | None) -> tuple[ChatState, str]:
    if live is not None and not (summary.pending_elicitations_count and not live.asking):
        return live_state(live)
    if summary.pending_elicitations_count:
        return "asks", ""
    # What another program runs, or what ended here long ago.
    return ("failed", "") if summary.status == "failed" else ("idle", "")


def live_state(live: LiveState) -> tuple[ChatState, str]:
    """How a chat that is open here stands, and the word for how far it is."""
    if live.asking:
        return "asks", ""
    if live.waits:
        return "waits", ""
    if live.running:
        if live.prefill is not None:
            return "running", f"{live.prefill:.0%}".replace("%", " %")
        return "running", f"{live.speed:.0f} t/s" if live.speed else "..."
    if live.failed:
        return "failed", ""
    return ("new", "") if live.unread else ("idle", "")


def mark_of(state: ChatState, glyphs: Glyphs, step: int = 0) -> Span:
    """The sign before a title."""
    match state:
        case "asks":
            return Span("?", "approval", bold=True)
        case "running":
            return Span(glyphs.ember[step % len(glyphs.ember)], "primary")
        case "new":
            return Span(glyphs.unread, "accent")
        case "failed":
            return Span(glyphs.failed, "error")
        case "waits" | "idle":
            return Span(" ")


def word_of(chat: ChatLine, now: float) -> Span:
    """The word at the right end of a row."""
    match chat.state:
        case "asks":
            return Span("asks", "approval", bold=True)
        case "running":
            return Span(chat.word, "primary")
        case "waits":
            return Span("waits", "muted")
        case "new":
            return Span("new", "accent")
        case "failed":
            return Span("failed", "error")
        case "idle":
            return Span(age(chat.updated_at, now), "muted")


def chat_row(chat: ChatLine, width: int, now: float, glyphs: Glyphs, step: int = 0) -> ListRow:
    """The row of a chat in a pane of `width` cells, from the mark on."""
    word = word_of(chat, now)
    room = width - _TEXT_AT - _GAP - len(word.text) - _END
    title = cut(chat.title, room, glyphs.cut_right)
    bold = chat.state in ("asks", "new")
    name = (Span(" "), mark_of(chat.state, glyphs, step), Span(" "), Span(title, bold=bold))
    return ListRow(name, (word,), chat.id, indent=0, named=4)


class ChatsPane(Vertical, can_focus=True):
    """All chats. `show` gives the list; the open chat is marked even while the pane has no focus."""

    DEFAULT_CSS = """
    ChatsPane { background: $surface; height: 100%; padding: 0; }
    ChatsPane Lines { background: $surface; width: 100%; }
    ChatsPane RowList { background: $surface; width: 100%; }
    """
    BINDINGS: ClassVar[Any] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "a page up", show=False),
        Binding("pagedown,ctrl+d", "page(1)", "a page down", show=False),
        Binding("home,g", "jump(False)", "first", show=False),
        Binding("end,G", "jump(True)", "last", show=False),
        Binding("enter", "wish('open')", "open"),
        Binding("r", "wish('rename')", "rename"),
        Binding("p", "wish('pin')", "pin"),
        Binding("a", "wish('archive')", "archive"),
        Binding("d,delete", "wish('delete')", "delete"),
        Binding("f", "wish('fork')", "fork"),
    ]

    class Wished(Message):
        """A person wants something done with a chat."""

        def __init__(self, session_id: str, wish: Wish) -> None:
            super().__init__()
            self.session_id = session_id
            self.wish: Wish = wish

    def __init__(self, *, clock: Callable[[], float] = now, motion: bool = True) -> None:
        super().__init__(id="chats")
        self._clock = clock
        self._motion = motion
        self._chats: dict[str, ChatLine] = {}
        self._told = False
        """Whether it is known which chats there are."""
        self._open: str | None = None
        self._wanted: str | None = None
        self._step = 0
        self._has_keys = False
        self._has_more = False
        self._unfolded = False
        """Whether the one-shots are listed one by one."""
        self._head = Lines(ground="surface", id="chats-head")
        self._list = RowList(ground="surface", to_the_end=True, one_click=True, id="chats-list")
        self._foot = Lines(ground="surface", id="chats-foot")

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._list
        yield self._foot

    def on_mount(self) -> None:
        self._ticks = self.set_interval(_EMBER_S, self._tick, pause=True)
        self._draw()

    # ---- what is shown ---------------------------------------------------------------------

    def show(self, chats: Iterable[ChatLine], open_id: str | None = None, *, has_more: bool = False) -> None:
        """Show these chats; `open_id` is the one beside the pane, `has_more` where there are older ones."""
        before = {(chat.id, chat.pinned, chat.updated_at) for chat in self._chats.values()}
        self._chats = {chat.id: chat for chat in chats}
        follows = open_id != self._open
        if follows:
            self._open = self._wanted = open_id
        follows = follows or has_more != self._has_more
        follows = follows or not self._told
        self._has_more, self._told = has_more, True
        if self._wanted is None and self.selected not in self._chats:
            self._wanted = self._neighbour()
        if follows or before != {(chat.id, chat.pinned, chat.updated_at) for chat in self._chats.values()}:
            self._draw()
        else:
            for chat in self._chats.values():
                self._list.change(self._row(chat))
        self._pace()

    def _neighbour(self) -> str | None:
        """The nearest chat to the selected one, which is gone: below it, else above."""
        order = [row.key for row in self._list.rows if row.key is not None]
        if self.selected not in order:
            return None
        place = order.index(self.selected)
        return next((key for key in (*order[place:], *reversed(order[:place])) if key in self._chats), None)

    def change(self, session_id: str, state: ChatState, word: str = "") -> None:
        """One chat has another state; costs one row."""
        chat = self._chats.get(session_id)
        if chat is None or (chat.state, chat.word) == (state, word):
            return
        self._chats[session_id] = changed = replace(chat, state=state, word=word)
        if self.is_mounted:
            self._list.change(self._row(changed))
        self._pace()

    @property
    def selected(self) -> str | None:
        """The id of the chat under the mark."""
        return self._list.selected

    def _draw(self) -> None:
        if not self.is_mounted or not self.size.width:
            return
        self._head.show(self._head_rows())
        self._show_foot()
        self._show_mark()
        rows: list[ListRow] = []
        once = {chat.id for chat in self._chats.values() if self._is_folded(chat)}
        others = [chat for chat in self._chats.values() if chat.id not in once]
        for name, chats in grouped(others, self._clock()):
            rows += [BLANK] if rows else []
            rows.append(ListRow((Span(name, "muted"),), indent=_TEXT_AT - 1))
            rows += [self._row(chat) for chat in chats]
        if once:
            rows += [BLANK] if rows else []
            rows.append(self._fold_row(len(once)))
        if once and self._unfolded:
            folded = sorted((self._chats[key] for key in once), key=lambda chat: -chat.updated_at)
            rows += [self._row(chat) for chat in folded]
        if self._has_more:
            rows += [BLANK, ListRow((Span(_OLDER, "muted"),), indent=_TEXT_AT - 1)]
        if not rows and self._told:
            rows = lines(_NO_CHATS, "muted", indent=_TEXT_AT - 1)
        self._list.show(rows, self._wanted)
        self._wanted = None

    def _is_folded(self, chat: ChatLine) -> bool:
        """Whether a chat is one of many that nobody looks for by its time."""
        return chat.once and not chat.pinned and chat.state == "idle" and chat.id != self._open

    def _fold_row(self, count: int) -> ListRow:
        glyphs = style_of(self).glyphs
        sign = glyphs.unfolded if self._unfolded else glyphs.folded
        name = (Span(" "), Span(sign, "muted"), Span(" "), Span(ONE_SHOTS, "muted"))
        return ListRow(name, (Span(f"{count:,}", "muted"), Span(" " * _END)), ONE_SHOTS, indent=0, named=4)

    def _show_foot(self) -> None:
        ink = style_of(self)
        rows = [BLANK]
        if self._has_keys and self._chats and self.tells_keys:
            for pair in KEYS:
                first, second = (
                    (Span(ink.key(key), bold=True), Span(f" {does}", "muted")) for key, does in pair
                )
                rows.append(ListRow((*fitted(first, _KEY_COLUMN), *second), indent=_TEXT_AT))
            rows.append(BLANK)
        if key := self._shell.label("search"):
            rows.append(ListRow((Span(f"{key} search", "muted"),), indent=_TEXT_AT))
        self._foot.show(rows)

    @property
    def tells_keys(self) -> bool:
        """Whether there is room for its keys; else somebody else is to tell them."""
        return self.size.height >= _KEYS_FROM_ROWS

    @property
    def _shell(self) -> Shell:
        return cast("Shell", self.app)

    def _head_rows(self) -> Sequence[ListRow]:
        key = self._shell.label("new_chat")
        new = (Span(f"{key} new" if key else "", "muted"), Span(" " * _END))
        row = ListRow((Span("chats", bold=True),), new, indent=_TEXT_AT)
        return [BLANK, row, BLANK] if is_tall(self.screen.size.height) else [row, BLANK]

    def _row(self, chat: ChatLine) -> ListRow:
        return chat_row(chat, self.size.width, self._clock(), style_of(self).glyphs, self._step)

    def _pace(self) -> None:
        """The ember steps only while something runs."""
        if not self.is_mounted:
            return
        alive = self._motion and any(chat.state == "running" for chat in self._chats.values())
        if alive:
            self._ticks.resume()
        else:
            self._ticks.pause()

    def _tick(self) -> None:
        self._step += 1
        for chat in self._chats.values():
            if chat.state == "running":
                self._list.change(self._row(chat))

    # ---- events ----------------------------------------------------------------------------

    def on_resize(self) -> None:
        self._draw()

    def _show_mark(self) -> None:
        """Without the keys the mark tells which chat is open; a new one is none of the list."""
        self._list.active = self._has_keys
        self._list.marks = self._has_keys or self._open is not None

    def on_focus(self) -> None:
        self._has_keys = True
        self._show_mark()
        self._show_foot()

    def on_blur(self) -> None:
        self._has_keys = False
        self._show_mark()
        self._show_foot()
        if self._open is not None:
            self._list.select(self._open)

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        event.stop()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self._wish(event.key, "open")

    def action_move(self, step: int) -> None:
        self._list.move(step)

    def action_page(self, direction: int) -> None:
        self._list.page(direction)

    def action_jump(self, end: bool) -> None:
        self._list.jump(end=end)

    def action_wish(self, wish: Wish) -> None:
        if (selected := self._list.selected) is not None:
            self._wish(selected, wish)

    def _wish(self, session_id: str, wish: Wish) -> None:
        if session_id == ONE_SHOTS:
            if wish == "open":
                self._unfolded, self._wanted = not self._unfolded, ONE_SHOTS
                self._draw()
            return
        self.post_message(self.Wished(session_id, wish))
