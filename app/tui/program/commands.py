"""Slash commands: running them, and the full-screen face as they see it: dialogs for questions, the seam for
news."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from app import commands
from app.commands.face import Choice, Command, Completion, FaceKind, Loaded, Rows, Screen
from app.frontend.draft import mention_of
from app.settings.config import Settings
from app.settings.kinds import SettingError
from app.terminal.theming import ThemeError, names
from app.tui.program import dialogs
from app.tui.program.copying import Copying
from app.tui.program.model import ModelControl
from app.tui.program.open_chats import OpenChats
from app.tui.program.other_programs import OtherPrograms
from app.tui.program.parts import Parts
from app.tui.program.screens import Screens
from app.tui.program.side import SidePane
from app.tui.program.signal import Signal

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.tui.shell import Program


class TuiFace:
    """Implements `app.commands.Face`. Its questions wait for dialogs, so commands run in a worker."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        chats: OpenChats,
        model: ModelControl,
        copying: Copying,
        others: OtherPrograms,
        side: SidePane,
        screens: Screens,
    ) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._model = model
        self._copying = copying
        self._others = others
        self._side = side
        self._screens = screens

    @property
    def kind(self) -> FaceKind:
        return "tui"

    @property
    def manager(self) -> SessionManager:
        return self._chats.current.manager

    @property
    def kept(self) -> SessionManager:
        return self._chats.manager

    @property
    def settings(self) -> Settings:
        return self._program.settings

    @property
    def session_id(self) -> str | None:
        return self._chats.current.id

    @property
    def is_private(self) -> bool:
        return self._chats.current.private

    async def session(self) -> str:
        return await self._chats.current.ensure()

    async def open_session(self, session_id: str) -> None:
        await self._chats.open_chat(session_id)

    async def new_session(self, *, private: bool = False) -> None:
        await self._chats.new_chat(private=private)

    async def delete_session(self, session_id: str) -> None:
        await self._side.delete(session_id)

    async def send(self, text: str) -> None:
        chat, blocks = await self._chats.ready(), [{"type": "input_text", "text": text}]
        await chat.post(text, blocks, self._chats.folder, loading=self._chats.loading)

    def attach(self, block: Mapping[str, Any], name: str) -> None:
        self._chats.current.attached.append({"filename": name, **block})

    def name_file(self, name: str) -> bool:
        text = mention_of(name, self._chats.folder)
        if text is not None:
            self.insert(f"{text} ")
        return text is not None

    def insert(self, text: str) -> None:
        self._parts.draft.paste(text, plain=True)
        self._parts.draft.focus()

    def say(self, text: str, *, error: bool = False) -> None:
        self._parts.say(text, error=error)

    async def show(self, title: str, body: Rows | str) -> None:
        await dialogs.show(self._program, title, body)

    async def read_pages(self, text: str) -> bool:
        return False

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        return await dialogs.choose(self._program, title, choices)

    async def ask(self, question: str, default: str = "") -> str | None:
        return await dialogs.ask(self._program, question, default)

    async def edit_text(self, text: str) -> str | None:
        return await self._others.edit(text)

    async def copy(self, text: str, what: str) -> None:
        self._copying.copy(text)

    async def clipboard(self) -> str | None:
        return await self._copying.read()

    async def screen(self, name: Screen, query: str = "") -> bool:
        return await self._screens.open(self, name, query)

    def show_download(self, share: float | None) -> None:
        self._model.show_download(share)

    @property
    def gave_up(self) -> bool:
        return self._model.given_up

    async def load_model(
        self, source: str | None, options: Mapping[str, Any], loaded: Loaded | None = None
    ) -> None:
        if await self._model.load(source, options) and loaded is not None:
            await loaded()

    def themes(self) -> Sequence[str]:
        return names()

    def set_theme(self, name: str) -> None:
        try:
            self._program.use_theme(name)
        except ThemeError as err:
            raise SettingError(str(err)) from err

    def keys(self) -> Rows:
        return self._program.key_rows()

    def key_of(self, command: Command) -> str:
        from app.tui.screens.palette import key_of

        return key_of(self._program, command)

    def quit(self) -> None:
        self._program.exit(0)


class Commands:
    """Runs commands as the program's own work."""

    def __init__(self, program: Program, parts: Parts, chats: OpenChats, face: TuiFace) -> None:
        self.ran: Signal[[]] = Signal()
        """A command was run, and what it changed is on the screen."""
        self.face = face
        self._program = program
        self._parts = parts
        self._chats = chats

    def run(self, line: str) -> None:
        """Run a slash command; what goes wrong is told in the seam."""
        self._program.start(partial(self._run, line), group="command")

    async def _run(self, line: str) -> None:
        await self._chats.ready()
        await commands.run_line(self.face, line)
        self._program.call_after_refresh(self.ran)

    def open_palette(self) -> None:
        """Any command, by name."""
        self._program.start(self._palette, group="command")

    async def _palette(self) -> None:
        from app.tui.screens.palette import CommandPalette

        palette = CommandPalette(self._program, commands.available(self.face))
        name = await self._program.push_screen_wait(palette)
        command = commands.find(self.face, name) if name else None
        if command is None:
            return
        if self.takes_argument(command.name):
            self._parts.draft.put(f"/{command.name} ")
            self._parts.draft.focus()
            return
        await self._chats.ready()
        await commands.run(self.face, command)

    async def complete(self, line: str) -> Sequence[Completion]:
        """What a command that is begun may become; nothing before there are chats."""
        return await commands.complete(self.face, line) if self._chats.is_open else ()

    def is_meant(self, name: str) -> bool:
        """Whether a word behind a slash is meant as a command."""
        return commands.is_meant(self.face, name)

    def takes_argument(self, name: str) -> bool:
        """Whether a command is nothing without more words."""
        command = commands.find(self.face, name)
        return command is not None and " " in command.usage and "[" not in command.usage
