"""The card of a prompt that is too long has all of its choices on a small screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.tui.pilot import running

LONG = " ".join(["word"] * 1400)
CHOICES = ("summarise older turns", "leave out the oldest turns", "stop")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size", [(80, 24), (100, 30), (140, 40)])
@pytest.mark.parametrize("theme", ["hearth", "paper"])
async def test_the_overflow_card_shows_numbers_and_choices(size: tuple[int, int], theme: str) -> None:
    engine = ScriptedEngine([["short answer"]], card=replace(CARD, max_seq=256))
    async with running(engine=engine, size=size, theme=theme) as run:
        await run.send(LONG)
        await run.until(lambda: run.app.parts.approval.question is not None and run.app.parts.approval.armed)
        rows = run.screen()
        told = " ".join(" ".join(rows).split())
        assert "1400 tokens" in told and "room for 256" in told
        assert "reading" not in told
        for number, words in enumerate(CHOICES, 1):
            assert any(f"{number}" in row and words in row for row in rows), words
