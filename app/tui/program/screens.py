"""Which screen opens for which purpose, and what becomes of what was chosen there.

Screens are imported when they are opened. All of this runs in a worker, because it waits for them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from app.tui.widgets.seam import News

if TYPE_CHECKING:
    from app.tui.app import FiresideApp


async def open_screen(app: FiresideApp, name: str, query: str = "") -> bool:
    """Open a screen and do what was chosen; False where the face has none of that name.

    `query` is what the search begins with.
    """
    match name:
        case "chats":
            await _chats(app)
        case "search":
            await _search(app, query)
        case "model":
            await _model(app)
        case "params":
            await _params(app)
        case "tools":
            await _tools(app)
        case "theme":
            await _theme(app)
        case "help" | "keys":
            from app.tui.screens.help import KEYS, REBIND, HelpScreen

            await app.push_screen_wait(HelpScreen(app, page=KEYS if name == "help" else REBIND))
        case "logs":
            from app.tui.screens.logs import LogScreen

            await app.push_screen_wait(LogScreen(app))
        case "tokens":
            await _tokens(app)
        case "files":
            await _files(app)
        case "settings":
            from app.tui.screens.settings import SettingsScreen

            await app.push_screen_wait(SettingsScreen(app))
        case _:
            return False
    return True


async def _chats(app: FiresideApp) -> None:
    from app.tui.screens.chats import ChatsPicker

    chosen = await app.push_screen_wait(ChatsPicker(app, current=app.chat.id))
    if chosen is not None:
        await app.open_chat(chosen)


async def _search(app: FiresideApp, query: str) -> None:
    from app.tui.screens.search import SearchScreen

    found = await app.push_screen_wait(SearchScreen(app, query=query))
    if found is not None:
        await app.open_chat(found.session_id, item_id=found.item_id or None, query=found.query)
        at, count = app.transcript.found
        if count:
            app.seam.say(News(f"match {at} of {count}", hints=(("esc", "unmarks"),)))


async def _model(app: FiresideApp) -> None:
    from app.models import catalog
    from app.tui.screens.models import ModelPicker

    await app.ready()
    looking = News("looking for models")
    app.seam.say(looking)
    try:
        models = await app.manager.models()
    finally:
        app.seam.withdraw(looking)
    picker = ModelPicker(app, models, card=app.manager.card, catalog=app.catalog or catalog)
    choice = await app.push_screen_wait(picker)
    if choice is None:
        return
    source = choice.source or await _download(app, choice.query)
    if source and await app.load_model(source, choice.options) and app.chat.facts.model is not None:
        await app.chat.manager.set_model_override(await app.chat.ensure(), source)


async def _download(app: FiresideApp, query: str = "") -> str | None:
    """A model that is fetched from the hub after a look at what it takes; None where nothing came."""
    from app.commands.models import fetch_model
    from app.exits import Failure
    from app.tui.screens.dialogs import LineDialog

    title = "a model on the hub: owner/name, or owner/name:Q4_K_M"
    name = await app.push_screen_wait(LineDialog(app, title, query))
    if not name or not name.strip():
        return None
    app.say("asking the hub")
    try:
        return await fetch_model(app.face, name)
    except Failure as err:
        app.say(str(err), error=True)
        return None


async def _params(app: FiresideApp) -> None:
    from app.tui.screens.params import ParamsScreen

    session_id, manager = await app.chat.ensure(), app.chat.manager
    defaults = app.manager.residency.get("defaults")
    await app.push_screen_wait(ParamsScreen(app, session_id, manager=manager, model_defaults=defaults))


async def _tools(app: FiresideApp) -> None:
    from app.tui.screens.tools import ToolsPicker

    session_id, manager = await app.chat.ensure(), app.chat.manager
    await app.push_screen_wait(ToolsPicker(app, session_id, manager=manager))


async def _tokens(app: FiresideApp) -> None:
    from app.tui.screens.tokens import TokenView, last_tokens, record_tokens

    manager, session_id = app.chat.manager, await app.chat.ensure()
    item_id, tokens = await last_tokens(manager, session_id)
    view = TokenView(app, tokens, lambda: record_tokens(manager, session_id))
    chosen = await app.push_screen_wait(view)
    if chosen is not None:
        async with app.telling():
            await manager.continue_from(item_id, chosen.index, chosen.token_id)


async def _files(app: FiresideApp) -> None:
    from app.frontend.draft import mention
    from app.tui.screens.files import FilesPicker

    path = await app.push_screen_wait(FilesPicker(app, app.folder))
    if path is not None:
        app.draft.insert_text(f"{mention(path)} ")
        app.draft.focus()


async def _theme(app: FiresideApp) -> None:
    from app.settings.config import store
    from app.settings.kinds import SettingError
    from app.tui.screens.themes import ThemePicker

    chosen = await app.push_screen_wait(ThemePicker(app))
    if chosen is None:
        return
    try:
        await asyncio.to_thread(store, "theme", chosen)
    except (OSError, SettingError) as err:
        app.say(f"The theme applies only until you quit: {err}", error=True)
