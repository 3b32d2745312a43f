"""Which screen opens for which purpose, and what becomes of what was chosen there.

Screens are imported when they are opened. All of this runs in a worker, because it waits for them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.program import dialogs
from app.tui.program.model import ModelControl
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.widgets.seam import News

if TYPE_CHECKING:
    from app.commands.face import Face
    from app.tui.screens.model_plans import Catalog
    from app.tui.shell import Program


class Screens:
    """Opens screens. `catalog` is what the model picker asks about files; None: those of this machine."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        chats: OpenChats,
        model: ModelControl,
        catalog: Catalog | None = None,
    ) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._model = model
        self._catalog = catalog

    async def open(self, face: Face, name: str, query: str = "") -> bool:
        """Open a screen and do what was chosen; False where there is none of that name.

        `face` is who asks; `query` is what the search begins with.
        """
        match name:
            case "chats":
                await self._pick_chat()
            case "search":
                await self._search(query)
            case "model":
                await self._models(face)
            case "params":
                await self._params()
            case "tools":
                await self._tools()
            case "theme":
                await self._theme()
            case "help" | "keys":
                from app.tui.screens.help import KEYS, REBIND, HelpScreen

                await self._program.push_screen_wait(
                    HelpScreen(self._program, page=KEYS if name == "help" else REBIND)
                )
            case "logs":
                from app.tui.screens.logs import LogScreen

                await self._program.push_screen_wait(LogScreen(self._program))
            case "tokens":
                await self._tokens()
            case "files":
                await self._files()
            case "settings":
                from app.tui.screens.settings import SettingsScreen

                await self._program.push_screen_wait(SettingsScreen(self._program))
            case _:
                return False
        return True

    async def _pick_chat(self) -> None:
        from app.tui.screens.chats import ChatsPicker

        chosen = await self._program.push_screen_wait(
            ChatsPicker(self._program, current=self._chats.current.id)
        )
        if chosen is not None:
            await self._chats.open_chat(chosen)

    async def _search(self, query: str) -> None:
        from app.tui.screens.search import SearchScreen

        found = await self._program.push_screen_wait(SearchScreen(self._program, query=query))
        if found is not None:
            await self._chats.open_chat(found.session_id, item_id=found.item_id or None, query=found.query)
            at, count = self._parts.transcript.found
            if count:
                self._parts.seam.say(News(f"match {at} of {count}", hints=(("esc", "unmarks"),)))

    async def _models(self, face: Face) -> None:
        from app.frontend.engines import models_on_servers
        from app.models import catalog
        from app.tui.screens.models import ModelPicker

        await self._chats.ready()
        looking = News("looking for models")
        self._parts.seam.say(looking)
        try:
            models, away = await asyncio.gather(
                self._chats.manager.models(),
                models_on_servers(face.settings, self._chats.manager.model_source),
            )
        finally:
            self._parts.seam.withdraw(looking)
        picker = ModelPicker(
            self._program,
            models,
            card=self._chats.manager.card,
            servers=[(one.label, one.source) for one in away],
            catalog=self._catalog or catalog,
        )
        choice = await self._program.push_screen_wait(picker)
        if choice is None:
            return
        source = choice.source or await self._download(face, choice.query)
        if (
            source
            and await self._model.load(source, choice.options)
            and self._chats.current.facts.model is not None
        ):
            await self._chats.current.manager.set_model_override(await self._chats.current.ensure(), source)

    async def _download(self, face: Face, query: str = "") -> str | None:
        """A model that is fetched from the hub after a look at what it takes; None where nothing came."""
        from app.commands.models import fetch_model
        from app.exits import Failure

        title = "a model on the hub: owner/name, or owner/name:Q4_K_M"
        name = await dialogs.ask(self._program, title, query)
        if not name or not name.strip():
            return None
        self._parts.say("asking the hub")
        try:
            return await fetch_model(face, name)
        except Failure as err:
            self._parts.say(str(err), error=True)
            return None

    async def _params(self) -> None:
        from app.tui.screens.params import ParamsScreen

        session_id, manager = await self._chats.current.ensure(), self._chats.current.manager
        defaults = self._chats.manager.residency.get("defaults")
        await self._program.push_screen_wait(
            ParamsScreen(self._program, session_id, manager=manager, model_defaults=defaults)
        )

    async def _tools(self) -> None:
        from app.tui.screens.tools import ToolsPicker

        session_id, manager = await self._chats.current.ensure(), self._chats.current.manager
        await self._program.push_screen_wait(ToolsPicker(self._program, session_id, manager=manager))

    async def _tokens(self) -> None:
        from app.tui.screens.tokens import TokenView, last_tokens, record_tokens

        manager, session_id = self._chats.current.manager, await self._chats.current.ensure()
        item_id, tokens = await last_tokens(manager, session_id)
        view = TokenView(self._program, tokens, lambda: record_tokens(manager, session_id))
        chosen = await self._program.push_screen_wait(view)
        if chosen is not None:
            async with self._parts.telling():
                await manager.continue_from(item_id, chosen.index, chosen.token_id)

    async def _files(self) -> None:
        from app.frontend.draft import mention
        from app.tui.screens.files import FilesPicker

        path = await self._program.push_screen_wait(FilesPicker(self._program, self._chats.folder))
        if path is not None:
            self._parts.draft.insert_text(f"{mention(path)} ")
            self._parts.draft.focus()

    async def _theme(self) -> None:
        from app.settings.config import store
        from app.settings.kinds import SettingError
        from app.tui.screens.themes import ThemePicker

        chosen = await self._program.push_screen_wait(ThemePicker(self._program))
        if chosen is None:
            return
        try:
            await asyncio.to_thread(store, "theme", chosen)
        except (OSError, SettingError) as err:
            self._parts.say(f"The theme applies only until you quit: {err}", error=True)
