"""The running program: how it begins and ends, its model, and the facts it tells. Keys are `app`'s matter."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from textual import work

from app.exits import explain
from app.frontend.model_name import short_name
from app.frontend.start import (
    Start,
    configure,
    in_thread,
    make_manager,
    new_settings,
    newest_of,
    open_manager,
)
from app.tui.grid import Grid
from app.tui.keys import word
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import one_line
from app.tui.widgets.status import Facts

if TYPE_CHECKING:
    from app.exits import Failure
    from app.sessions.manager import SessionManager
    from app.tui.chat.chat import Chat

COUNTING = "context"
TICK_S = 0.5
COUNT_AFTER_S = 0.1
"""How long nothing may begin before the context is counted: what is edited is answered at once."""


class Program(OpenChats):
    """Chats with a model. `make` builds the manager, off the event loop."""

    def __init__(
        self, *args: Any, make: Callable[[Start], SessionManager] = make_manager, **fields: Any
    ) -> None:
        super().__init__(*args, **fields)
        self._make = make
        self._given_up = False
        self._opened = asyncio.Event()
        self.drawn: Callable[[], None] = lambda: None
        """Called once, when what a person waits for at the start is on the screen."""
        self.failure: Failure | None = None
        """Why the program could not begin; told after the terminal is itself again."""

    # ---- beginning and end -----------------------------------------------------------------

    def on_mount(self) -> None:
        """The first frame is near: everything heavy comes after it."""
        self.show_facts(Facts(private=self.start.private))
        self.call_after_refresh(self._begin)

    async def furnish(self) -> None:
        """Bring the other parts, and what draws pictures."""
        await super().furnish()
        # Imported by now, and not in the event loop.
        from app.tui.transcript.gallery import Gallery

        self.transcript.gallery = Gallery(
            self._pictures, self._picture, self.transcript.changed, self.write_out
        )

    @work(exit_on_error=False, group="begin")
    async def _begin(self) -> None:
        try:
            await self.furnish()
            self.take_keys()
            self.set_interval(TICK_S, self._tick)
            if self._make is make_manager:
                await self._glance()
            self.drawn()
            manager = await open_manager(self.start, self._make, self._hold)
            self._chat.manager = await self._private_manager() if self.start.private else manager
            self._opened.set()
            if self.start.notices:
                # They stay until a key is pressed: some say what is wrong with the settings.
                self.say("   ".join(self.start.notices), error=True)
            self.load_first()
            await self._first_chat(manager)
            # What was sent meanwhile goes to this chat, not to the one that stood in for it.
            self._begun.set()
        except Exception as err:
            if self._closing:  # the person left before it had begun
                return
            self.failure = explain(err)
            self.exit(return_code=int(self.failure.exit_code))
            return
        self.started()
        await in_thread(_load_markdown)

    def _hold(self, manager: SessionManager) -> None:
        self._manager = manager

    async def _glance(self) -> None:
        """Show the end of the chat to go on with, and wait until it is painted: all else takes longer."""
        items = await in_thread(newest_of, self.start)
        if not items:
            return
        from app.tui.chat.story import Story

        self.transcript.replace_all(Story(self.answerer).tell(items))
        painted = asyncio.Event()
        self.call_after_refresh(painted.set)
        await painted.wait()

    def started(self) -> None:
        """The manager is there, and the first chat."""

    @work(exit_on_error=False, group="load")
    async def load_first(self) -> None:
        from app.oneshot.direct import source_of

        options = {"slots": 4, **self.settings.load_options()}
        options.pop("assistant_model", None)
        await self.load_model(source_of(self.settings), options)

    async def _first_chat(self, manager: SessionManager) -> None:
        from app.frontend.find_chat import chosen, unsaid

        start = self.start
        session_id = await chosen(manager, start)
        if session_id is not None:
            await configure(manager, session_id, start, is_new=False)
        elif not start.private and not self.draft.text:
            session_id = await unsaid(manager)
        if session_id is not None:
            await self._open(session_id, carry=True)

    async def close_down(self) -> None:
        """Stop what runs and store the rest; the terminal is the shell's again already."""
        self._closing = True
        self.stop_reading_ahead()
        self._keeper.stop()
        if not self._begun.is_set():
            # No chat could keep it: up brings it back.
            written = self.unsent + self.early_text
            self.draft.history_of_messages.add(written, keep=not self.start.private)
        # Without its parts there is no chat, and to make one would wait for them.
        chats: set[Chat] = {self._chat, *self.chats.values()} if self.furnished else set()
        for chat in chats:
            chat.page.close()
        with contextlib.suppress(Exception):
            await self.save_draft()
        for chat in chats:
            await chat.close()
            chat.attached.clear()
            await chat.drop_if_empty()
        if self._private is not None:
            await self._private.stop()
            await self._private.store.close()
        if self._manager is not None:
            await self._manager.aclose()

    @property
    def resume_line(self) -> str | None:
        """What brings this chat back, for the shell; None for one that is not kept."""
        if not self.furnished:
            return None
        chat = self._chat
        if chat.id is None or chat.private or not chat.story.items or chat.manager.is_private:
            return None
        return f"To continue {one_line(chat.title)!r}: fireside --resume {chat.id.removeprefix('sess_')[:8]}"

    # ---- the model -------------------------------------------------------------------------

    async def load_model(self, source: str | None, options: Mapping[str, Any] | None = None) -> bool:
        """Load a model for all chats, its progress in the status bar. False where it failed; that is told."""
        from app.sessions.errors import FiresideError

        await self._opened.wait()
        self.model.load, self.model.failed, self._given_up = 0.0, False, False
        self.refresh_facts()
        before = self.model.name
        try:
            await self.manager.load_model(
                source,
                progress=self._progress,
                go_on=lambda: not self._given_up,
                for_text=True,
                **(options or {}),
            )
        except FiresideError as err:
            self.model.failed = self.manager.card is None
            if self._given_up:
                self.say("Loading was stopped. The next message loads the previous model.")
            else:
                self.load_failed(err, source)
            return False
        finally:
            self.model.load = None
            self.refresh_facts()
        self.model.failed = False
        self.model.read(self.manager)
        for chat in [self._chat, *self.chats.values()]:
            chat.model_loaded(
                self.model.name, self.model.window, changed=bool(before) and before != self.model.name
            )
        self.refresh_facts()
        self.count_context()
        self._tell_unmet()
        return True

    def _tell_unmet(self) -> None:
        from app.frontend.abilities import unmet

        card = self.manager.card
        if card is not None and (missing := unmet(card, self.settings)):
            self.say(missing, error=True)

    def give_up(self) -> bool:
        """End the load or the download that runs; False where there is none."""
        if self.model.load is None and self.model.fetched is None:
            return False
        self._given_up = True
        return True

    @property
    def given_up(self) -> bool:
        """Whether a person ended the load or download that runs."""
        return self._given_up

    def show_download(self, fraction: float | None) -> None:
        """How much of a model is fetched, unless a person gives it up; None when nothing is any more."""
        if fraction is None or self.model.fetched is None:
            self._given_up = False
        self.model.fetched = fraction
        self.refresh_facts()

    def load_failed(self, err: Any, source: str | None) -> None:
        """The model `source` (None: the one that is found) could not be loaded."""
        self.say(f"{err.message} {err.remedy}", error=True)

    def _progress(self, fraction: float) -> None:
        # It comes from the engine's side, where timers and widgets do not know their app.
        self.call_later(self._loading, fraction)

    def _loading(self, fraction: float) -> None:
        if self.model.load is None:
            return  # It comes from another thread, and may be late.
        self.model.load = fraction
        self._chat.show_loading(fraction)
        self.refresh_facts()

    # ---- facts -----------------------------------------------------------------------------

    def _tick(self) -> None:
        running = False
        for chat in {*self.chats.values(), self._chat}:
            if chat.facts.running:
                chat.tick()
                running = True
        if running:
            self.refresh_facts()
            self.tick_side()

    def tick_side(self) -> None:
        """The numbers of running chats went on."""

    def chat_shown(self) -> None:
        """Another chat is on the screen."""
        super().chat_shown()
        self.count_context()

    def chat_told(self, chat: Chat, what: str) -> None:
        """What a chat holds may be another, which the next turn tells by itself."""
        super().chat_told(chat, what)
        if chat is not self._chat:
            return
        if chat.facts.running:
            for worker in self.workers:
                if worker.group == COUNTING:
                    worker.cancel()
        elif what in ("branched", "ended", "recount"):
            self.count_context()

    @work(exclusive=True, exit_on_error=False, group=COUNTING)
    async def count_context(self) -> None:
        """Ask what the chat on the screen fills of its window, where that is not known; only a model that
        is loaded is asked."""
        from app.sessions.errors import FiresideError

        await asyncio.sleep(COUNT_AFTER_S)
        chat, facts = self._chat, self._chat.facts
        if facts.running or (facts.context_tokens is not None and not chat.empty):
            return
        # A turn that failed may fail again where it is counted.
        if chat.error is not None or self.model.load is not None:
            return
        if chat.manager.card_of(facts.model) is None:
            return
        with contextlib.suppress(FiresideError):
            if chat.id is None:
                found = await chat.manager.new_context(**new_settings(self.start))
            else:
                found = await chat.manager.context(chat.id)
            facts.context_window = found["window"]
            if chat.empty:
                facts.beginning_tokens = int(found["total"])
            else:
                facts.context_tokens = int(found["total"])
            self.refresh_facts()

    def placed(self, grid: Grid) -> None:
        """Another width: the bar is drawn anew."""
        self.refresh_facts()

    def refresh_facts(self) -> None:
        """Tell the status bar and the terminal's title what holds now."""
        if not self.is_running:
            return
        facts, model = self._chat.facts, self.model
        asking = sum(chat.facts.asking for chat in {*self.chats.values(), self._chat})
        state, role = self._state()
        window = facts.context_window or model.window
        tokens = facts.beginning_tokens if self._chat.empty else facts.context_tokens
        self.show_facts(
            Facts(
                asking=asking,
                state=state,
                state_role=role,
                private=self._chat.private,
                mode="" if self.draft.vi is None else self.draft.vi.keys.mode,
                machine=() if model.name else model.machine,
                model=one_line(short_name(facts.model) if facts.model else model.name),
                gpu_layers=model.gpu_layers,
                layers=model.layers,
                has_gpu=model.has_gpu,
                context_tokens=tokens,
                context_window=window,
                reused=facts.reused,
                first_ms=None if facts.first_s is None else facts.first_s * 1000,
                speed=facts.speed,
                tools=facts.approve if model.tools else "",
                home=facts.home,
                help_key=word("help", self.bound) or word("help_always", self.bound),
            )
        )
        self.seam.set_title("" if self.side_open else self._chat.title)
        title = one_line(self._chat.title) or "fireside"
        self.set_terminal_title(f"({asking}) {title}" if asking else title)

    def _state(self) -> tuple[str, str]:
        facts = self._chat.facts
        if self.model.fetched is not None:
            return f"fetching {self.model.fetched * 100:.0f} %", "primary"
        load = self.model.load if self.model.load is not None else facts.load
        if load is not None:
            return f"loading {load * 100:.0f} %", "primary"
        if facts.prefill is not None:
            return f"prefill {facts.prefill * 100:.0f} %", "primary"
        if facts.waits:
            return "waits", "muted"
        if facts.summarising:
            return "summarising", "primary"
        if self.model.failed:
            return "no model", "warning"
        if facts.failed:
            return "stopped", "error"
        return ("stopped", "muted") if facts.stopped else ("", "primary")


def _load_markdown() -> None:
    """What the first reply would wait for otherwise."""
    from app.markdown.markdown import warm

    warm()
