"""A load that a person gave up leaves the model of before as what is loaded next."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from backend.chat_engine import LoadSpec, Progress
from backend.engines.local import InProcessEngine
from backend.engines.scripted import ScriptedEngine
from backend.types import ChatCard, ModelLoadError


class SlowEngine(ScriptedEngine):
    """Loads in a hundred steps, and can be told to stop at each."""

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        for step in range(100):
            if progress and progress(step / 100) is False:
                raise ModelLoadError("Loading was cancelled.", cause="cancelled", remedy="Load it again.")
        return await super().load(spec, progress)


async def test_a_load_that_was_given_up_changes_nothing_for_the_next() -> None:
    async with SessionManager(engine=SlowEngine(), store=None) as manager:
        await manager.load_model("first")
        asked = 0

        def go_on() -> bool:
            nonlocal asked
            asked += 1
            return asked < 5

        with pytest.raises(FiresideError) as failure:
            await manager.load_model("second", go_on=go_on)
        assert failure.value.code == "cancelled" and 5 <= asked < 10
        async with manager._lease.use(None, lambda fraction: None) as engine:
            assert engine.card.model_id == "first"


async def test_a_load_that_failed_by_itself_keeps_what_was_asked_for() -> None:
    class Broken(ScriptedEngine):
        async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
            if spec.source == "second":
                self.closed = True
                raise ModelLoadError("It is cut off.", cause="truncated", remedy="Fetch it again.")
            return await super().load(spec, progress)

    async with SessionManager(engine=Broken(), store=None) as manager:
        await manager.load_model("first")
        with pytest.raises(FiresideError, match="cut off"):
            await manager.load_model("second")
        with pytest.raises(FiresideError, match="cut off"):
            async with manager._lease.use(None, lambda fraction: None):
                raise AssertionError("it was not to be used")


@pytest.mark.model
async def test_a_real_load_is_given_up(tiny_llama: Path) -> None:
    async with SessionManager(engine=InProcessEngine(), store=None) as manager:
        with pytest.raises(FiresideError) as failure:
            await manager.load_model(str(tiny_llama), go_on=lambda: False)
        assert failure.value.code == "cancelled"
        card = await manager.load_model(str(tiny_llama))
        assert card.max_seq


@pytest.mark.model
async def test_the_sampling_that_a_file_names_is_told_of_the_loaded_model(tiny_llama: Path) -> None:
    async with SessionManager(engine=InProcessEngine(), store=None) as manager:
        await manager.load_model(str(tiny_llama))
        assert manager.residency["defaults"] == {}
