"""How a face begins: what the command line chose, and the session manager made of it.

The manager and the engine are imported only when they are made: the first frame is on the screen by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.settings.config import Settings
from app.terminal.fd_guard import keep_nothing_printed

if TYPE_CHECKING:
    from app.sessions.items import Item
    from app.sessions.manager import SessionManager
    from app.sessions.store.store import Store

SLOTS = 4
"""Replies that can be written at the same time."""
GLANCE_ITEMS = 40
"""What is shown of a long chat until all of it is open: more than fits on a screen."""


@dataclass(frozen=True)
class Start:
    """What the command line chose beside the settings."""

    settings: Settings
    last: bool = False
    """Go on with the chat that was used last."""
    resume: str | None = None
    """Go on with this chat; empty: choose one."""
    fork: str | None = None
    private: bool = False
    tools: tuple[str, ...] | None = None
    """Names and patterns of tools; None offers all there are."""
    approve: str = "ask"
    workspace: str | None = None
    max_turns: int | None = None
    """Most rounds of calls and replies to one message; None leaves it to the chat."""
    notices: list[str] = field(default_factory=list[str])
    """What is told once the face is there."""
    make: Callable[[Start], SessionManager] | None = None
    """Builds the manager; None builds this person's."""

    @cached_property
    def folder(self) -> Path | None:
        """Where tools work, as it was when this was first asked; None where there is no current folder."""
        from app.frontend.workspace import working_folder

        return working_folder(self.workspace)


def make_manager(start: Start) -> SessionManager:
    """The manager of this person's chats, with its engine in a process of its own. Not for the event loop.

    Raises Failure for tools that are not there.
    """
    if start.make is not None:
        return start.make(start)
    return _manager(start)


async def open_manager(
    start: Start, make: Callable[[Start], SessionManager], hold: Callable[[SessionManager], None]
) -> SessionManager:
    """What `make` builds, open; `hold` gets it before that. A private chat begins without a store too."""
    from app.sessions.errors import FiresideError

    held: list[SessionManager] = []
    try:
        held.append(await in_thread(make, start, unwanted=_let_go))
        hold(held[0])
        await held[0].start()
        return held[0]
    except (FiresideError, OSError) as err:
        if not start.private:
            raise
        why = err.message if isinstance(err, FiresideError) else str(err)
        start.notices.append(f"{why} Chats are not saved this time.")
    if held:
        await held[0].aclose()
    from app.sessions.store.store import Store

    manager: SessionManager = await in_thread(_manager, start, Store(None), unwanted=_let_go)
    hold(manager)
    await manager.start()
    return manager


def _manager(start: Start, store: Store | None = None) -> SessionManager:
    from app.frontend.engines import make_engine
    from app.sessions.manager import SessionManager

    folder = start.folder
    return SessionManager(
        engine=make_engine(settings=start.settings, isolated=True, private=store is not None),
        store=store,
        tools=_tools(start, folder),
        approve=start.approve,  # pyright: ignore[reportArgumentType] # checked by the manager
        workspace=folder,
    )


def newest_of(start: Start) -> Sequence[Item]:
    """The newest items of the chat to go on with, while there is no manager. Not for the event loop.

    Nothing where none is chosen; where it cannot be read, the manager will tell why.
    """
    name = start.fork or start.resume
    if start.make is not None or start.private or not (name or start.last):
        return ()
    from app import paths
    from app.sessions.store import preview
    from app.sessions.store.store import STORE_FILE

    file = paths.data_dir() / STORE_FILE
    return preview.newest_of(file, name or None, GLANCE_ITEMS) if paths.is_own(file) else ()


async def open_private_manager(start: Start, beside: SessionManager) -> SessionManager:
    """A manager that keeps its chats in memory only, on the engine of another one; open."""
    keep_nothing_printed()
    manager: SessionManager = await in_thread(_private_manager, start, beside, unwanted=_let_go)
    await manager.start()
    return manager


def _private_manager(start: Start, beside: SessionManager) -> SessionManager:
    from app.sessions.manager import SessionManager
    from app.sessions.store.store import Store

    folder = start.folder
    return SessionManager(
        engine=beside.engine,
        store=Store(None),
        tools=_tools(start, folder),
        approve=start.approve,  # pyright: ignore[reportArgumentType] # checked by the manager
        workspace=folder,
    )


def new_settings(start: Start) -> dict[str, Any]:
    """The settings of a new chat that its prompt shows."""
    return {"system": start.settings.system} if start.settings.system else {}


async def configure(
    manager: SessionManager, session_id: str, start: Start, *, is_new: bool, overflow: str | None = None
) -> None:
    """Give a chat what the command line and the settings say; an old one keeps the rest of its own.

    What runs unasked is the manager's choice as long as the chat has none of its own: a chat that begins
    with `--approve all` asks again when it is opened without.
    """
    settings, values = start.settings, dict[str, Any]()

    def flag(key: str) -> Any:
        held = settings.values.get(key)
        return held.value if held is not None and held.origin.startswith("-") else None

    named = {
        key.removeprefix("generation."): item.value
        for key, item in settings.values.items()
        if key.startswith("generation.") and (is_new or item.origin.startswith("-"))
    }
    if named:
        held: dict[str, Any] = (await manager.settings(session_id))["config"]["value"]
        values["config"] = {**held, **named}
    if is_new:
        values |= new_settings(start)
    elif system := flag("system"):
        values["system"] = system
    if not is_new and (approve := flag("approve")) is not None:
        values["approve"] = approve
    if start.max_turns is not None:
        values["max_rounds"] = start.max_turns
    if overflow is not None:
        values["overflow"] = overflow
    if values:
        await manager.configure(session_id, **values)


async def in_thread(make: Any, *args: Any, unwanted: Callable[[Any], None] = lambda _: None) -> Any:
    """`make(*args)` beside the event loop: what it imports takes a while.

    Its thread holds up no leaving, however long a disk or another program lets it wait. What it makes when
    nobody waits any more is given to `unwanted`, in a thread too.
    """
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Any] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if made.done():  # nobody waits any more
            if error is None:
                threading.Thread(target=unwanted, args=(result,), daemon=True).start()
            return
        if error is None:
            made.set_result(result)
        else:
            made.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = make(*args)
        except BaseException as err:
            error = err
        try:
            loop.call_soon_threadsafe(tell, result, error)
        except RuntimeError:  # the loop has ended
            if error is None:
                unwanted(result)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return await made


def _let_go(manager: SessionManager) -> None:
    """Close the store of a manager that was never opened; nothing else of it runs."""
    with contextlib.suppress(Exception):  # of a program that is about to end
        asyncio.run(manager.store.close())


def _tools(start: Start, folder: Path | None) -> Sequence[Any]:
    wanted = ("*",) if start.tools is None else start.tools
    if not wanted:
        return ()
    from app.frontend.tool_choice import choose

    tools, warnings = choose(wanted, folder, start.settings.get("hidden_tools", ()))
    start.notices.extend(warnings)
    return tools
