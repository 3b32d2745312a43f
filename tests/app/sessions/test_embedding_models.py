"""A model that only embeds is refused in words wherever text is asked of it, before its weights are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from backend.engines.host import EngineHost
from backend.engines.local import InProcessEngine
from tests.app.tui.pilot import running

SENTENCE = "is an embedding model and cannot write text"
SMALL = {"threads": 1, "max_seq": 256, "slots": 1}


@pytest.mark.parametrize("kind", [InProcessEngine, EngineHost])
async def test_it_is_refused_before_it_is_loaded_and_the_model_of_before_stays(
    kind: type[InProcessEngine] | type[EngineHost], tiny_embedding: Path, tiny_llama: Path
) -> None:
    fractions: list[float] = []
    async with SessionManager(engine=kind()) as manager:
        with pytest.raises(FiresideError, match=SENTENCE) as first:
            await manager.load_model(str(tiny_embedding), progress=fractions.append, for_text=True, **SMALL)
        assert first.value.code == "not_a_chat_model"
        assert "models list" in first.value.remedy
        assert not fractions
        before = await manager.load_model(str(tiny_llama), for_text=True, **SMALL)
        with pytest.raises(FiresideError, match=SENTENCE):
            await manager.load_model(str(tiny_embedding), for_text=True, **SMALL)
        assert manager.card == before


async def test_one_that_was_loaded_to_embed_answers_no_turn(tiny_embedding: Path) -> None:
    async with SessionManager(engine=InProcessEngine()) as manager:
        await manager.load_model(str(tiny_embedding), threads=1)
        assert len(await manager.embed(["hello"])) == 1
        session = await manager.create()
        with pytest.raises(FiresideError, match=SENTENCE):
            await manager.context(session.id, "hello")


async def test_a_chat_that_names_one_is_told(tiny_embedding: Path) -> None:
    engine = InProcessEngine()
    async with running(engine=engine) as run:
        assert not await run.app.load_model(str(tiny_embedding))
        assert SENTENCE in run.seam
        await run.type("hello")
        await run.pilot.press("enter")
        await run.until(lambda: any(SENTENCE in row for row in run.screen()))
        assert not any("unknown reason" in row or "ValueError" in row for row in run.screen())
