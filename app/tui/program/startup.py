"""How the program begins and ends: the first frame, the keys pressed meanwhile, the chats that are opened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual import events

from app.exits import explain
from app.frontend.paste import normalized
from app.frontend.start import Start, configure, in_thread, make_manager, newest_of, open_manager
from app.terminal.output import one_line, sanitize
from app.tui.keys import keys_of
from app.tui.program.drafts import Drafts
from app.tui.program.model import ModelControl
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal
from app.tui.widgets.status import Facts

if TYPE_CHECKING:
    from app.exits import Failure
    from app.sessions.manager import SessionManager
    from app.tui.chat.chat import Chat
    from app.tui.shell import Program

LEAVING = ("copy", "quit", "suspend")
"""What acts from the first frame on, by the names in `keys`."""


class EarlyKeys:
    """The keys that were pressed before all parts were there. `act` does what a key does."""

    def __init__(self, parts: Parts, act: Callable[[events.Event], Awaitable[None]]) -> None:
        self._parts = parts
        self._act = act
        self._held: list[events.Event] | None = []

    def holds(self, event: events.Event) -> bool:
        """Whether an event waits. Letters go to the draft; a key that means more waits, with all after it.

        Those that stop or leave never wait: the rest of the screen may not come.
        """
        if self._held is None or not isinstance(event, (events.Key, events.Paste)):
            return False
        if self._leaves(event) or self._writes_now(event):
            return False
        self._held.append(event)
        return True

    def _leaves(self, event: events.Key | events.Paste) -> bool:
        if isinstance(event, events.Paste):
            return False
        if any(event.key in keys_of(name, self._parts.bound) for name in LEAVING):
            return True
        draft = self._parts.draft
        empty = not draft.text and not self.text
        return event.key == "ctrl+d" and empty and (draft.vi is None or draft.vi.inserts)

    def _writes_now(self, event: events.Key | events.Paste) -> bool:
        if self._held:
            return False
        char = event.character if isinstance(event, events.Key) else None
        return char is not None and char.isalnum() and self._parts.draft.has_focus

    @property
    def over(self) -> bool:
        """Whether keys are handed on as they come."""
        return self._held is None

    @property
    def text(self) -> str:
        """What was written and is not in the draft yet."""
        return "".join(_written_by(event) for event in self._held or ())

    def drop(self) -> None:
        """The keys that wait come to nothing."""
        if self._held is not None:
            self._held = []

    async def hand_on(self) -> None:
        """Let keys act from now on, those first that wait."""
        held, self._held = self._held or [], None
        for event in held:
            await self._act(event)


class Startup:
    """Begins and ends the program. `make` builds the manager, off the event loop; `furnish` brings the
    parts that the first frame does without."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        keys: EarlyKeys,
        chats: OpenChats,
        drafts: Drafts,
        model: ModelControl,
        *,
        start: Start,
        make: Callable[[Start], SessionManager],
        furnish: Callable[[], Awaitable[None]],
    ) -> None:
        self.started: Signal[[]] = Signal()
        """The manager is there, and the first chat."""
        self.asks_which: Signal[[]] = Signal()
        """A person wants to go on with a chat and named none."""
        self.drawn: Callable[[], None] = lambda: None
        """Called once, when what a person waits for at the start is on the screen."""
        self.failure: Failure | None = None
        """Why the program could not begin; told after the terminal is itself again."""
        self._program = program
        self._parts = parts
        self._keys = keys
        self._chats = chats
        self._drafts = drafts
        self._model = model
        self._start = start
        self._make = make
        self._furnish = furnish

    # ---- the beginning ---------------------------------------------------------------------

    def mount(self) -> None:
        """The first frame is near: keys are bound before the first one comes."""
        self._parts.bind_keys(vi=bool(self._start.settings.get("vi_keys")))
        self._parts.status.show(Facts(private=self._start.private), self._parts.grid)
        self._program.call_after_refresh(self._begin_soon)

    def _begin_soon(self) -> None:
        # The first frame is there: everything heavy comes after it.
        self._program.start(self._begin, group="begin")

    async def _begin(self) -> None:
        chats = self._chats
        try:
            await self._furnish()
            self._parts.draft.focus()
            self._program.call_later(self._keys.hand_on)
            if self._make is make_manager:
                await self._glance()
            self.drawn()
            manager = await open_manager(self._start, self._make, chats.hold)
            await chats.give_manager()
            self._model.opened.set()
            if self._start.notices:
                # They stay until a key is pressed: some say what is wrong with the settings.
                self._parts.say("   ".join(self._start.notices), error=True)
            self._program.start(self._model.load_first, group="load")
            await self._first_chat(manager)
            # What was sent meanwhile goes to this chat, not to the one that stood in for it.
            chats.begun.set()
        except Exception as err:
            if chats.closing:  # the person left before it had begun
                return
            self.failure = explain(err)
            self._program.exit(return_code=int(self.failure.exit_code))
            return
        self.started()
        if self._start.resume == "":
            self.asks_which()
        await in_thread(_load_markdown)

    async def _glance(self) -> None:
        """Show the end of the chat to go on with, and wait until it is painted: all else takes longer."""
        items = await in_thread(newest_of, self._start)
        if not items:
            return
        from app.tui.chat.story import Story

        self._parts.transcript.replace_all(Story(self._chats.answerer).tell(items))
        painted = asyncio.Event()
        self._program.call_after_refresh(painted.set)
        await painted.wait()

    async def _first_chat(self, manager: SessionManager) -> None:
        from app.frontend.find_chat import chosen, unsaid

        start = self._start
        session_id = await chosen(manager, start)
        if session_id is not None:
            await configure(manager, session_id, start, is_new=False)
        elif not start.private and not self._parts.draft.text:
            session_id = await unsaid(manager)
        if session_id is not None:
            await self._chats.open_first(session_id)

    # ---- the end ---------------------------------------------------------------------------

    async def close_down(self) -> None:
        """Stop what runs and store the rest; the terminal is the shell's again already."""
        chats, drafts = self._chats, self._drafts
        chats.closing = True
        drafts.close()
        # An editor that has to end leaves what was saved in it, which is kept.
        await self._program.ended("editor")
        if not chats.begun.is_set():
            # No chat could keep it: up brings it back.
            written = drafts.unsent + self._keys.text
            self._parts.draft.history_of_messages.add(written, keep=not self._start.private)
        # Without its parts there is no chat, and to make one would wait for them.
        left: set[Chat] = chats.all if self._parts.furnished else set()
        for chat in left:
            chat.view.page.close()
        with contextlib.suppress(Exception):
            await drafts.keep()
        for chat in left:
            await chat.close()
            chat.attached.clear()
            await chat.drop_if_empty()
        await chats.close_managers()

    @property
    def resume_line(self) -> str | None:
        """What brings this chat back, for the shell; None for one that is not kept."""
        if not self._parts.furnished:
            return None
        chat = self._chats.current
        if chat.id is None or chat.private or not chat.view.story.items or chat.manager.is_private:
            return None
        return f"To continue {one_line(chat.title)!r}: fireside --resume {chat.id.removeprefix('sess_')[:8]}"


def _written_by(event: events.Event) -> str:
    if isinstance(event, events.Paste):
        return sanitize(normalized(event.text))
    if not isinstance(event, events.Key):
        return ""
    return "\n" if event.key == "enter" else (event.is_printable and event.character) or ""


def _load_markdown() -> None:
    """What the first reply would wait for otherwise."""
    from app.markdown.markdown import warm

    warm()
