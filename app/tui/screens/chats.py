"""The chats picker: every chat by title, those too that were put away or deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding

from app.clock import now
from app.frontend.ages import grouped
from app.sessions.errors import FiresideError
from app.tui.screens.dialog import Hint
from app.tui.shell import Shell
from app.tui.widgets.cells import Span, plain
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.side import ONE_SHOTS, ChatLine, chat_line, word_of

LIMIT = 10_000
_NO_CHATS = "There are no chats yet. Your first message starts one."
_HINTS: Sequence[Hint] = (("enter", "opens"), ("ctrl+x", "archives"), ("esc", "closes"))
_AWAY_HINTS: Sequence[Hint] = (("enter", "opens"), ("ctrl+x", "unarchives"), ("esc", "closes"))
_DELETED_HINTS: Sequence[Hint] = (("enter", "restores"), ("esc", "closes"))
ARCHIVED, DELETED = "archived", "deleted, kept for 30 days"


def entries_of(
    chats: Sequence[ChatLine],
    now: float,
    archived: Iterable[str] = (),
    deleted: Sequence[ChatLine] = (),
) -> list[Entry]:
    """Chats as entries, grouped as in the pane; those in `archived` and the deleted ones at the end."""
    away = frozenset(archived)
    here = [chat for chat in chats if chat.id not in away]
    groups = grouped([chat for chat in here if chat.pinned or not chat.once], now)
    once = [chat for chat in here if chat.once and not chat.pinned]
    for name, stored in (
        (ONE_SHOTS, once),
        (ARCHIVED, [chat for chat in chats if chat.id in away]),
        (DELETED, deleted),
    ):
        if stored:
            groups.append((name, sorted(stored, key=lambda chat: -chat.updated_at)))
    return [
        Entry(chat.id, chat.title, facts=(word_of(chat, now),), group=name)
        for name, group in groups
        for chat in group
    ]


class ChatsPicker(Picker):
    """Choose a chat, put it away or take it out again. Gives back the id of the chosen one, or None.

    One that was deleted is taken back when it is chosen.
    """

    BINDINGS: ClassVar[Any] = [Binding("ctrl+x", "put_away", show=False, priority=True)]

    def __init__(
        self,
        shell: Shell,
        *,
        current: str | None = None,
        clock: Callable[[], float] = now,
    ) -> None:
        super().__init__(
            shell,
            "chats",
            hints=_HINTS,
            current=current,
            empty="Looking for chats",
        )
        self._clock = clock
        self._away: frozenset[str] = frozenset()
        self._deleted: frozenset[str] = frozenset()

    def on_mount(self) -> None:
        self._look()

    @work(exclusive=True, group="chats")
    async def _look(self) -> None:
        await self._read()

    async def _read(self) -> None:
        try:
            found = await self.shell.manager.list(LIMIT, include_archived=True)
            # What was dropped because nothing was said in it has no title, and nobody misses it.
            gone = [chat_line(one) for one in await self.shell.manager.deleted() if one.title]
        except FiresideError as err:
            self._empty = str(err)
            self.refill()
            return
        states = self.shell.live_states()
        chats = [chat_line(summary, states.get(summary.id)) for summary in found]
        self._away = frozenset(summary.id for summary in found if summary.archived)
        self._deleted = frozenset(chat.id for chat in gone)
        self._empty = _NO_CHATS
        self.give(entries_of(chats, self._clock(), self._away, gone))

    def selected(self, entry: Entry | None) -> None:
        key = entry.key if entry is not None else ""
        away, deleted = key in self._away, key in self._deleted
        self.hint(_DELETED_HINTS if deleted else _AWAY_HINTS if away else _HINTS)

    def choose(self) -> None:
        key = self.list.selected
        if key is not None and key in self._deleted:
            self._take_back(key)
        else:
            super().choose()

    @work(exclusive=True, group="put")
    async def _take_back(self, key: str) -> None:
        try:
            await self.shell.manager.undelete(key)
        except FiresideError as err:
            self._tell(err)
            return
        self.dismiss(key)

    def _tell(self, err: FiresideError) -> None:
        self.filter.say((Span(plain(str(err))[:60], "error"),))

    def action_put_away(self) -> None:
        """Put the selected chat away, or take it out again."""
        key = self.list.selected
        if key is not None and key not in self._deleted:
            self._put(key, away=key not in self._away)

    @work(exclusive=True, group="put")
    async def _put(self, key: str, *, away: bool) -> None:
        try:
            await self.shell.manager.archive(key, away)
        except FiresideError as err:
            self._tell(err)
            return
        if away:
            await self.shell.close_chat(key)
        await self._read()
        said = "archived, at the end of this list" if away else "unarchived"
        self.filter.say((Span(said, "success"),))
