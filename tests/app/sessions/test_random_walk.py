"""Whatever a person does, in whatever order: the tree stays whole and the model's view well-formed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.sessions.errors import ConflictError, InvalidInputError
from app.sessions.items import FunctionCall, FunctionCallOutput, Message
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.sessions.turn.history import NO_RESULT
from backend.engines.scripted import Pause, ScriptedEngine
from backend.types import EngineError
from tests.app.sessions.conftest import EchoTool, Room, call, listening

STEPS = ("post", "post", "edit", "retry", "variants", "continue", "select", "interrupt", "rest", "fork")


class Erratic(ScriptedEngine):
    """Answers, calls, fails or stops short, as drawn."""

    def __init__(self, draws: list[int]) -> None:
        super().__init__()
        self.draws = draws
        self.checked: list[list[Any]] = []

    async def submit(self, request: Any) -> Any:
        self.checked.append(list(request.messages))
        number = len(self.checked)
        kind = self.draws[number % len(self.draws)]
        scripts: list[list[Any]] = [
            [f"answer {number}"],
            [call(call_id=f"c{number}"), call(call_id=f"d{number}")],
            ["half ", Pause(0.002), "more"],
            ["broken ", EngineError("boom")],
            [EngineError("at once")],
            ["x", Pause(0.001), call(call_id=f"e{number}")],
        ]
        self.requests.clear()
        self.scripts = [scripts[kind]]
        async for pieces in super().submit(request):
            yield pieces


def well_formed(turns: list[Any]) -> None:
    waiting: list[str] = []
    role = ""
    for turn in turns:
        if turn["role"] == "tool":
            waiting.remove(turn["tool_call_id"])
            assert turn["content"] != NO_RESULT
        else:
            assert not waiting and (turn["role"], role) != ("user", "user")
            waiting = [entry["id"] for entry in turn.get("tool_calls", ())]
        role = turn["role"]
    assert not waiting


async def step(chat: Room, kind: str, draw: int) -> None:
    manager = chat.manager
    nodes = await manager.store.tree(chat.session_id)
    users = [node.item for node in nodes if isinstance(node.item, Message) and node.item.role == "user"]
    responses = [node.item.response_id for node in nodes if node.item.response_id]
    match kind:
        case "post":
            await chat.post(f"question {draw}")
        case "edit" if users:
            await manager.edit(users[draw % len(users)].id, f"edited {draw}")
        case "retry" | "variants" if responses:
            await manager.retry(responses[draw % len(responses)] or "", n=1 if kind == "retry" else 2)
        case "continue" if responses:
            await manager.continue_reply(responses[draw % len(responses)] or "")
        case "select" if nodes:
            await manager.select(nodes[draw % len(nodes)].item.id)
        case "interrupt":
            await manager.interrupt(chat.session_id)
        case "fork":
            copy = await manager.fork(chat.session_id)
            assert (await manager.get(copy)).status == "idle"
        case _:
            await asyncio.sleep(0.003)


def unended(types: list[str]) -> int:
    """Responses without their one terminal event."""
    return types.count("response.created") - sum(name in ENDS for name in types)


async def walk(steps: list[tuple[str, int]], draws: list[int]) -> None:
    engine = Erratic(draws)
    async with SessionManager(engine=engine, store=Store(None), tools=[EchoTool()]) as manager:
        chat = Room(manager, engine, (await manager.create()).id)
        await manager.configure(chat.session_id, max_rounds=3)
        async with listening(manager, chat.session_id) as heard:
            for kind, draw in steps:
                try:
                    await step(chat, kind, draw)
                except (ConflictError, InvalidInputError):
                    continue
            await manager.interrupt(chat.session_id)
            live = await manager.live(chat.session_id)
            async with asyncio.timeout(30):
                while live.busy or live.queue or live.gate.locked() or unended(heard.types):
                    await asyncio.sleep(0.001)
        for turns in engine.checked:
            well_formed(turns)
        nodes = await manager.store.tree(chat.session_id)
        calls = [node.item.call_id for node in nodes if isinstance(node.item, FunctionCall)]
        results = [node.item.call_id for node in nodes if isinstance(node.item, FunctionCallOutput)]
        assert sorted(calls) == sorted(results)
        stored = await manager.store.session(chat.session_id)
        assert stored.leaf_id == live.record.leaf_id and stored.status in ("idle", "failed")
        assert await manager.store.writings() == []


ENDS = {f"response.{status}" for status in ("completed", "failed", "incomplete", "cancelled")}


@pytest.mark.timeout(240)
@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 50)), min_size=1, max_size=12),
    draws=st.lists(st.integers(0, 5), min_size=1, max_size=6),
)
def test_any_order_of_operations_leaves_everything_whole(
    steps: list[tuple[str, int]], draws: list[int]
) -> None:
    asyncio.run(walk(steps, draws))
