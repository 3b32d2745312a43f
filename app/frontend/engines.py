"""The engine of a face: models of this machine, in a process of their own or not, and of servers."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from app import paths
from app.settings.config import Settings

if TYPE_CHECKING:
    from backend.chat_engine import ChatEngine

CHAT_CACHE_GIB = 4


def make_engine(*, settings: Settings, isolated: bool, private: bool) -> ChatEngine:
    """The engine that loads what a source names, here or on a server. `isolated` runs a model of this machine
    in a child process, beside tools or a screen; `private` keeps no log of it.

    SettingError for servers of the settings that cannot be used. Reads files, so not for the event loop.
    """
    from app.settings.servers import servers
    from backend.engines.anywhere import AnywhereEngine

    return AnywhereEngine(lambda: _local(settings, isolated=isolated, private=private), servers(settings))


def _local(settings: Settings, *, isolated: bool, private: bool) -> ChatEngine:
    if not isolated:
        from backend.engines.local import InProcessEngine

        return InProcessEngine()
    from backend.engines.host import EngineHost

    if private:
        return EngineHost()
    log = cells = None
    with contextlib.suppress(OSError):
        log = paths.make_private_dir(paths.state_dir()) / "engine.log"
        if budget := settings.get("chat_cache_gib", CHAT_CACHE_GIB):
            cells = paths.make_private_dir(paths.state_dir() / "chat-cache"), budget << 30
    return EngineHost(log=log, cells=cells)
