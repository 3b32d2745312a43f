"""The chats picker: every chat by title, those that were put away as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from textual import work

from app.clock import now
from app.sessions.errors import FiresideError
from app.tui.shell import Shell
from app.tui.widgets.ages import grouped
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.side import ChatLine, chat_line, word_of

if TYPE_CHECKING:
    from app.sessions.snapshot import SessionSummary

LIMIT = 10_000
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
    """Choose a chat. Gives back its id, or None."""

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
            hints=(("enter", "opens"), ("esc", "closes")),
            query=query,
            current=current,
            empty="There is no chat yet.",
        )
        self._clock = clock

    def on_mount(self) -> None:
        self._look()

    @work(exclusive=True, group="chats")
    async def _look(self) -> None:
        try:
            found = await self.shell.manager.list(LIMIT, include_archived=True)
        except FiresideError as err:
            self._empty = str(err)
            self.refill()
            return
        states = self.shell.live_states()
        chats = [chat_line(summary, states.get(summary.id)) for summary in found]
        self.give(entries_of(chats, self._clock(), _archived(found)))


def _archived(found: Iterable[SessionSummary]) -> list[str]:
    return [summary.id for summary in found if summary.archived]
