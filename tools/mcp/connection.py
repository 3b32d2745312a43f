"""MCP servers for callers of any thread and loop: a thread of their own keeps them connected.

Refuses nothing: a server that fails is a warning.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tools.context import ToolContext
from tools.definition import Tool
from tools.mcp.servers import McpServerConfig, McpServers

_CLOSE_S = 15.0


class McpConnection:
    """Servers that stay connected until `close`, at the latest until the program ends.

    `tools` can be called on any event loop; cancelling a call cancels it at the server.
    """

    def __init__(self, configs: Sequence[McpServerConfig]) -> None:
        self.tools: tuple[Tool, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self._servers = McpServers(configs)
        self._ready: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._stop: asyncio.Event | None = None
        # A daemon: the program's end must not wait for it before `close` is called.
        self._thread = threading.Thread(target=self._run, name="mcp servers", daemon=True)
        self._thread.start()
        self._loop = self._ready.result()
        atexit.register(self.close)

    def close(self) -> None:
        """Disconnect, and end the servers that were started. Safe to repeat."""
        atexit.unregister(self.close)
        if self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as err:
            if self._ready.done():
                raise
            self._ready.set_exception(err)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with self._servers as servers:
            self.tools = tuple(self._bridged(made) for made in servers.tools)
            self.warnings = tuple(servers.warnings)
            self._ready.set_result(asyncio.get_running_loop())
            await self._stop.wait()

    def _bridged(self, made: Tool) -> Tool:
        """The tool, whose calls run on the servers' loop and are awaited on the caller's."""

        async def call(arguments: dict[str, Any], context: ToolContext) -> Any:
            return await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(made.function(arguments, context), self._loop)
            )

        return replace(made, function=call)
