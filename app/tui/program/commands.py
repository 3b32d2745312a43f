"""The full-screen face as slash commands see it: dialogs for questions, the seam for news."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.commands.face import Choice, Command, FaceKind, Loaded, Rows, Screen
from app.settings.config import Settings
from app.settings.kinds import SettingError
from app.terminal.theming import ThemeError, names

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.tui.app import FiresideApp


class TuiFace:
    """Implements `app.commands.Face`. Its questions wait for dialogs, so commands run in a worker."""

    def __init__(self, app: FiresideApp) -> None:
        self._app = app

    @property
    def kind(self) -> FaceKind:
        return "tui"

    @property
    def manager(self) -> SessionManager:
        return self._app.chat.manager

    @property
    def kept(self) -> SessionManager:
        return self._app.manager

    @property
    def settings(self) -> Settings:
        return self._app.settings

    @property
    def session_id(self) -> str | None:
        return self._app.chat.id

    @property
    def is_private(self) -> bool:
        return self._app.chat.private

    async def session(self) -> str:
        return await self._app.chat.ensure()

    async def open_session(self, session_id: str) -> None:
        await self._app.open_chat(session_id)

    async def new_session(self, *, private: bool = False) -> None:
        await self._app.new_chat(private=private)

    async def delete_session(self, session_id: str) -> None:
        await self._app.delete_chat(session_id)

    async def send(self, text: str) -> None:
        await self._app.post(text, [{"type": "input_text", "text": text}])

    def attach(self, block: Mapping[str, Any], name: str) -> None:
        self._app.attach({"filename": name, **block})

    def name_file(self, name: str) -> bool:
        from app.frontend.draft import mention_of

        text = mention_of(name, self._app.folder)
        if text is not None:
            self.insert(f"{text} ")
        return text is not None

    def insert(self, text: str) -> None:
        self._app.draft.paste(text, plain=True)
        self._app.draft.focus()

    def say(self, text: str, *, error: bool = False) -> None:
        self._app.say(text, error=error)

    async def show(self, title: str, body: Rows | str) -> None:
        from app.tui.screens.dialogs import TextDialog

        await self._app.push_screen_wait(TextDialog(self._app, title, body))

    async def read_pages(self, text: str) -> bool:
        return False

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        from app.tui.widgets.picker import Entry, Picker

        entries = [Entry(choice.value, choice.label, choice.detail) for choice in choices]
        return await self._app.push_screen_wait(Picker(self._app, title, entries))

    async def ask(self, question: str, default: str = "") -> str | None:
        from app.tui.screens.dialogs import LineDialog

        return await self._app.push_screen_wait(LineDialog(self._app, question, default))

    async def edit_text(self, text: str) -> str | None:
        return await self._app.in_editor(text)

    async def copy(self, text: str, what: str) -> None:
        self._app.copy(text, what)

    async def clipboard(self) -> str | None:
        return await self._app.read_clipboard()

    async def screen(self, name: Screen, query: str = "") -> bool:
        return await self._app.show_screen(name, query)

    def show_download(self, share: float | None) -> None:
        self._app.show_download(share)

    @property
    def gave_up(self) -> bool:
        return self._app.given_up

    async def load_model(
        self, source: str | None, options: Mapping[str, Any], loaded: Loaded | None = None
    ) -> None:
        if await self._app.load_model(source, options) and loaded is not None:
            await loaded()

    def themes(self) -> Sequence[str]:
        return names()

    def set_theme(self, name: str) -> None:
        try:
            self._app.use_theme(name)
        except ThemeError as err:
            raise SettingError(str(err)) from err

    def keys(self) -> Rows:
        return self._app.key_rows()

    def key_of(self, command: Command) -> str:
        from app.tui.screens.palette import key_of

        return key_of(self._app, command)

    def quit(self) -> None:
        self._app.action_leave()
