"""What a model cannot do is told in the same words everywhere, and a mistyped model changes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.frontend.abilities import unmet, without_tools
from app.sessions.errors import FiresideError
from app.sessions.turn.engine_lease import EngineLease
from app.settings.config import Settings, Value
from backend.chat_engine import LoadSpec, Progress
from backend.engines.host import EngineHost
from backend.engines.local import InProcessEngine
from backend.engines.scripted import CARD, ScriptedEngine
from backend.types import ChatCard, GenerationConfig, ModelLoadError
from tests.app.repl.chatting import chat
from tests.app.tui.pilot import running
from tools.builtin.clock import now

MUTE = replace(CARD, model_id="mute", supports_tools=False, reasoning_mode="never")
NO_TOOLS = str(without_tools(MUTE))
NO_THOUGHT = MUTE.unmet_thinking(GenerationConfig(enable_thinking=True))


class Choosy(ScriptedEngine):
    """Loads any model but one whose name is mistyped."""

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        if "smolm" in (spec.source or ""):
            raise ModelLoadError(f"There is no model {spec.source!r}.", cause="not_found", remedy="Look.")
        return await super().load(spec, progress)


def flat(text: str) -> str:
    return " ".join(text.replace("\u254f", " ").split())


# ---- a mistyped name -------------------------------------------------------------------------


async def test_the_desk_keeps_the_model_of_before() -> None:
    lease = EngineLease(Choosy(closed=True), LoadSpec())
    await lease.load(LoadSpec("first", {"slots": 2}), lambda _: None)
    with pytest.raises(FiresideError, match="smolm"):
        await lease.load(LoadSpec("smolm"), lambda _: None)
    assert lease.source == "first"
    async with lease.use(None, lambda _: None) as engine:
        assert engine.card.model_id == "first"


@pytest.mark.timeout(60)
async def test_the_full_screen_tells_and_keeps_chat_and_model() -> None:
    async with running(engine=Choosy([["one"], ["two"]])) as run:
        await run.ask("hi")
        await run.send("/model smolm")
        await run.until(lambda: "no model 'smolm'" in flat(run.seam))
        assert run.app.first_run.page is None
        assert any("one" in row for row in run.screen())
        await run.ask("again")
        assert run.texts("answer") == ["one", "two"]


async def test_line_by_line_it_tells_and_keeps_chat_and_model() -> None:
    told = await chat("hi", "/model smolm", "again", engine=Choosy([["one"], ["two"]], closed=True))
    assert "no model 'smolm'" in told.seen and "two" in told.seen


async def test_line_by_line_a_chat_keeps_its_own_model_too() -> None:
    faces: list[Any] = []

    async def choose(name: str) -> None:
        await faces[0].manager.set_model_override(await faces[0].session(), name)

    async def look() -> None:
        held = await faces[0].manager.settings(faces[0].session_id)
        assert held["model"]["value"] == "own"

    told = await chat(
        "hi",
        lambda: choose("own"),
        "/model smolm",
        "again",
        look,
        engine=Choosy([["one"], ["two"]], closed=True),
        watch=faces.append,
    )
    assert "two" in told.seen


@pytest.mark.model
@pytest.mark.timeout(120)
async def test_an_engine_keeps_its_model_where_there_is_no_such_one(tiny_llama: Path) -> None:
    for engine in (InProcessEngine(), EngineHost()):
        card = await engine.load(LoadSpec(str(tiny_llama)))
        try:
            with pytest.raises(ModelLoadError):
                await engine.load(LoadSpec("smolm"))
            assert not engine.closed and engine.card == card
            assert await engine.count([{"role": "user", "content": "hi"}], [])
        finally:
            await engine.unload()


# ---- what a model cannot do ------------------------------------------------------------------


async def test_line_by_line_commands_and_flags_are_told() -> None:
    flags = Settings(
        {"tools": Value(("now",), "--tools"), "generation.enable_thinking": Value(True, "--think")}
    )
    lines = ("hi", "/tools all", "/tools now", "/think on")
    told = await chat(*lines, engine=mute(), settings=flags, tools=[now])
    seen = flat(told.seen)
    assert seen.count(NO_TOOLS) == 3 and seen.count(NO_THOUGHT) >= 2
    assert "are offered" not in seen and "thinks first" not in seen


@pytest.mark.timeout(60)
async def test_the_full_screen_tells_them_too() -> None:
    flags = Settings({"tools": Value(("now",), "--tools")})
    async with running(engine=mute(), settings=flags) as run:
        await run.until(lambda: NO_TOOLS in flat(run.seam))
        for line, said in (("/think on", NO_THOUGHT), ("/tools all", NO_TOOLS)):
            await run.send(line)
            await run.until(lambda said=said: said in flat(run.seam))


def test_what_a_file_named_is_told_and_what_it_can_is_not() -> None:
    file = Settings({"tools": Value(("now",), "config.toml")})
    assert unmet(MUTE, file).endswith("has no way to call tools. Those of config.toml are not offered.")
    assert unmet(CARD, file) == unmet(MUTE, Settings({})) == ""
    assert unmet(MUTE, Settings({"tools": Value((), "--no-tools")})) == ""


def mute(*scripts: Any) -> Choosy:
    return Choosy(scripts, card=MUTE, closed=True)
