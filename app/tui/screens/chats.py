"""The chats picker: every chat by title, those that were put away as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding

from app.clock import now
from app.sessions.errors import FiresideError
from app.tui.screens.dialog import Hint
from app.tui.shell import Shell
from app.tui.widgets.ages import grouped
from app.tui.widgets.cells import Span, plain
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.side import ChatLine, chat_line, word_of

LIMIT = 10_000
_NO_CHATS = "There is no chat yet. Your first message begins one."
_HINTS: Sequence[Hint] = (("enter", "opens"), ("ctrl+x", "puts it away"), ("esc", "closes"))
ARCHIVED = "put away"


def entries_of(chats: Sequence[ChatLine], now: float, archived: Iterable[str] = ()) -> list[Entry]:
    """Chats as entries, grouped as in the pane; those in `archived` at the end."""
    away = frozenset(archived)
    groups = grouped([chat for chat in chats if chat.id not in away], now)
    stored = sorted((chat for chat in chats if chat.id in away), key=lambda chat: -chat.updated_at)
    if stored:
        groups.append((ARCHIVED, stored))
    return [
        Entry(chat.id, chat.title, facts=(word_of(chat, now),), group=name)
        for name, group in groups
        for chat in group
    ]


class ChatsPicker(Picker):
    """Choose a chat, put it away or take it out again. Gives back the id of the chosen one, or None."""

    BINDINGS: ClassVar[Any] = [Binding("ctrl+x", "put_away", show=False, priority=True)]

    def __init__(
        self,
        shell: Shell,
        *,
        query: str = "",
        current: str | None = None,
        clock: Callable[[], float] = now,
    ) -> None:
        super().__init__(
            shell,
            "chats",
            hints=_HINTS,
            query=query,
            current=current,
            empty="Looking for chats",
        )
        self._clock = clock
        self._away: frozenset[str] = frozenset()

    def on_mount(self) -> None:
        self._look()

    @work(exclusive=True, group="chats")
    async def _look(self) -> None:
        await self._read()

    async def _read(self) -> None:
        try:
            found = await self.shell.manager.list(LIMIT, include_archived=True)
        except FiresideError as err:
            self._empty = str(err)
            self.refill()
            return
        states = self.shell.live_states()
        chats = [chat_line(summary, states.get(summary.id)) for summary in found]
        self._away = frozenset(summary.id for summary in found if summary.archived)
        self._empty = _NO_CHATS
        self.give(entries_of(chats, self._clock(), self._away))

    def selected(self, entry: Entry | None) -> None:
        away = entry is not None and entry.key in self._away
        self.hint((_HINTS[0], ("ctrl+x", "takes it out"), _HINTS[-1]) if away else _HINTS)

    def action_put_away(self) -> None:
        """Put the selected chat away, or take it out again; it stays where it is said."""
        if (key := self.list.selected) is not None:
            self._put(key, away=key not in self._away)

    @work(exclusive=True, group="put")
    async def _put(self, key: str, *, away: bool) -> None:
        try:
            await self.shell.manager.archive(key, away)
        except FiresideError as err:
            self.filter.say((Span(plain(str(err))[:60], "error"),))
            return
        if away:
            await self.shell.close_chat(key)
        await self._read()
        said = "put away, at the end of this list" if away else "taken out again"
        self.filter.say((Span(said, "success"),))
