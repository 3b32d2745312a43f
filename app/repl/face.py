"""The chat line by line as a face. One file, because it is one list of what commands ask for.

What it opens, sends and asks, for commands and for the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from app import paths
from app.commands.face import Choice, Command, Loaded, Rows, Screen
from app.exits import explain
from app.frontend.abilities import notes_of, unmet
from app.frontend.draft import mentions, with_double
from app.frontend.editor import EditorError, edit, page
from app.frontend.modality import has_media, require_senses
from app.frontend.shell_line import run_line
from app.frontend.start import SLOTS, Start
from app.repl.chat import ReplChat
from app.repl.console import Console
from app.repl.dialog import NO_ANSWER, Dialog
from app.repl.narrator import DEFAULT_NAME, Narrator
from app.repl.opening import ways_to_begin
from app.repl.plain_page import PlainPage
from app.repl.styled_page import StyledPage
from app.sessions.errors import FiresideError
from app.settings.config import Settings
from app.settings.kinds import SettingError
from app.terminal.figures import short_count
from app.terminal.output import sanitize

if TYPE_CHECKING:
    from app.markdown.sgr import TerminalStyle
    from app.sessions.manager import SessionManager
    from backend.types import ChatCard

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
        self,
        start: Start,
        console: Console,
        page: StyledPage | PlainPage,
        ink: TerminalStyle,
        *,
        echoes: bool,
    ) -> None:
        self.start = start
        self.console = console
        self.page = page
        self.ink = ink
        self.leaving = False
        self._fetched_tenths = 0
        self.asked = ""
        """The question that is put to the person, by its id."""
        self.outside = False
        """Whether another program has the terminal."""
        self._shell_stop: asyncio.Event | None = None
        """Ends the shell line that runs."""
        self.has_failed = False
        """Whether a command told of something that went wrong, since this was last set to False."""
        self.card: ChatCard | None = None
        self.dialog = Dialog(console, page, ink.glyphs, self._edit)
        self.retheme: Callable[[str], None] = lambda name: None
        self.send_sequence: Callable[[str], None] | None = None
        """Writes a control sequence to the terminal; None where none may be sent."""
        self.folder = start.folder or Path()
        self.chat = ReplChat(start, console, page, self._name, echoes=echoes)
        self._loading: asyncio.Task[None] | None = None
        self._opening: Sequence[tuple[str, Sequence[str]]] = ()
        """How to begin, until a model is there or something was said."""
        self._load_failed = False

    # ---- opening and closing ---------------------------------------------------------------

    async def open(self) -> None:
        """Make the manager, begin to load the model, open the chat that was chosen. Raises what fails."""
        await self.chat.open()
        if not self.console.piped and self.session_id is None:
            self._opening = await ways_to_begin(self.kept, private=self.is_private)
        self._load(self.settings.get("model"), {})

    async def close(self) -> None:
        """Stop what runs, keep what was said, free the model."""
        task = self._loading
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
        await self.chat.close()

    # ---- what commands and the loop ask ----------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        return self.chat.manager

    @property
    def kept(self) -> SessionManager:
        return self.chat.kept

    @property
    def narrator(self) -> Narrator:
        """What tells the open chat."""
        return self.chat.narrator

    @property
    def is_open(self) -> bool:
        """Whether the manager is there."""
        return self.chat.is_open

    @property
    def is_private(self) -> bool:
        """Whether nothing of the open chat is kept."""
        return self.chat.is_private

    @property
    def settings(self) -> Settings:
        return self.start.settings

    @property
    def session_id(self) -> str | None:
        return self.chat.session_id

    async def session(self) -> str:
        return await self.chat.session()

    async def open_session(self, session_id: str) -> None:
        await self.chat.open_session(session_id)

    async def delete_session(self, session_id: str) -> None:
        if self.is_private:
            # Leaving it deletes it, and tells so.
            await self.new_session(private=True)
            return
        await self.manager.delete(session_id)
        await self.new_session()
        self.say("The chat is deleted; /undelete restores it.")

    async def new_session(self, *, private: bool = False) -> None:
        await self.chat.new_session(private=private)

    async def send(self, text: str, shown: Sequence[Mapping[str, Any]] = ()) -> None:
        """Post a message with what is attached; `shown` are its blocks, where parts of it are folded."""
        blocks = list(shown) or [{"type": "input_text", "text": text}]
        named = mentions(text, self.folder)
        if has_media(self.chat.attached, named):
            await self._require_senses(named)
        await self.chat.send(blocks, named)

    async def _require_senses(self, named: Sequence[Path]) -> None:
        """FiresideError where the model cannot take what goes with the message; nothing is uploaded then."""
        loading = self._loading if self._loading is not None and not self._loading.done() else None
        if loading is not None and self.console.piped:
            await asyncio.wait([loading])
            loading = None
        chosen = None
        if self.session_id is not None:
            chosen = (await self.manager.settings(self.session_id))["model"]["value"]
        card, attached = self.manager.card, list(self.chat.attached)
        try:
            require_senses(self.chat.attached, named, card, chosen, loading=loading is not None)
        except FiresideError:
            for block in attached:
                if block not in self.chat.attached:
                    await self.manager.files.delete(await self.session(), str(block["file_id"]))
            raise

    async def run_shell(self, line: str) -> None:
        """Run a shell line; what it printed goes with the next message."""
        self._shell_stop = asyncio.Event()
        try:
            with self.console.cooked():
                result = await run_line(line, self.folder, private=self.is_private, stop=self._shell_stop)
        except OSError as err:
            self.say(err.strerror or str(err), error=True)
            return
        finally:
            self._shell_stop = None
        self.folder = result.folder
        if shown := result.output.rstrip("\n"):
            self.page.table("", shown)
        self.has_failed |= bool(result.code)
        self.page.news(result.ended)
        self.chat.attached.append(result.block(line))
        self.page.news("Its output goes with your next message.")

    def stop_shell(self) -> bool:
        """End the person's shell line as Ctrl-C does; False for none."""
        if self._shell_stop is None:
            return False
        self._shell_stop.set()
        return True

    async def resolve(self) -> None:
        """Put the first open question to the person, and hand on the answer."""
        question = self.narrator.questions[0]
        self.asked = question.id
        if self.console.piped:
            result: Mapping[str, Any] = NO_ANSWER
        else:
            result = await self.dialog.answer(question)
        await self.chat.resolve(question, result)

    # ---- Face ------------------------------------------------------------------------------

    def attach(self, block: Mapping[str, Any], name: str) -> None:
        self.chat.attached.append(dict(block))

    def name_file(self, name: str) -> bool:
        return False

    def insert(self, text: str) -> None:
        self.console.insert(text, typed=False)

    def say(self, text: str, *, error: bool = False) -> None:
        self.has_failed |= error
        self.page.news(text, error=error)

    async def show(self, title: str, body: Rows | str) -> None:
        self.page.table(title, body)

    async def read_pages(self, text: str) -> bool:
        if self.console.piped or not self.console.draws:
            return False
        self.outside = True
        try:
            await page(text, self.console.cooked, at_end=True)
        except EditorError:
            return False
        finally:
            self.outside = False
        return True

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        return await self.dialog.choose(title, choices)

    async def ask(self, question: str, default: str = "") -> str | None:
        return await self.dialog.line(question, default)

    async def edit_text(self, text: str) -> str | None:
        return await self._edit(text)

    async def _edit(self, text: str, suffix: str = ".md") -> str:
        """`text` as the person left it. EditorError, which tells where what was saved is found."""
        is_found, self.outside = False, True

        def left(written: str) -> None:
            nonlocal is_found
            is_found = self.console.remember(with_double(written))

        try:
            lend, private = self.console.cooked, self.is_private
            return await edit(text, lend, private=private, left=left, suffix=suffix)
        except EditorError as err:
            if is_found:
                err.remedy = f"{err.remedy} Press up to find what was saved.".lstrip()
            raise
        finally:
            self.outside = False

    async def copy(self, text: str, what: str) -> None:
        from app.terminal.clipboard import ClipboardError, copy

        try:
            copied = await asyncio.to_thread(copy, text, self.send_sequence, keep_off_disk=self.is_private)
        except ClipboardError as err:
            self.page.news(str(err), error=True)
            return
        offer = "; /copy to FILE saves it" if copied.way == "terminal" else ""
        self.page.news(f"{what}: {copied.notice()}{offer}")

    async def clipboard(self) -> str | None:
        from app.terminal.clipboard import ClipboardError, paste

        try:
            return await asyncio.to_thread(paste)
        except ClipboardError as err:
            self.page.news(str(err), error=True)
            return None

    async def screen(self, name: Screen, query: str = "") -> bool:
        return False

    def show_download(self, share: float | None) -> None:
        tenths = int(10 * (share or 0.0))
        if tenths > self._fetched_tenths:
            self.say(f"fetched {10 * tenths} %")
        self._fetched_tenths = tenths

    @property
    def gave_up(self) -> bool:
        return False

    async def load_model(
        self, source: str | None, options: Mapping[str, Any], loaded: Loaded | None = None
    ) -> None:
        self._load(source, options, loaded)
        if self.console.piped and self._loading is not None:
            # The next line waits for it, and the exit code tells of it.
            await asyncio.wait([self._loading])
            self.has_failed |= self._load_failed

    def themes(self) -> Sequence[str]:
        from app.terminal.theming import names

        return names()

    def set_theme(self, name: str) -> None:
        from app.terminal.theming import ThemeError

        try:
            self.retheme(name)
        except ThemeError as err:
            raise SettingError(str(err)) from err

    def keys(self) -> Rows:
        return _KEYS

    def key_of(self, command: Command) -> str:
        return ""

    def quit(self) -> None:
        self.leaving = True

    # ---- the model -------------------------------------------------------------------------

    def _load(self, source: str | None, options: Mapping[str, Any], loaded: Loaded | None = None) -> None:
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
        task = asyncio.create_task(self._load_now(source, options, loaded))
        self._loading = task

    async def _load_now(self, source: str | None, options: Mapping[str, Any], loaded: Loaded | None) -> None:
        wanted: dict[str, Any] = {"slots": SLOTS, **self.settings.load_options(), **options}
        wanted.pop("assistant_model", None)
        manager, self._load_failed = self.manager, False
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
            self.card = await manager.load_model(source, progress=progress, for_text=True, **wanted)
        except FiresideError as err:
            self.page.news(str(explain(err)), error=True)
            self._load_failed = True
        else:
            approve = await self._approve() + (" in home" if paths.holds_home(self.folder) else "")
            self.page.facts(self.card.model_id, _facts(self.card, approve, self.is_private))
            if self.session_id is None:
                for name, facts in self._opening:
                    self.page.facts(name, facts)
            self._opening = ()
            for told in (notes_of(self.card, manager.residency), unmet(self.card, self.settings)):
                if told:
                    self.page.news(told, error=True)
            if loaded is not None:
                await loaded()
        finally:
            is_over = True
            self.console.status = ""
            self.page.state("")
            if not self.narrator.busy:
                self.page.rest()
            self.console.rest(self.narrator.busy)

    async def _approve(self) -> str:
        """What runs unasked in the open chat, or in one that is begun now."""
        if self.session_id is None:
            return self.start.approve
        return (await self.manager.settings(self.session_id))["approve"]["value"]

    def _name(self) -> str:
        if self.card is not None:
            return self.card.model_id
        wanted = self.settings.get("model")
        return Path(str(wanted)).stem if wanted else DEFAULT_NAME


def _facts(card: ChatCard, approve: str, private: bool) -> list[str]:
    devices = ", ".join(sanitize(device) for device in card.devices if device.lower() != "cpu")
    facts = ["private"] if private else []
    where = f"gpu {devices}" if devices else "cpu only"
    facts.append(f"on {sanitize(card.server)}" if card.server else where)
    facts.append(f"context {short_count(card.max_seq) if card.max_seq else 'unknown'}")
    if card.supports_tools:
        facts.append(f"tools {approve}")
    return [*facts, "/help", "ctrl+d leaves"]
