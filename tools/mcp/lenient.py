"""What MCP servers answer, mended where the package refuses a whole list for one tool.

Touches lists of tools only: a schema without `type` becomes one of an object, and what a tool promises
of its results is left out, since a broken promise would lose a result that is there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


@asynccontextmanager
async def lenient(transport: AbstractAsyncContextManager[TransportStreams]) -> AsyncGenerator[Any]:
    """`transport` with its answers mended."""
    async with transport as (read, write):
        yield cast("Any", _Mended(read)), write


class _Mended:
    """A stream of messages, each mended as it is taken."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Mended:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *reason: object) -> Any:
        return await self._stream.__aexit__(*reason)

    def __aiter__(self) -> _Mended:
        return self

    async def __anext__(self) -> Any:
        return _mend(await self._stream.__anext__())

    async def receive(self) -> Any:
        return _mend(await self._stream.receive())


def _mend(item: Any) -> Any:
    found: object = getattr(getattr(item, "message", None), "result", None)
    if isinstance(found, dict):
        result = cast("dict[str, Any]", found)
        tools: object = result.get("tools")
        if isinstance(tools, list):
            listed = map(_tool, cast("list[Any]", tools))
            result["tools"] = [tool for tool in listed if tool is not None]
    return item


def _tool(tool: Any) -> dict[str, Any] | None:
    """The tool as the package takes it; None for what has no name."""
    if not isinstance(tool, dict):
        return None
    kept = dict(cast("dict[str, Any]", tool))
    if not isinstance(kept.get("name"), str):
        return None
    schema = kept.get("inputSchema")
    kept["inputSchema"] = {**(schema if isinstance(schema, dict) else {}), "type": "object"}
    kept.pop("outputSchema", None)
    if not isinstance(kept.get("description", ""), str):
        del kept["description"]
    return kept
