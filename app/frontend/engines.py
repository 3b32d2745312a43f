"""The engine of a face: models of this machine, in a process of their own or not, and of servers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, NamedTuple

from app import paths
from app.settings.config import Settings
from backend.types import BackendError

if TYPE_CHECKING:
    from backend.chat_engine import ChatEngine
    from backend.engines.servers import Server

LIST_S = 3.0
"""How long a list of models waits for servers."""


class ServerModel(NamedTuple):
    """A model of a server, or a server whose models are not known: its name, and what loads it."""

    name: str
    source: str
    fault: str = ""
    """Why its server lists none."""

    @property
    def label(self) -> str:
        """What a list shows of it."""
        return f"{self.name}: {self.fault}" if self.fault else self.name


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


async def models_on_servers(settings: Settings, beside: str | None = None) -> list[ServerModel]:
    """The models of the servers in the settings, and of the one that the source `beside` names.

    A server that does not answer is told by itself. SettingError for servers that cannot be used.
    """
    from app.settings.servers import servers
    from backend.engines.servers import is_server

    known = await asyncio.to_thread(servers, settings)
    asked = list(known.all)
    if beside is not None and is_server(beside):
        current = known.find(beside)[0]
        asked += [current] if current not in asked else []
    if not asked:
        return []
    from backend.engines.remote import RemoteEngine

    engine = RemoteEngine(known)

    async def of(server: Server) -> list[ServerModel]:
        try:
            async with asyncio.timeout(LIST_S):
                found = await engine.models(server)
        except (BackendError, TimeoutError) as err:
            return [
                ServerModel(server.name or server.source, server.source, str(err) or "It does not answer.")
            ]
        chatting = [one for one in found if not one.embeds]
        return [ServerModel(one.id, server.source_of(one.id)) for one in chatting]

    return [one for found in await asyncio.gather(*map(of, asked)) for one in found]


def on_the_same_server(name: str, source: str | None) -> str | None:
    """The source of the model `name` on the server of `source`; None where that is of this machine."""
    from backend.engines.servers import is_server, split_source

    if source is None or not is_server(source) or is_server(name):
        return None
    where, _ = split_source(source)
    return f"{where}/{name}" if where.startswith("server:") else f"{where}#{name}"
