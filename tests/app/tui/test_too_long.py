"""A message that the context cannot hold: both numbers, nothing lost, and the next one is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)
LONG = " ".join(["word"] * 1400)


async def test_it_is_told_with_both_numbers_and_the_chat_goes_on() -> None:
    engine = ScriptedEngine([["short answer"]], card=replace(CARD, max_seq=256))
    async with running(engine=engine) as run:
        await run.send(LONG)
        await run.until(lambda: run.app.parts.approval.question is not None and run.app.parts.approval.armed)
        await run.pilot.press("3")
        await run.until(lambda: run.texts("error") and not run.app.chat.busy)
        rows = "\n".join(run.screen())
        assert "1400 tokens" in rows and "room for 256" in rows
        assert " ".join(rows.split()).count("horten the message") == 1 and "Shorten it" not in rows
        assert run.texts("user") == [LONG]
        await run.type("hi")
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["short answer"])
        assert run.texts("user") == [LONG, "hi"]
