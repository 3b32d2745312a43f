"""A chat that never ends, in a process of its own, for others to kill. Prints what it was told is kept."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

from app.sessions.errors import ConflictError
from app.sessions.events import OutputItemDoneEvent, SessionInputConsumedEvent
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.host import EngineHost
from backend.engines.scripted import Pause, ScriptedEngine
from backend.types import ReasoningPiece, ToolCall
from tests.app.sessions.conftest import EchoTool


class Endless(ScriptedEngine):
    """Thinks, speaks and calls, a little at a time."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._numbers = count()

    async def submit(self, request: Any) -> AsyncIterator[list[Any]]:
        number = next(self._numbers)
        script: list[Any] = [ReasoningPiece(f"thought {number} ")]
        for _ in range(self._random.randrange(12)):
            script += [f"word{number} ", Pause(self._random.random() / 200)]
        if self._random.random() < 0.6:
            script += [ToolCall(f"call_{number}_{index}", "echo", {"n": number}) for index in range(2)]
        self.requests.clear()
        self.scripts = [script]
        async for pieces in super().submit(request):
            yield pieces


def say(*words: str) -> None:
    print(*words, flush=True)


async def report(manager: SessionManager, session_id: str, ready: asyncio.Event) -> None:
    async for event in manager.stream(session_id):
        ready.set()
        match event:
            case OutputItemDoneEvent(item=item):
                say("KEPT", session_id, item.id)
            case SessionInputConsumedEvent(item_id=item_id):
                say("KEPT", session_id, item_id)
            case _:
                pass


async def post(manager: SessionManager, session_id: str, text: str) -> None:
    data = {"role": "user", "content": text}
    ack = await manager.post_event(session_id, {"type": "message", "data": data})
    say("SENT", session_id, str(ack.item_id))


async def tell_child(host: EngineHost) -> None:
    """Print the engine child's id, and each new one's after a crash."""
    told = None
    while True:
        if host.pid is not None and host.pid != told:
            told = host.pid
            say("CHILD", str(told))
        await asyncio.sleep(0.002)


async def chat(path: Path, seed: int, shared: str, model: str) -> None:
    async def pause(arguments: dict[str, Any], context: Any) -> str:
        await asyncio.sleep(0.003)
        return "x" * (20 if model else 1000)

    host = EngineHost() if model else None
    async with SessionManager(
        engine=host or Endless(seed), store=Store(path), tools=[EchoTool(action=pause)]
    ) as manager:
        session_id = (await manager.create()).id
        if host is not None:
            telling = asyncio.create_task(tell_child(host))
            await manager.load_model(model, slots=1, threads=1, max_seq=2048, tool_call_format="generic")
            # Weights are random, so the grammar alone sees to it that tools are called.
            config = {"tool_choice": "required", "max_new_tokens": 300, "temperature": 1.0, "seed": seed}
            await manager.configure(session_id, config=config, overflow="drop", max_rounds=2)
        say("OPEN", session_id)
        ready = asyncio.Event()
        following = asyncio.create_task(report(manager, session_id, ready))
        await ready.wait()
        say("READY")
        for number in count():
            await post(manager, session_id, f"question {number}")
            if number % 3 == 0:
                await post(manager, session_id, f"and {number}")
            if number % 7 == 5:
                await manager.interrupt(session_id)
            if shared:
                try:
                    await post(manager, shared, f"from {seed} number {number}")
                except ConflictError:
                    say("REFUSED", shared)
            await asyncio.sleep(0.1 if model else 0.02)
        await following
        if host is not None:
            await telling


if __name__ == "__main__":
    asyncio.run(chat(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
