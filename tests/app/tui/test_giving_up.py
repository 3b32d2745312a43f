"""Esc ends the load of a model, and the chat goes on with the one of before."""

from __future__ import annotations

import asyncio

from backend.chat_engine import LoadSpec, Progress
from backend.engines.scripted import ScriptedEngine
from backend.types import ChatCard, ModelLoadError
from tests.app.tui.pilot import running


class SlowEngine(ScriptedEngine):
    """Loads a model named `slow` until somebody gives it up."""

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        while spec.source == "slow" and progress:
            if progress(0.42) is False:
                raise ModelLoadError("Loading was cancelled.", cause="cancelled", remedy="Load it again.")
            await asyncio.sleep(0.01)
        return await super().load(spec, progress)


async def test_esc_gives_up_a_load_and_the_next_message_is_answered() -> None:
    engine = SlowEngine([["one"], ["two"]])
    async with running(engine=engine) as run:
        await run.ask("hi")
        load = asyncio.create_task(run.app.load_model("slow"))
        await run.until(lambda: "loading 42 %" in run.screen()[-1])
        await run.pilot.press("escape")
        assert await load is False
        await run.until(lambda: "Loading was stopped" in run.seam)
        await run.ask("again")
        assert run.texts("answer") == ["one", "two"]
        assert "loading" not in run.screen()[-1]
