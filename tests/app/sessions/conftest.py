from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.sessions.events import SessionEvent, SessionStatusEvent
from app.sessions.items import Item
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine, Step
from backend.types import ToolCall
from tools.context import ToolContext
from tools.definition import Tool, Touch

Run = Callable[[dict[str, Any], ToolContext], Awaitable[str]]


PARAMETERS = {"type": "object", "properties": {"path": {"type": "string", "default": "kept.txt"}}}


async def _echo(arguments: dict[str, Any], context: ToolContext) -> str:
    return f"echo {arguments}"


class EchoTool(Tool):
    """A tool that records its calls. Where it reads or writes, it does so at the path it is given."""

    calls: list[dict[str, Any]]

    def __init__(
        self,
        name: str = "echo",
        effect: str = "nothing",
        action: Run = _echo,
        *,
        description: str = "Say it again.",
        parameters: dict[str, Any] | None = None,
    ) -> None:
        calls: list[dict[str, Any]] = []

        async def run(arguments: dict[str, Any], context: ToolContext) -> str:
            calls.append(dict(arguments))
            return await action(dict(arguments), context)

        super().__init__(
            name,
            run,
            frozenset({effect}),  # pyright: ignore[reportArgumentType]
            Touch(paths=("path",)) if effect in ("read", "write") else Touch(),
            summary=description,
            schema_override=parameters or PARAMETERS,
            source="test",
        )
        object.__setattr__(self, "calls", calls)


def call(name: str = "echo", call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments)


@dataclass
class Heard:
    """What a subscriber heard, with a way to wait for something."""

    events: list[SessionEvent] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, wanted: Callable[[SessionEvent], bool], *, count: int = 1) -> SessionEvent:
        async with self.changed:
            await self.changed.wait_for(lambda: sum(map(wanted, self.events)) >= count)
        return [event for event in self.events if wanted(event)][count - 1]

    async def status(self, *statuses: str, count: int = 1) -> SessionEvent:
        return await self.until(
            lambda event: isinstance(event, SessionStatusEvent) and event.status in statuses, count=count
        )

    async def kind(self, kind: type[SessionEvent], *, count: int = 1) -> Any:
        return await self.until(lambda event: isinstance(event, kind), count=count)

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


@asynccontextmanager
async def listening(manager: SessionManager, session_id: str) -> AsyncIterator[Heard]:
    heard = Heard()
    ready = asyncio.Event()

    async def follow() -> None:
        async for event in manager.stream(session_id):
            async with heard.changed:
                heard.events.append(event)
                heard.changed.notify_all()
            ready.set()

    task = asyncio.create_task(follow())
    await ready.wait()
    try:
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@dataclass
class Room:
    """A manager on a scripted engine, with one session."""

    manager: SessionManager
    engine: ScriptedEngine
    session_id: str

    async def say(self, text: str = "hello") -> list[Item]:
        """Post a message and wait until the session rests; returns the items of its path."""
        async with listening(self.manager, self.session_id) as heard:
            await self.post(text)
            await heard.status("idle", "failed")
        return await self.items()

    async def post(self, text: str) -> str:
        data = {"role": "user", "content": text}
        ack = await self.manager.post_event(self.session_id, {"type": "message", "data": data})
        assert ack.item_id
        return ack.item_id

    async def items(self) -> list[Item]:
        return await self.manager.list_items(self.session_id, limit=1000)

    @property
    def sent(self) -> list[list[Any]]:
        """The messages of every request to the model."""
        return [list(request.messages or ()) for request in self.engine.requests]


MakeRoom = Callable[..., Awaitable[Room]]


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[MakeRoom]:
    managers: list[SessionManager] = []

    async def make(
        *scripts: Sequence[Step], store: Store | None = None, agent: Any = None, **options: Any
    ) -> Room:
        engine = options.pop("engine", None) or ScriptedEngine(scripts)
        engine.scripts = scripts or engine.scripts
        tools = options.get("tools")
        if isinstance(tools, list) and any(isinstance(one, EchoTool) and one.touch.paths for one in tools):
            options.setdefault("workspace", tmp_path)
        manager = SessionManager(
            engine=engine, store=store or Store(tmp_path / f"{len(managers)}.db"), **options
        )
        managers.append(manager)
        await manager.start()
        session = await manager.create(agent)
        return Room(manager, engine, session.id)

    yield make
    for manager in managers:
        await manager.aclose()
