"""What is set in a chat reaches every reply from then on, zero and off included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.chat_engine import LoadSpec, Progress
from backend.engines.scripted import CARD, ScriptedEngine
from backend.types import ChatCard
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)


async def test_a_temperature_reaches_each_reply_from_then_on() -> None:
    async with running([["1"], ["2"], ["3"]]) as run:
        await run.ask("a")
        for value in ("1.5", "0"):
            await run.send(f"/set temperature {value}")
            await run.until(lambda: f"temperature = {value}" in run.seam)  # noqa: B023
            await run.ask("next")
        assert [request.config.temperature for request in run.engine.requests] == [None, 1.5, 0.0]


async def test_thinking_stays_off_until_it_is_on_again() -> None:
    async with running([["1"], ["2"], ["3"]]) as run:
        await run.send("/think off")
        await run.until(lambda: "without thinking" in run.seam)
        await run.ask("a")
        await run.ask("b")
        await run.send("/think on")
        await run.until(lambda: "thinks first" in run.seam)
        await run.ask("c")
        assert [request.config.enable_thinking for request in run.engine.requests] == [False, False, True]


async def test_a_setting_of_the_load_is_for_the_model_that_was_chosen_since() -> None:
    async with running([["1"]]) as run:
        await run.app.load_model("Qwen3-4B-Q4_K_M.gguf")
        specs: list[LoadSpec] = []
        load = run.engine.load

        async def noted(spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
            specs.append(spec)
            return await load(spec, progress)

        run.engine.load = noted  # type: ignore[method-assign]
        await run.send("/set max_seq 2048")
        await run.until(lambda: specs)
        assert specs[0].source == "Qwen3-4B-Q4_K_M.gguf"
        assert specs[0].options["max_seq"] == 2048


async def test_a_call_cannot_be_required_of_a_model_that_cannot_call() -> None:
    engine = ScriptedEngine([], card=replace(CARD, supports_tools=False))
    async with running(engine=engine) as run:
        await run.send("/set tool_choice required")
        await run.until(lambda: "allow it with /set load.tool_call_format generic" in run.seam)
        assert "cannot call tools" in run.seam
