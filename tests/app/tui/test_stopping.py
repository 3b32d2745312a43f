"""A reply that is stopped, where the engine takes its time: nothing mixes, and the page says what goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from backend.chat_engine import Request
from backend.engines.scripted import ScriptedEngine
from backend.types import ChatOutcome, Piece, TextPiece
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)


class Deaf(ScriptedEngine):
    """Goes on for as long as it likes after it was told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.on, self.off = asyncio.Event(), asyncio.Event()
        self.running = self.most = 0

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        self.requests.append(request)
        name = "A" if len(self.requests) == 1 else "B"
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield [TextPiece(f"{name}1 ")]
            if name == "A":
                await self.on.wait()
                yield [TextPiece("A2 ")]
                await self.off.wait()
            yield [ChatOutcome(finish="stop", prompt_tokens=1, text="")]
        finally:
            self.running -= 1

    def cancel(self, request_id: str) -> None:
        pass


async def test_the_next_reply_begins_only_when_the_stopped_one_has_ended() -> None:
    engine = Deaf()
    async with running(engine=engine) as run:
        await run.send("a")
        await run.until(lambda: run.texts("answer") == ["A1 "])
        assert "esc stops" in run.seam
        await run.pilot.press("escape")
        await run.until(lambda: "stopping" in run.seam)
        await run.send("b")
        engine.on.set()
        await run.until(lambda: "queued" in "\n".join(run.screen()))
        assert "stopping" in run.seam
        assert engine.running == 1
        engine.off.set()
        await run.until(lambda: run.texts("answer")[-1] == "B1 " and not run.app.chat.busy)
        assert engine.most == 1
        assert "A2" not in "".join(run.texts("answer"))
        assert "stopping" not in run.seam
