"""The chats pane at the left: when it is there, what it lists, and what a person wants done with a chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.screen import Screen
from textual.widget import Widget

from app.tui.frame import side_overlays
from app.tui.program import dialogs
from app.tui.program.drafts import Drafts
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.widgets.seam import Hint, News
from app.tui.widgets.side import ChatLine, Wish, chat_line, live_state

if TYPE_CHECKING:
    from textual.signal import Signal

    from app.tui.chat.chat import Chat
    from app.tui.shell import Program

UNDOES: Hint = ("undo_delete", "restores it")
MOST_LISTED = 500
LISTED = ("opened", "made", "ended", "asked", "resolved", "failed", "consumed", "status")
"""What a chat tells that its row shows."""


class SidePane:
    """The side pane with its chats."""

    def __init__(self, program: Program, parts: Parts, chats: OpenChats, drafts: Drafts) -> None:
        self.deleted: str | None = None
        """The chat that was deleted last."""
        self._program = program
        self._parts = parts
        self._chats = chats
        self._drafts = drafts
        self._was_open = False

    def follow_layout(self) -> None:
        """What lies below the conversation comes, goes and grows: a pane over it leaves that in sight."""
        screen = self._parts.draft.screen
        signal = cast("Signal[Screen[Any]]", screen.screen_layout_refresh_signal)
        signal.subscribe(screen, self._fit)

    def _fit(self, screen: Screen[Any]) -> None:
        rows = self._parts.transcript.region.bottom if self._overlays else None
        height = self._parts.side.styles.height
        if rows != (height.value if height is not None and height.is_cells else None):
            self._parts.side.styles.height = "1fr" if rows is None else rows

    @property
    def _overlays(self) -> bool:
        return side_overlays(self._program.size.width)

    # ---- open and closed -------------------------------------------------------------------

    def switch(self) -> None:
        """Open it or close it."""
        self._parts.open_side(not self._parts.side_open)
        if self._parts.side_open:
            self.open()
        else:
            self._parts.draft.focus()

    def open(self) -> None:
        """Open it and give it the keys."""
        if not self._parts.side_open:
            self._parts.open_side(True)
        self.refresh()
        self._parts.pane.focus()

    def leave(self) -> None:
        """Keys go back to the draft; a pane that lies over the chat closes."""
        self._uncover()
        self._parts.draft.focus()

    def _uncover(self) -> None:
        if self._overlays:
            self._parts.open_side(None)

    def placed(self) -> None:
        """Another width, from which on it may be there: what it did not hear is told now."""
        opened = self._parts.side_open and not self._was_open
        self._was_open = self._parts.side_open
        if opened and self._program.is_running:
            self.refresh()

    def focus_moved(self, to: Widget) -> None:
        """Keys went elsewhere, by tab or a click: no pane lies over what they go to."""
        if not self._parts.side_open:
            return
        above = to.ancestors_with_self
        if self._parts.pane not in above and self._parts.pane.screen in above:
            self._uncover()

    # ---- what it lists ---------------------------------------------------------------------

    def told(self, chat: Chat, what: str) -> None:
        if what in LISTED:
            self.refresh()

    def refresh(self) -> None:
        """List the chats as they are now."""
        self._program.start(self._refresh, group="side", exclusive=True)

    async def _refresh(self) -> None:
        if not self._parts.side_open or not self._chats.is_open:
            return
        listed = await self._chats.manager.list(MOST_LISTED)
        states = self._chats.live_states()
        lines: Sequence[ChatLine] = [
            replace(line, title=f"private: {line.title}")
            for line in (chat_line(one, states.get(one.id)) for one in await self._chats.private_chats())
        ]
        lines = [*lines, *(chat_line(one, states.get(one.id)) for one in listed)]
        self._parts.pane.show(lines, self._chats.current.id, has_more=len(listed) == MOST_LISTED)

    def tick(self) -> None:
        """The numbers of running chats went on."""
        if not self._parts.side_open:
            return
        for session_id, chat in self._chats.open.items():
            if chat.facts.running:
                self._parts.pane.change(session_id, *live_state(chat.facts))

    # ---- what is wanted --------------------------------------------------------------------

    def wish(self, session_id: str, wish: Wish) -> None:
        """A person wants something done with a chat of the list."""
        self._program.start(partial(self._wish, session_id, wish), group="side wish")

    async def _wish(self, session_id: str, wish: Wish) -> None:
        async with self._parts.telling():
            await self._fulfil(session_id, wish)
        self.refresh()

    async def _fulfil(self, session_id: str, wish: Wish) -> None:
        chats = self._chats
        manager, private = await chats.holder(session_id)
        match wish:
            case "archive" | "delete" if private:
                self._drafts.stop_reading_ahead()
                try:
                    await manager.delete(session_id)
                finally:  # it is gone also where the engine fails to forget it
                    await chats.close_chat(session_id)
                self._parts.say("the private chat is closed; nothing of it was saved")
            case "open":
                await chats.open_chat(session_id)
                self.leave()
            case "rename":
                title = (await manager.get(session_id, include_items=False)).title or ""
                named = await dialogs.ask(self._program, "rename the chat", title)
                if named is not None:
                    await manager.rename(session_id, named)
            case "pin":
                snapshot = await manager.get(session_id, include_items=False)
                await manager.pin(session_id, not snapshot.pinned)
            case "archive":
                await manager.archive(session_id)
                await chats.close_chat(session_id)
                self._parts.say("archived; /chats shows it")
            case "fork":
                await chats.open_chat(await manager.fork(session_id))
            case "delete":
                await manager.delete(session_id)
                await chats.close_chat(session_id)
                self.deleted = session_id
                self._parts.seam.say(News("deleted", hints=(UNDOES,)))

    async def delete(self, session_id: str) -> None:
        """Delete a chat; the seam offers to restore it. FiresideError."""
        await self._fulfil(session_id, "delete")
        self.refresh()

    def restore(self) -> None:
        """Restore the chat that was deleted last."""
        if self.deleted is not None:
            self._program.start(partial(self._restore, self.deleted), group="side wish")

    async def _restore(self, session_id: str) -> None:
        async with self._parts.telling():
            await self._chats.manager.undelete(session_id)
            self._parts.say("the chat is restored")
        self.refresh()
