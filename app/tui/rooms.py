"""The rooms beside the conversation: the chats pane, and the page of a first run without a model."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual import events, work

from app.tui.frame import side_overlays
from app.tui.reading import Reading
from app.tui.widgets.composer import PLACEHOLDER
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from app.tui.grid import Grid
    from app.tui.screens.first_run import FirstRunPage
    from app.tui.widgets.side import ChatsPane, Wish

UNDOES: Hint = ("undo_delete", "takes it back")
MOST_LISTED = 500
WRITE_NOW = "write now, it is sent when a model is ready"


class Rooms(Reading):
    """The program with its side pane and its first run."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.deleted: str | None = None
        """The chat that was deleted last."""
        self.first_run: FirstRunPage | None = None
        self._send_when_ready = False
        self._side_was_open = False

    def action_new_chat(self) -> None:
        """An empty chat."""
        self.run_worker(self.new_chat(), exit_on_error=False, group="chats")

    # ---- the first run ---------------------------------------------------------------------

    def load_failed(self, err: Any) -> None:
        """No model is there: where none is on this machine, the ways to one; else the reason."""
        if err.code == "not_found" and self.settings.get("model") is None:
            self._show_first_run()
        else:
            super().load_failed(err)

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
            self.say("Chatting over a server is not built into this face yet; choose a file.", error=True)
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
                self.say("the private chat is closed; nothing of it is left")
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
                self.say("put away; /chats shows it")
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
            self.say("the chat is back")
        self.refresh_side()
