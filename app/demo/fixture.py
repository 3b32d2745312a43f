"""What a demo has instead of a person's own things: a pinned clock, settings, chats and a folder.

Chats, settings and files lie in a folder that goes when the demo ends; what its steps run as shell lines
or approve as calls is run like a person's own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app import clock
from app.demo.engine import FIRST_TOKEN_S, DemoEngine
from app.demo.script import Chat, Demo
from app.frontend.start import Start
from app.sessions.events import (
    FunctionCallArgumentsDeltaEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    ReasoningTextDeltaEvent,
    ResponseCreatedEvent,
    SessionEvent,
)
from app.sessions.items import FunctionCallOutput
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.settings.config import Settings, Value

if TYPE_CHECKING:
    from app.demo.machine import DemoMachine

NOON = 1_773_496_920.0
"""14 March 2026, 14:02 UTC: when every demo begins."""
TOOL_S = 0.012
ORIGIN = "the demo"


@dataclass
class DemoClock:
    """Time that passes by what is shown, not by what it takes."""

    elapsed: float = 0.0
    ago: float = 0.0

    def now(self) -> float:
        return NOON + self.elapsed - self.ago

    def seconds(self) -> float:
        return self.elapsed


class DemoManager(SessionManager):
    """A session manager in memory, with the demo's chats in it, whose events move the demo's clock."""

    def __init__(
        self, demo: Demo, time: DemoClock, folder: Path, engine: DemoEngine, machine: DemoMachine | None
    ) -> None:
        from app.frontend.tool_choice import choose

        tools: list[Any] = choose(demo.tools, None)[0] if demo.tools else []
        super().__init__(
            engine=engine, store=Store(None), tools=tools, approve=demo.approve, workspace=str(folder)
        )
        self._demo, self._time, self._machine = demo, time, machine

    async def models(self) -> list[Any]:
        """The models of the demo, where it names some."""
        return await super().models() if self._machine is None else list(self._machine.entries())

    async def start(self) -> None:
        await super().start()
        for chat in self._demo.chats:
            await self._add(chat)
        self._time.ago = 0.0

    async def _add(self, chat: Chat) -> None:
        self._time.ago = float(chat.age_s)
        items: list[dict[str, Any]] = []
        for question, answer in chat.turns:
            items.append(_message("user", "input_text", question))
            items.append(_message("assistant", "output_text", answer))
        made = await self.create(title=chat.title, initial_items=items)
        if chat.pinned:
            await self.pin(made.id)

    async def stream(self, session_id: str) -> AsyncGenerator[SessionEvent]:
        async for event in super().stream(session_id):
            self._time.elapsed += self._took(event)
            yield event

    def _took(self, event: SessionEvent) -> float:
        match event:
            case OutputTextDeltaEvent() | ReasoningTextDeltaEvent() | FunctionCallArgumentsDeltaEvent():
                return 1 / self._demo.tokens_per_second
            case ResponseCreatedEvent():
                return FIRST_TOKEN_S
            case OutputItemDoneEvent(item=FunctionCallOutput()):
                return TOOL_S
            case _:
                return 0.0


def _message(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


@dataclass(frozen=True)
class Fixture:
    """Everything a face is given when a demo plays on it."""

    demo: Demo
    time: DemoClock
    folder: Path
    start: Start
    engine: DemoEngine
    machine: DemoMachine | None = None

    def make_manager(self, _start: Start) -> SessionManager:
        """The manager of this demo's chats."""
        return DemoManager(self.demo, self.time, self.folder, self.engine, self.machine)


@contextmanager
def world(demo: Demo) -> Generator[Fixture]:
    """Within, the clock is pinned and the demo's folder is there."""
    with tempfile.TemporaryDirectory(prefix="fireside-demo-") as made, _in_utc():
        folder = Path(made) / "workspace"
        folder.mkdir()
        for name, text in demo.workspace.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        time = DemoClock()
        start = Start(Settings(_values(demo)), tools=demo.tools, approve=demo.approve, workspace=str(folder))
        engine = DemoEngine(
            demo.replies,
            name=demo.model_name,
            tokens_per_second=demo.tokens_per_second,
            log=Path(made) / "engine.log",
        )
        with clock.pinned(time.now, time.seconds):
            yield Fixture(demo, time, folder, start, engine, _machine(demo))


def _machine(demo: Demo) -> DemoMachine | None:
    if demo.machine is None:
        return None
    from app.demo.machine import DemoMachine

    return DemoMachine(demo.machine, demo.models)


def _values(demo: Demo) -> dict[str, Value]:
    given = {
        "theme": demo.theme,
        "model": demo.model,
        "system": demo.system,
        "load.chat_template": demo.template,
        "load.tool_call_format": demo.tool_format,
        # What is shown of it would else be what this machine's memory allows.
        "load.max_seq": demo.context,
    }
    return {key: Value(value, ORIGIN) for key, value in given.items() if value is not None}


@contextmanager
def _in_utc() -> Generator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
