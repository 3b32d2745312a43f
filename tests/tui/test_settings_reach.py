"""What is set in a chat reaches every reply from then on, zero and off included."""

from __future__ import annotations

import pytest

from tests.tui.program import running

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
