"""The rooms beside the conversation: the chats pane, how an empty chat begins, and the page of a first run
without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from textual import events, work
from textual.screen import Screen

from app.tui.frame import rows_for_page, side_overlays
from app.tui.program.reading import Reading
from app.tui.widgets.composer import PLACEHOLDER, Draft
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from textual.signal import Signal

    from app.frontend.draft import Block
    from app.sessions.snapshot import SessionSummary
    from app.tui.chat.chat import Chat
    from app.tui.grid import Grid
    from app.tui.screens.first_run import FirstRunPage
    from app.tui.widgets.opening import Facts, Opening
    from app.tui.widgets.side import ChatsPane, Wish

UNDOES: Hint = ("undo_delete", "restores it")
MOST_LISTED = 500
WRITE_NOW = "write now; it is sent when a model is ready"


class Rooms(Reading):
    """The program with its side pane and its first run."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.deleted: str | None = None
        """The chat that was deleted last."""
        self.first_run: FirstRunPage | None = None
        self._send_when_ready = False
        self._side_was_open = False
        self._recent: Sequence[SessionSummary] = ()
        self._sent_in: Chat | None = None
        """The chat that a message was sent in last, which may not be on the page yet."""

    def on_mount(self) -> None:
        """Up and down choose a chat to continue while nothing is written."""
        self.draft.moves = lambda step: self.furnished and self.opening.move(step)
        # What lies below the conversation comes, goes and grows: a pane over it leaves that in sight.
        signal = cast("Signal[Screen[Any]]", self.screen.screen_layout_refresh_signal)
        signal.subscribe(self, self._fit_side)

    async def furnish(self) -> None:
        """Bring the other parts, and the page of an empty chat."""
        await super().furnish()
        await self.query_one("#main").mount(self.opening, before=self.seam)

    def started(self) -> None:
        """The chats of this person are known: the newest can be continued."""
        super().started()
        self._list_recent()

    # ---- an empty chat ---------------------------------------------------------------------

    @cached_property
    def opening(self) -> Opening:
        """What an empty chat shows until its first message."""
        from app.tui.widgets.opening import Opening

        return Opening(self.glyphs, self.label)

    @work(exclusive=True, exit_on_error=False, group="recent")
    async def _list_recent(self) -> None:
        from app.tui.widgets.opening import MOST_CHATS

        found = [chat for chat in await self.manager.list(MOST_CHATS + 2) if chat.title]
        self._recent = [chat for chat in found if chat.id != self.chat.id]
        self.show_opening()

    def show_opening(self) -> None:
        """Show how to begin, or no longer."""
        if self.furnished and self.opening.is_mounted:
            self.opening.show(self._opening_facts(), self.grid, rows_for_page(self.size.height))

    def _opening_facts(self) -> Facts | None:
        chat, model = self.chat, self.model
        if not self._begun.is_set() or self.first_run is not None or self.draft.text:
            return None
        if not chat.empty or chat.busy or chat.error is not None or chat is self._sent_in:
            return None
        # Imported by now, and not in the event loop.
        from app.clock import now
        from app.frontend.ages import age
        from app.tui.widgets.opening import MOST_CHATS, STARTER, Facts, Recent

        # The pane beside it lists them all.
        most = 0 if chat.private else 1 if self.side_open else MOST_CHATS
        return Facts(
            model=model.name,
            failed=model.failed,
            window=model.window,
            gpu_layers=model.gpu_layers,
            layers=model.layers,
            starter=model.name == STARTER,
            private=chat.private,
            recent=tuple(
                Recent(one.id, one.title or "", age(one.updated_at, now())) for one in self._recent[:most]
            ),
            more=0 < most < len(self._recent) and not self.side_open,
        )

    def on_draft_sent(self, event: Draft.Sent) -> None:
        """Enter in an empty chat continues the one that is chosen there."""
        if not self.draft.text and self.furnished and (session_id := self.opening.chosen) is not None:
            self._continue(session_id)

    async def post(self, draft: str, blocks: Sequence[Block]) -> None:
        """Send a draft as a message. Raises FiresideError or OSError; nothing is sent then."""
        self._sent_in = self.chat
        await super().post(draft, blocks)

    def on_opening_chosen(self, event: Opening.Chosen) -> None:
        """A chat was clicked."""
        self._continue(event.session_id)

    @work(exclusive=True, exit_on_error=False, group="chats")
    async def _continue(self, session_id: str) -> None:
        async with self.telling():
            await self.open_chat(session_id)

    def draft_changed(self) -> None:
        """What is written takes the place of how to begin."""
        super().draft_changed()
        self.show_opening()

    def chat_shown(self) -> None:
        """Another chat: an empty one tells how to begin."""
        self._sent_in = None
        super().chat_shown()
        if self.chat.empty:
            self._list_recent()

    def refresh_facts(self) -> None:
        """What is known of a chat or the model is another."""
        super().refresh_facts()
        self.show_opening()

    def action_new_chat(self) -> None:
        """An empty chat."""
        self.run_worker(self.new_chat(), exit_on_error=False, group="chats")

    # ---- the first run ---------------------------------------------------------------------

    def load_failed(self, err: Any, source: str | None) -> None:
        """Where no model is on this machine, the ways to one; else the reason: a name may be mistyped."""
        if err.code == "not_found" and source is None and self.settings.get("model") is None:
            self._show_first_run()
        else:
            super().load_failed(err, source)

    @work(exclusive=True, exit_on_error=False, group="first run")
    async def _show_first_run(self) -> None:
        from app.tui.screens.first_run import FirstRunPage

        if self.first_run is not None:
            return
        page = await asyncio.to_thread(FirstRunPage.of_this_machine)
        self.first_run = page
        self.model.machine = page.machine
        self.refresh_facts()
        await self.query_one("#main").mount(page, before=self.transcript)
        self.transcript.display = False
        self.draft.placeholder = WRITE_NOW
        if not self.draft.text:
            page.focus()
        self.show_hints()

    async def on_first_run_page_ready(self, event: FirstRunPage.Ready) -> None:
        """There is a model now."""
        event.stop()
        if event.server:
            self.say("Chatting over a server is not possible here yet; choose a file.", error=True)
            return
        self._leave_first_run(event.source)

    @work(exclusive=True, exit_on_error=False, group="load")
    async def _leave_first_run(self, source: str) -> None:
        if not await self.load_model(source):
            return
        page, self.first_run = self.first_run, None
        if page is not None:
            await page.remove()
        self.transcript.display = True
        self.draft.placeholder = PLACEHOLDER
        self.draft.focus()
        if self._send_when_ready:
            self._send_when_ready = False
            self.draft.action_send()

    def held_back(self) -> bool:
        """Whether a message has to wait for a model."""
        if self.first_run is None:
            return False
        self._send_when_ready = True
        self.say("it is sent when a model is ready")
        return True

    # ---- the side pane ---------------------------------------------------------------------

    def action_chats(self) -> None:
        """Open or close the side pane."""
        self.side_wanted = not self.side_open
        self.place(self.size.width, self.size.height)
        if self.side_open:
            self.open_side()
        else:
            self.draft.focus()

    def placed(self, grid: Grid) -> None:
        """Another width, from which on the side pane may be there: what it did not hear is told now."""
        super().placed(grid)
        opened = self.side_open and not self._side_was_open
        self._side_was_open = self.side_open
        if opened and self.is_running:
            self.refresh_side()

    def _fit_side(self, screen: Screen[Any]) -> None:
        rows = self.transcript.region.bottom if side_overlays(self.size.width) else None
        height = self.side.styles.height
        if rows != (height.value if height is not None and height.is_cells else None):
            self.side.styles.height = "1fr" if rows is None else rows

    def open_side(self) -> None:
        """Open the side pane and give it the keys."""
        if not self.side_open:
            self.side_wanted = True
            self.place(self.size.width, self.size.height)
        self.refresh_side()
        self.pane.focus()

    def leave_side(self) -> None:
        """Keys go back to the draft; a pane that lies over the chat closes."""
        self._uncover()
        self.draft.focus()

    def _uncover(self) -> None:
        if side_overlays(self.size.width):
            self.side_wanted = None
            self.place(self.size.width, self.size.height)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Keys went elsewhere, by tab or a click: no pane lies over what they go to."""
        if not self.furnished or not self.side_open:
            return
        above = event.widget.ancestors_with_self
        if self.pane not in above and self.pane.screen in above:
            self._uncover()

    @work(exclusive=True, exit_on_error=False, group="side")
    async def refresh_side(self) -> None:
        """Tell the side pane what changed."""
        from app.tui.widgets.side import chat_line

        if not self.side_open or self._manager is None:
            return
        listed = await self._manager.list(MOST_LISTED)
        states = self.live_states()
        lines = [chat_line(one, states.get(one.id)) for one in await self.private_chats()]
        lines = [replace(line, title=f"private: {line.title}") for line in lines]
        lines += [chat_line(one, states.get(one.id)) for one in listed]
        self.pane.show(lines, self.chat.id, has_more=len(listed) == MOST_LISTED)

    def tick_side(self) -> None:
        """The numbers of running chats went on."""
        if not self.side_open:
            return
        from app.tui.widgets.side import live_state

        for session_id, chat in self.chats.items():
            if chat.facts.running:
                self.pane.change(session_id, *live_state(chat.facts))

    @work(exit_on_error=False, group="side wish")
    async def on_chats_pane_wished(self, event: ChatsPane.Wished) -> None:
        """A person wants something done with a chat of the list."""
        async with self.telling():
            await self._fulfil(event.session_id, event.wish)
        self.refresh_side()

    async def _fulfil(self, session_id: str, wish: Wish) -> None:
        manager, private = await self.holder(session_id)
        match wish:
            case "archive" | "delete" if private:
                self.stop_reading_ahead()
                try:
                    await manager.delete(session_id)
                finally:  # it is gone also where the engine fails to forget it
                    await self.close_chat(session_id)
                self.say("the private chat is closed; nothing of it was saved")
            case "open":
                await self.open_chat(session_id)
                self.leave_side()
            case "rename":
                title = (await manager.get(session_id, include_items=False)).title or ""
                named = await self.face.ask("rename the chat", title)
                if named is not None:
                    await manager.rename(session_id, named)
            case "pin":
                snapshot = await manager.get(session_id, include_items=False)
                await manager.pin(session_id, not snapshot.pinned)
            case "archive":
                await manager.archive(session_id)
                await self.close_chat(session_id)
                self.say("archived; /chats shows it")
            case "fork":
                await self.open_chat(await manager.fork(session_id))
            case "delete":
                await manager.delete(session_id)
                await self.close_chat(session_id)
                self.deleted = session_id
                self.seam.say(News("deleted", hints=(UNDOES,)))

    async def delete_chat(self, session_id: str) -> None:
        """Delete a chat; the seam offers to take it back. FiresideError."""
        await self._fulfil(session_id, "delete")
        self.refresh_side()

    @work(exit_on_error=False, group="side wish")
    async def undelete(self, session_id: str) -> None:
        """Take a deleted chat back."""
        async with self.telling():
            await self.manager.undelete(session_id)
            self.say("the chat is restored")
        self.refresh_side()
