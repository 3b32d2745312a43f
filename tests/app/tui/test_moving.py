"""Between chats, models, screens and sizes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.terminal.glyphs import ASCII
from app.terminal.theming import SHIPPED
from backend.chat_engine import LoadSpec, Progress
from backend.engines.scripted import CARD, Pause, ScriptedEngine
from backend.types import ChatCard, ModelLoadError
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


@dataclass
class Stubborn(ScriptedEngine):
    """Loads nothing until it is allowed to."""

    cause: Any = "not_found"
    allowed: bool = False

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        if not self.allowed:
            self.closed = True
            raise ModelLoadError("There is no such model.", cause=self.cause, remedy="Fetch one.")
        return await super().load(spec, progress)


def stubborn(**fields: Any) -> Stubborn:
    engine = Stubborn(**fields)
    engine.closed = True
    return engine


async def test_a_model_that_fails_is_told_and_another_one_loads() -> None:
    engine = stubborn(cause="truncated", scripts=[["ok"]])
    async with running(engine=engine, wait=False) as run:
        await run.until(lambda: "no such model" in run.seam)
        assert "no model" in run.screen()[-1]
        engine.allowed = True
        assert await run.app.load_model("SmolLM2-360M-Instruct-Q8_0.gguf")
        await run.until(lambda: "SmolLM2 360M" in run.screen()[-1])
        await run.ask("hi")
        assert run.texts("name") == ["SmolLM2 360M"]


async def test_another_model_is_noted_in_the_chat() -> None:
    async with running([["one"], ["two"]]) as run:
        await run.ask("hi")
        assert await run.app.load_model("Qwen3-4B-Q4_K_M.gguf")
        await run.until(lambda: any("model changed to Qwen3 4B" in text for text in run.texts("note")))
        await run.ask("and now")
        assert run.texts("name")[-1] == "Qwen3 4B"


async def test_without_any_model_the_first_run_is_shown() -> None:
    engine = stubborn(scripts=[["hello"]])
    async with running(engine=engine, wait=False) as run:
        await run.until(lambda: run.app.first_run.page is not None and run.app.first_run.page.is_mounted)
        await run.until(lambda: "No model here yet." in "\n".join(run.screen()))
        await run.pilot.press("tab")
        assert run.app.parts.draft.has_focus
        await run.type("hi")
        await run.pilot.press("enter")
        await run.until(lambda: "when a model is ready" in run.seam)
        assert run.app.parts.draft.text == "hi"
        engine.allowed = True
        run.app.first_run.page.post_message(run.app.first_run.page.Ready("some.gguf"))
        await run.until(lambda: run.texts("answer") == ["hello"])
        assert run.app.first_run.page is None
        assert run.app.parts.transcript.display


async def test_the_side_pane_stands_beside_where_there_is_room() -> None:
    async with running([["ok"]], size=(140, 40)) as run:
        await run.ask("about basalt")
        await run.until(lambda: "about basalt" in "\n".join(row[:31] for row in run.screen()))
        await run.pilot.press("f2")
        assert not run.app.parts.side_open
        await run.until(lambda: "about basalt" in run.seam)
        await run.pilot.press("f2")
        assert run.app.parts.side_open
        assert run.app.parts.pane.has_focus


async def test_the_side_pane_lies_over_a_narrow_screen_and_goes() -> None:
    async with running([["ok"]], size=(80, 24)) as run:
        await run.ask("about basalt")
        assert not run.app.parts.side_open
        await run.pilot.press("ctrl+b")
        await run.until(lambda: run.app.parts.pane.has_focus)
        await run.until(lambda: "about basalt" in "\n".join(row[:31] for row in run.screen()))
        await run.pilot.press("escape")
        assert not run.app.parts.side_open
        assert run.app.parts.draft.has_focus


async def test_chats_are_renamed_pinned_deleted_and_taken_back() -> None:
    async with running([["a"], ["b"]], size=(140, 40)) as run:
        await run.ask("first chat")
        first = run.app.chat.id
        await run.pilot.press("ctrl+n")
        await run.until(lambda: run.app.chat.id != first)
        await run.ask("second chat")
        second = run.app.chat.id
        assert first and second
        run.app.parts.pane.post_message(run.app.parts.pane.Wished(second, "pin"))
        run.app.parts.pane.post_message(run.app.parts.pane.Wished(second, "delete"))
        await run.until(lambda: run.app.chat.id is None)
        assert [chat.id for chat in await run.app.manager.list()] == [first]
        await run.until(lambda: "restores it" in run.seam)
        assert "alt+u restores it" in run.seam
        await run.pilot.press("alt+u")
        await run.until(lambda: "is restored" in run.seam)
        assert {chat.id for chat in await run.app.manager.list()} == {first, second}


async def test_search_opens_the_chat_at_the_place() -> None:
    async with running([["the word is heron"], ["other"]]) as run:
        await run.ask("which bird")
        first = run.app.chat.id
        await run.pilot.press("ctrl+n")
        await run.until(lambda: run.app.chat.id is None)
        await run.ask("something else")
        await run.pilot.press("ctrl+f")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.type("heron")
        await run.until(lambda: "the word is" in "\n".join(run.screen()))
        await run.pilot.press("enter")
        await run.until(lambda: run.app.chat.id == first)


async def test_a_bare_resume_asks_which_chat(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    async with running([["yes"]], store=store) as run:
        await run.ask("an older question")
    async with running(store=store, start={"resume": ""}) as run:
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.until(lambda: "an older question" in "\n".join(run.screen()))
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("user") == ["an older question"])


@pytest.mark.parametrize("how", ["last", "resume", "fork"])
async def test_a_chat_is_gone_on_with(tmp_path: Path, how: str) -> None:
    store = tmp_path / "chats.db"
    async with running([["yes"]], store=store) as run:
        await run.ask("an older question")
        old = run.app.chat.id
    assert old is not None
    start = {"last": True} if how == "last" else {how: old[:14]}
    async with running([["more"]], store=store, start=start) as run:
        await run.until(lambda: run.texts("answer") == ["yes"])
        await run.ask("and then")
        assert run.texts("user") == ["an older question", "and then"]
        assert (run.app.chat.id == old) == (how != "fork")


async def test_a_chat_that_is_not_there_ends_the_program_with_its_reason(tmp_path: Path) -> None:
    async with running(start={"resume": "nothing"}) as run:
        await run.until(lambda: run.app.startup.failure is not None)
        assert "No chat starts with" in str(run.app.startup.failure)


@pytest.mark.parametrize("key", ["question_mark", "ctrl+p", "ctrl+f", "ctrl+l", "f5", "f6"])
async def test_each_dialog_opens_and_escape_closes_it(key: str) -> None:
    async with running([["ok"]], size=(80, 24)) as run:
        await run.ask("hi")
        await run.pilot.press(key)
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        assert run.app.parts.draft.has_focus


async def test_a_private_chat_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    async with running([["kept"], ["whisper back"]], store=store) as run:
        await run.ask("in the open")
        await run.send("/private")
        await run.until(lambda: run.app.chat.private)
        assert "private" in run.screen()[-1]
        await run.ask("marker-in-private")
        await run.type("another-marker")
        await run.pilot.pause()
        assert run.app.startup.resume_line is None
        assert [chat.title for chat in await run.app.manager.list()] == ["in the open"]
    held = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"in the open" in held
    assert b"marker" not in held and b"whisper" not in held


async def test_a_prompt_too_long_asks_what_to_do() -> None:
    engine = ScriptedEngine([["first"], ["a short gist"], ["second"]], card=replace(CARD, max_seq=40))
    async with running(engine=engine) as run:
        await run.ask(" ".join(["word"] * 25))
        await run.send(" ".join(["more"] * 25))
        await run.until(lambda: run.app.parts.approval.question is not None)
        rows = "\n".join(run.screen())
        assert "summarise older turns" in rows and "leave out the oldest turns" in rows
        await run.until(lambda: run.app.parts.approval.armed)
        await run.pilot.press("2")
        await run.until(lambda: not run.app.chat.busy)
        assert any("left out" in text for text in run.texts("note"))


@pytest.mark.parametrize("size", [(40, 12), (59, 20), (80, 24), (140, 40), (200, 60)])
async def test_it_fits_every_size(size: tuple[int, int]) -> None:
    gate = asyncio.Event()
    async with running([["**words** of an answer\n\n- one\n- two", Pause(until=gate)]], size=size) as run:
        await run.send("a question that is a little longer than one row of a narrow screen")
        await run.until(lambda: any("words" in row for row in run.screen()))
        rows = run.screen()
        assert len(rows) == size[1]
        assert "scripted" in rows[-1]
        for other in ((100, 30), size):
            await run.pilot.resize_terminal(*other)
            await run.pilot.pause()
        assert any("words" in row for row in run.screen())
        gate.set()


@pytest.mark.parametrize("theme", SHIPPED)
async def test_themes_are_switched_while_it_runs(theme: str) -> None:
    async with running([["ok"]]) as run:
        await run.ask("hi")
        before = run.screen()
        run.app.use_theme(theme)
        await run.pilot.pause()
        assert run.app.palette.name == theme
        assert run.screen() == before


async def test_ascii_draws_nothing_else() -> None:
    async with running([["plain words"]], glyphs=ASCII, size=(140, 40)) as run:
        await run.ask("hi")
        await run.pilot.press("alt+up")
        for row in run.screen():
            assert row.isascii(), row
