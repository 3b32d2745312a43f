"""Reading the conversation: scrolling, finding, following a link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events

from app.tui.keys import key_name, keys_at
from app.tui.program import dialogs
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from app.tui.shell import Program
    from app.tui.transcript.view import Transcript


class Reader:
    """Moves through the transcript."""

    def __init__(self, program: Program, parts: Parts, chats: OpenChats) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._keys = keys_at("block", parts.bound)

    # ---- scrolling -------------------------------------------------------------------------

    def page(self, direction: int) -> None:
        """A page up or down; at a card of what it asks about, where that is long."""
        if self._parts.approval.has_focus and self._parts.approval.turn_page(direction):
            return
        if direction < 0:
            self._parts.transcript.action_page_up()
            self.reach_up()
        else:
            self._parts.transcript.action_page_down()

    def newest(self) -> None:
        self._parts.transcript.to_end()

    def oldest(self) -> None:
        """To the very first line."""
        self._program.start(self._oldest, group="older", exclusive=True)

    async def _oldest(self) -> None:
        chat = self._chats.current
        while chat.view.has_older:
            await chat.load_older()
        self._parts.transcript.scroll_home(animate=False)

    def reach_up(self) -> None:
        """At the top, put older messages above, where the store has some."""
        if self._parts.transcript.scroll_offset.y == 0 and self._chats.current.view.has_older:
            self._program.start(self._load_older, group="older", exclusive=True)

    async def _load_older(self) -> None:
        await self._chats.current.load_older()

    # ---- finding ---------------------------------------------------------------------------

    def find(self) -> None:
        self._program.start(self._find, group="find", exclusive=True)

    async def _find(self) -> None:
        transcript, chat = self._parts.transcript, self._chats.current
        query = await dialogs.ask(self._program, "find in this chat")
        if not query:
            transcript.find_clear()
            return
        while not transcript.find(query) and chat.view.has_older:
            await chat.load_older()
        transcript.focus()
        self._tell_found()

    def find_key(self, event: events.Key) -> bool:
        """Keys that find in the chat; whether this is one."""
        transcript = self._parts.transcript
        found = transcript.found[1] > 0
        match self._keys.get(key_name(event.key), event.key):
            case "find_again":
                self.find()
            case "find_next" if found:
                transcript.find_next()
            case "find_before" if found:
                transcript.find_previous()
            case "escape" if found and transcript.current is None:
                transcript.find_clear()
                self._parts.draft.focus()
                return True
            case _:
                return False
        self._tell_found()
        return True

    def _tell_found(self) -> None:
        at, count = self._parts.transcript.found
        if not count:
            self._parts.say("no matches in this chat")
            return
        news = f"match {at} of {count}" if count > 1 else "one match"
        hints: Sequence[Hint] = (("find_next", "next"), ("find_before", "before")) if count > 1 else ()
        self._parts.seam.say(News(news, hints=hints))

    # ---- links -----------------------------------------------------------------------------

    def choose_link(self, event: Transcript.LinkChosen) -> None:
        """A click tells where a link leads; with ctrl it opens."""
        if event.url is None:
            self._parts.say(f"not a web address: {event.target}")
        elif event.meant:
            self._program.open_url(event.url)
        else:
            self._parts.seam.say(News(event.url, hints=(("ctrl+click", "opens"),)))
