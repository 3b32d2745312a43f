"""Tools of MCP servers, over stdio and HTTP. The package `mcp` is imported only when one is configured.

What a server says of its tools is not trusted: they count as executing unless the settings say less.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from tools.definition import Effect, Tool, ToolError
from tools.mcp.content import files_of, words_of
from tools.mcp.lenient import lenient
from tools.output import describe_error
from tools.process import tool_environment

if TYPE_CHECKING:
    from mcp import Client

    from tools.context import ToolContext

_START_S = 20.0
_END_S = 5.0
_CALL_S = 300.0
_MOST_TOOLS = 200
_MOST_DESCRIPTION = 4_000


class McpError(Exception):
    """A server cannot be reached or used; the text names it and says what to do."""


@dataclass(frozen=True)
class McpServerConfig:
    """One server as the settings name it: a `command` to start, or a `url`."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the allow-listed variables of a started server."""
    reading: tuple[str, ...] = ()
    """Its tools that the person knows to read only."""


class McpServer:
    """One connected server. `start`, then `tools`, then `close`, all on one loop."""

    def __init__(self, config: McpServerConfig) -> None:
        self._config = config
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self.tools: tuple[Tool, ...] = ()

    async def start(self) -> None:
        """Connect and list the tools. Raises McpError."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # The package's cancel scopes must be left by the task that entered them.
        self._task = asyncio.create_task(self._serve(ready), name=f"mcp {self._config.name}")
        try:
            await asyncio.wait_for(asyncio.shield(ready), _START_S)
        except TimeoutError as err:
            await self.close()
            raise McpError(
                f"The MCP server {self._config.name} did not answer within {_START_S:g} s."
            ) from err
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect, and end a server that was started. Safe to repeat."""
        self._stop.set()
        task, self._task = self._task, None
        if task is None:
            return
        done, _ = await asyncio.wait((task,), timeout=_END_S)
        if not done:
            task.cancel()
            await asyncio.wait((task,), timeout=_END_S)

    async def _serve(self, ready: asyncio.Future[None]) -> None:
        name = self._config.name
        try:
            with open(os.devnull, "w", encoding="utf-8") as log:
                async with self._connection(log) as client:
                    self._client = client
                    self.tools = tuple(await self._listed(client))
                    ready.set_result(None)
                    await self._stop.wait()
        except McpError as err:
            _fail(ready, err)
        except (Exception, asyncio.CancelledError) as err:
            _fail(ready, McpError(f"The MCP server {name} cannot be used. {describe_error(_first(err))}"))
        finally:
            self._client = None

    def _connection(self, log: Any) -> Client:
        config = self._config
        try:
            from mcp import Client, StdioServerParameters
            from mcp.client.stdio import stdio_client
            from mcp.client.streamable_http import streamable_http_client
        except ImportError as err:
            line = shlex.join((sys.executable, "-m", "pip", "install", "mcp>=2.3,<3"))
            raise McpError(f"MCP servers need the package mcp, which is not installed: {line}") from err
        # What a server writes beside the protocol is logged with its traceback, which nobody here reads.
        logging.getLogger("mcp").addHandler(logging.NullHandler())
        logging.getLogger("mcp").propagate = False
        if config.url:
            return Client(lenient(streamable_http_client(config.url)), read_timeout_seconds=_CALL_S)
        if not config.command:
            raise McpError(f"The MCP server {config.name} has neither a command nor a url.")
        program, *arguments = config.command
        # It is started in the current folder, where Python would look for a server's modules first.
        environment = {"PYTHONSAFEPATH": "1", **tool_environment(), **config.environment}
        parameters = StdioServerParameters(command=program, args=arguments, env=environment)
        return Client(lenient(stdio_client(parameters, errlog=log)), read_timeout_seconds=_CALL_S)

    async def _listed(self, client: Client) -> list[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        while len(found) < _MOST_TOOLS:
            page = await client.list_tools(cursor=cursor)
            for listed in page.tools:
                made = self._tool(listed.name, listed.description or "", listed.input_schema)
                found.append(replace(made, name=_free(made.name, {tool.name for tool in found})))
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[:_MOST_TOOLS]

    def _tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Tool:
        async def call(arguments: dict[str, Any], context: ToolContext) -> str:
            return await self._call(name, arguments, context)

        shown = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{self._config.name}_{name}")[:64]
        effect: Effect = "read" if name in self._config.reading else "execute"
        where = self._config.url or " ".join(self._config.command)
        return Tool(
            shown,
            call,
            frozenset((effect,)),
            time_s=_CALL_S,
            summary=description[:_MOST_DESCRIPTION],
            schema_override={"type": "object", **schema},
            source=f"MCP {self._config.name}",
            code_hash=where,
        )

    async def _call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> str:
        if self._client is None:
            raise ToolError(f"The MCP server {self._config.name} is no longer connected.")
        try:
            result = await self._client.call_tool(name, arguments)
        except Exception as err:
            raise ToolError(
                f"{self._config.name} could not do {name}. {describe_error(_first(err))}"
            ) from err
        for file, content in files_of(result, name):
            context.add_file(file, content)
        text = words_of(result)
        if not text and result.structured_content is not None:
            text = json.dumps(result.structured_content, ensure_ascii=False)
        if result.is_error:
            raise ToolError(text or f"{name} failed.")
        return text


class McpServers(contextlib.AbstractAsyncContextManager["McpServers"]):
    """All configured servers, started together; one that fails is a warning and the rest go on."""

    def __init__(self, configs: Sequence[McpServerConfig]) -> None:
        self._servers = [McpServer(config) for config in configs]
        self.warnings: list[str] = []

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of every server that answered."""
        return tuple(made for server in self._servers for made in server.tools)

    async def __aenter__(self) -> McpServers:
        results = await asyncio.gather(*(server.start() for server in self._servers), return_exceptions=True)
        for result in results:
            if isinstance(result, McpError):
                self.warnings.append(str(result))
            elif isinstance(result, BaseException):
                await self.__aexit__()
                raise result
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(server.close() for server in self._servers))


def _free(name: str, taken: set[str]) -> str:
    """`name`, numbered where another tool of the server became the same one."""
    number = 2
    while name in taken:
        name, number = f"{name[:60]}_{number}", number + 1
    return name


def _fail(ready: asyncio.Future[None], err: McpError) -> None:
    if not ready.done():
        ready.set_exception(err)


def _first(err: BaseException) -> BaseException:
    """The error inside the groups that the package's task groups raise."""
    while isinstance(err, BaseExceptionGroup):
        err = cast("BaseExceptionGroup[BaseException]", err).exceptions[0]
    return err
