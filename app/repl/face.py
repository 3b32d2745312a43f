"""The chat line by line as a face: what it opens, sends and asks, for commands and for the loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from app.commands.face import Choice, Rows, Screen
from app.config import Settings
from app.exits import explain
from app.kinds import SettingError
from app.repl.console import Console
from app.repl.dialog import NO_ANSWER, Dialog
from app.repl.narrator import DEFAULT_NAME, Narrator
from app.repl.outside import edit, run_shell
from app.repl.page import PlainPage, StyledPage
from app.sessions.errors import FiresideError
from app.sessions.events import ResponseCreatedEvent
from app.terminal import sanitize
from app.tui.sending import file_block, mentions, shell_block
from app.tui.start import SLOTS, Start, in_thread, make_manager, make_private_manager

if TYPE_CHECKING:
    from app.repl.ink import Ink
    from app.sessions.events import SessionEvent
    from app.sessions.manager import SessionManager
    from app.sessions.snapshot import SessionSnapshot
    from backend.types import ChatCard

DRAFT_S = 0.5
REPLAYED = 60
"""Items that are shown of a chat that is opened."""
_KEYS: Rows = (
    ("enter", "send the message"),
    ("ctrl+j, alt+enter, \\ at the end", "a new line"),
    ("tab", "complete; with a question waiting, answer it"),
    ("ctrl+r", "search the messages you sent"),
    ("ctrl+x ctrl+e, ctrl+g", "write the message in your editor"),
    ("ctrl+c", "stop the reply, or clear the draft"),
    ("ctrl+z", "to the shell; fg comes back"),
    ("ctrl+d", "leave"),
)


class ReplFace:
    """A `Face`. `open` makes the manager; until then nothing can be asked of it."""

    kind: Literal["repl"] = "repl"

    def __init__(
        self, start: Start, console: Console, page: StyledPage | PlainPage, ink: Ink, *, echoes: bool
    ) -> None:
        self.start = start
        self.console = console
        self.page = page
        self.ink = ink
        self.leaving = False
        self.outside = False
        """Whether another program has the terminal."""
        self.card: ChatCard | None = None
        self.dialog = Dialog(console, page, ink.glyphs, self._edit)
        self.retheme: Callable[[str], None] = lambda name: None
        self.send_sequence: Callable[[str], None] | None = None
        """Writes a control sequence to the terminal; None where none may be sent."""
        self._echoes = echoes
        self._manager: SessionManager | None = None
        self._private: SessionManager | None = None
        self._session_id: str | None = None
        self._attached: list[dict[str, Any]] = []
        self._draft = ""
        self._drafting: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._follower: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[None] | None = None
        self.is_private = start.private
        self.folder = Path(start.workspace or ".").expanduser().resolve()
        self.narrator = self._narrator("")
        self.changed: Callable[[], None] = lambda: None

    # ---- opening and closing ---------------------------------------------------------------

    async def open(self) -> None:
        """Make the manager, begin to load the model, open the chat that was chosen. Raises what fails."""
        manager = await in_thread(make_manager, self.start)
        self._manager = manager
        await manager.start()
        if self.start.private:
            self._private = await in_thread(make_private_manager, self.start, manager)
        for notice in self.start.notices:
            self.page.news(notice)
        session_id = await self._chosen()
        if session_id is not None:
            await self.open_session(session_id)
        self._load(self.settings.get("model"), {})

    async def _chosen(self) -> str | None:
        """The chat that the command line named."""
        from app.exits import usage
        from app.find_chat import find

        start, manager = self.start, self.manager
        if start.fork is not None:
            return await manager.fork((await find(manager, start.fork)).id)
        if start.resume:
            return (await find(manager, start.resume)).id
        if start.last:
            listed = await manager.list(1)
            if not listed:
                raise usage("There is no chat to go on with.", "Begin one without -c.")
            return listed[0].id
        return None

    async def close(self) -> None:
        """Stop what runs, keep what was said, free the model."""
        if self._drafting is not None:
            self._drafting.cancel()
            await self._save_draft()
        for task in (self._loading, self._follower):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        if self._private is not None:
            await self._private.stop()
            await self._private.store.close()
        if self._manager is not None:
            await self._drop_empty()
            await self._manager.aclose()

    async def _drop_empty(self) -> None:
        """A chat in which nothing was said leaves nothing behind."""
        if self._session_id is None or self.is_private:
            return
        with contextlib.suppress(FiresideError):
            snapshot = await self.manager.get(self._session_id)
            if not snapshot.items and not snapshot.pending_inputs:
                await self.manager.delete(self._session_id)
                self._session_id = None

    # ---- what commands and the loop ask ----------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        found = self._private if self.is_private else self._manager
        assert found is not None, "the chats are not open yet"
        return found

    @property
    def is_open(self) -> bool:
        """Whether the manager is there."""
        return self._manager is not None and (self._private is not None or not self.is_private)

    @property
    def settings(self) -> Settings:
        return self.start.settings

    @property
    def session_id(self) -> str | None:
        return self._session_id

    async def session(self) -> str:
        if self._session_id is None:
            made = await self.manager.create()
            await self._configure(made.id, is_new=True)
            await self._follow(made.id)
        assert self._session_id is not None
        return self._session_id

    async def _configure(self, session_id: str, *, is_new: bool) -> None:
        """Give a chat what the command line said; an old one keeps the rest of its own."""
        settings, values = self.settings, dict[str, Any]()
        named = {
            key.removeprefix("generation."): item.value
            for key, item in settings.values.items()
            if key.startswith("generation.") and (is_new or item.origin.startswith("-"))
        }
        if named:
            held: dict[str, Any] = (await self.manager.settings(session_id))["config"]["value"]
            values["config"] = {**held, **named}
        if system := (settings.system if is_new else _flag(settings, "system")):
            values["system"] = system
        if (approve := _flag(settings, "approve")) is not None or is_new:
            values["approve"] = approve or self.start.approve
        if self.console.piped:
            values["overflow"] = "error"
        # A chat that is open elsewhere is refused here, not when something was written for it.
        await self.manager.configure(session_id, **values)

    async def open_session(self, session_id: str) -> None:
        if session_id == self._session_id:
            self.page.news("You are in this chat already.")
            return
        snapshot = await self.manager.get(session_id)
        await self._drop_empty()
        await self._configure(session_id, is_new=False)
        self._replay(snapshot)
        await self._follow(session_id, snapshot)

    async def new_session(self, *, private: bool = False) -> None:
        if private and self._private is None:
            assert self._manager is not None
            self._private = await in_thread(make_private_manager, self.start, self._manager)
        await self._drop_empty()
        await self._stop_following()
        self._session_id = None
        self._attached.clear()
        self.is_private = private
        self.narrator = self._narrator("")
        if not private:
            self.page.note("a new chat")

    async def send(self, text: str, shown: Sequence[Mapping[str, Any]] = ()) -> None:
        """Post a message with what is attached; `shown` are its blocks, where parts of it are folded."""
        session_id = await self.session()
        blocks: list[dict[str, Any]] = list(self._attached)
        for path in mentions(text, self.folder):
            blocks.append(await self._upload(session_id, path))
        blocks += [dict(block) for block in shown] or [{"type": "input_text", "text": text}]
        data = {"role": "user", "content": blocks}
        self.narrator.expect()
        try:
            await self.manager.post_event(session_id, {"type": "message", "data": data})
        except FiresideError:
            self.narrator.settled = True
            raise
        self._attached.clear()

    def keep_draft(self, text: str) -> None:
        """Keep what is being written over a crash, a moment after the last key."""
        self._draft = text
        if self._session_id is not None and self._drafting is None:
            loop = asyncio.get_running_loop()
            self._drafting = loop.call_later(DRAFT_S, lambda: self._spawn(self._save_draft()))

    async def _save_draft(self) -> None:
        self._drafting = None
        if self._session_id is not None:
            with contextlib.suppress(FiresideError):
                await self.manager.set_draft(self._session_id, self._draft)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _upload(self, session_id: str, path: Path) -> dict[str, Any]:
        file = await self.manager.files.upload(session_id, path)
        return file_block(file.id, file.name, file.bytes, file.content_type)

    async def run_shell(self, line: str) -> None:
        """Run a shell line; what it printed goes with the next message."""
        self.outside = True
        try:
            result = await run_shell(self.console, line, self.folder, private=self.is_private)
        finally:
            self.outside = False
        self.folder = result.folder
        if shown := sanitize(result.output).rstrip("\n"):
            self.page.table("", shown)
        if result.code:
            self.page.news(f"It ended with {result.code}.")
        self._attached.append(shell_block(line, result.output))
        self.page.news("Its output goes with your next message.")

    async def interrupt(self) -> None:
        """Stop the reply that is being written."""
        if self._session_id is not None:
            await self.manager.interrupt(self._session_id)

    async def notice_turn(self) -> None:
        """Learn whether a command began a turn, before its first event comes."""
        if self._session_id is not None:
            snapshot = await self.manager.get(self._session_id, include_items=False)
            if snapshot.status == "running" and self.narrator.session_id == snapshot.id:
                self.narrator.expect()

    async def resolve(self) -> None:
        """Put the first open question to the person, and hand on the answer."""
        question = self.narrator.questions[0]
        if self.console.piped:
            result: Mapping[str, Any] = NO_ANSWER
        else:
            result = await self.dialog.answer(question)
        if all(one.id != question.id for one in self.narrator.questions):
            return
        self.narrator.questions = [one for one in self.narrator.questions if one.id != question.id]
        await self.manager.resolve_elicitation(question.session_id, question.id, result)

    # ---- Face ------------------------------------------------------------------------------

    def attach(self, block: Mapping[str, Any], name: str) -> None:
        self._attached.append(dict(block))

    def insert(self, text: str) -> None:
        self.console.insert(text)

    def say(self, text: str, *, error: bool = False) -> None:
        self.page.news(text, error=error)

    async def show(self, title: str, body: Rows | str) -> None:
        self.page.table(title, body)

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        return await self.dialog.choose(title, choices)

    async def ask(self, question: str, default: str = "") -> str | None:
        return await self.dialog.line(question, default)

    async def edit_text(self, text: str) -> str | None:
        return await self._edit(text)

    async def _edit(self, text: str, suffix: str = ".md") -> str | None:
        self.outside = True
        try:
            return await edit(self.console, text, suffix, private=self.is_private)
        finally:
            self.outside = False

    async def copy(self, text: str, what: str) -> None:
        from app.clipboard import ClipboardError, copy

        try:
            copied = await asyncio.to_thread(copy, text, self.send_sequence, keep_off_disk=self.is_private)
        except ClipboardError as err:
            self.page.news(str(err), error=True)
            return
        offer = "; /copy to FILE saves it" if copied.way == "terminal" else ""
        self.page.news(f"{what}: {copied.notice()}{offer}")

    async def clipboard(self) -> str | None:
        from app.clipboard import ClipboardError, paste

        try:
            return await asyncio.to_thread(paste)
        except ClipboardError as err:
            self.page.news(str(err), error=True)
            return None

    async def screen(self, name: Screen) -> bool:
        return False

    async def load_model(self, source: str | None, options: Mapping[str, Any]) -> None:
        self._load(source, options)

    def themes(self) -> Sequence[str]:
        from app.theming import names

        return names()

    def set_theme(self, name: str) -> None:
        from app.theming import ThemeError

        try:
            self.retheme(name)
        except ThemeError as err:
            raise SettingError(str(err)) from err

    def keys(self) -> Rows:
        return _KEYS

    def quit(self) -> None:
        self.leaving = True

    # ---- the model -------------------------------------------------------------------------

    def _load(self, source: str | None, options: Mapping[str, Any]) -> None:
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
        task = asyncio.create_task(self._load_now(source, options))
        self._loading = task

    async def _load_now(self, source: str | None, options: Mapping[str, Any]) -> None:
        wanted: dict[str, Any] = {"slots": SLOTS, **self.settings.load_options(), **options}
        wanted.pop("assistant_model", None)
        manager = self._manager
        assert manager is not None
        self.page.state("loading the model")

        is_over = False

        def progress(fraction: float) -> None:
            # The last word of the loading thread may come after its end.
            if is_over:
                return
            self.console.status = f"loading {fraction:.0%}".replace("%", " %")
            self.console.rest(self.narrator.busy)

        progress(0.0)
        try:
            self.card = await manager.load_model(source, progress=progress, **wanted)
        except FiresideError as err:
            self.page.news(str(explain(err)), error=True)
        else:
            if not self.console.piped:
                self.page.table("", _header(self.card, self.start.approve, self.is_private))
        finally:
            is_over = True
            self.console.status = ""
            self.page.state("")
            if not self.narrator.busy:
                self.page.rest()
            self.console.rest(self.narrator.busy)

    # ---- following -------------------------------------------------------------------------

    def _name(self) -> str:
        if self.card is not None:
            return self.card.model_id
        wanted = self.settings.get("model")
        return Path(str(wanted)).stem if wanted else DEFAULT_NAME

    def _narrator(self, session_id: str) -> Narrator:
        return Narrator(
            self.page,
            session_id,
            self._name,
            lambda: self.changed(),
            echoes=self._echoes,
            hints=not self.console.piped,
            aside=self._aside,
        )

    def _aside(self) -> str:
        return "send or clear your draft, then answer; tab answers at once" if self.console.draft else ""

    def _replay(self, snapshot: SessionSnapshot) -> None:
        items = list(snapshot.items)
        if len(items) > REPLAYED or snapshot.has_more_items:
            self.page.note("older messages are not shown; /export writes all of them")
        self.narrator = self._narrator(snapshot.id)
        self.narrator.replay(items[-REPLAYED:])
        if snapshot.draft:
            self.console.insert(snapshot.draft)

    async def _follow(self, session_id: str, snapshot: SessionSnapshot | None = None) -> None:
        await self._stop_following()
        self._session_id = session_id
        if snapshot is None:
            self.narrator = self._narrator(session_id)
        events = self.manager.stream(session_id)
        # The first event is a heartbeat: from here on nothing is missed.
        await anext(events, None)
        narrator = self.narrator
        if snapshot is not None:
            narrator.busy = snapshot.status == "running"
            for pending in snapshot.pending_elicitations:
                narrator.reopen(pending)
        self._follower = asyncio.create_task(self._take(narrator, events))

    async def _take(self, narrator: Narrator, events: AsyncGenerator[SessionEvent]) -> None:
        async with aclosing(events):
            async for event in events:
                if isinstance(event, ResponseCreatedEvent) and narrator.is_anew:
                    await self._count_variants(narrator, event.response.id)
                narrator.take(event)

    async def _count_variants(self, narrator: Narrator, response_id: str) -> None:
        """The last message is answered anew: say which of its answers comes."""
        narrator.is_anew = False
        if narrator.answer_id is None:
            return
        with contextlib.suppress(FiresideError):
            answers = await self.manager.siblings(narrator.answer_id)
            number = 1 + sum(answer["response_id"] != response_id for answer in answers)
            narrator.variant = f"variant {number} of {number}"

    async def _stop_following(self) -> None:
        task, self._follower = self._follower, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])


def _flag(settings: Settings, key: str) -> Any:
    """The value of a setting that a flag gave; None for any other origin."""
    item = settings.values.get(key)
    return item.value if item is not None and item.origin.startswith("-") else None


def _header(card: ChatCard, approve: str, private: bool) -> Rows:
    devices = ", ".join(device for device in card.devices if device.lower() != "cpu")
    facts = [f"gpu {devices}" if devices else "cpu only", f"context {_thousands(card.max_seq)}"]
    if card.supports_tools:
        facts.append(f"tools {approve}")
    if private:
        facts.insert(0, "private")
    return [(sanitize(card.model_id), *facts, "/help", "ctrl+d leaves")]


def _thousands(count: int) -> str:
    return f"{count / 1024:.0f}k" if count >= 1024 else str(count)
