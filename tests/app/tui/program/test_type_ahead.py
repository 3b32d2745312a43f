from __future__ import annotations

import pytest

from app.settings.config import Settings, Value
from app.tui.program.type_ahead import stable_part
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


def test_the_stable_part_is_all_but_the_last_word() -> None:
    assert stable_part("tell me about bas") == "tell me about"
    assert stable_part("word") == ""
    assert stable_part("/model x y") == ""
    assert stable_part("one\ntwo") == "one"


async def test_the_conversation_is_read_at_once_and_the_draft_at_a_pause_where_that_is_wished() -> None:
    wish = Settings({"type_ahead": Value(True, "--set")})
    async with running([["ok"]], settings=wish) as run:
        await run.ask("hi")
        await run.type("a rather long beginning of a draf")
        await run.until(lambda: len(run.engine.warmed) > 1)
        assert [turns[-1]["content"] for turns in run.engine.warmed] == ["ok", "a rather long beginning of a"]
        assert [item.type for item in await run.items()] == ["message", "message"]
    async with running([["ok"]]) as run:
        await run.ask("hi")
        assert run.app.drafts.type_ahead is None
