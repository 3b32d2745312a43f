"""An empty chat tells how to begin: model, what to try, the last chats; until something is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.terminal.glyphs import ASCII
from backend.engines.scripted import CARD, Pause, ScriptedEngine
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_moving import stubborn

TRIES = ("Why is the sky blue?", "@file", "lists the commands")


def engine(*scripts: Any, model: str = "Larch-3B-Q4_K_M", gpu: int = 30) -> ScriptedEngine:
    devices = [{"kind": "gpu", "layers": gpu}, {"kind": "cpu", "layers": 30 - gpu}]
    residency = {"devices": devices, "pipeline": {}, "notes": []}
    return ScriptedEngine(scripts, card=replace(CARD, model_id=model), residency=residency)


async def chats(file: Path, *titles: str) -> None:
    """Chats with these titles, the last one used last."""
    async with SessionManager(engine=ScriptedEngine(), store=Store(file)) as manager:
        for title in titles:
            await manager.create(title=title)


def shown(run: Running) -> str:
    return "\n".join(run.screen())


async def begun(run: Running) -> None:
    await run.until(lambda: run.app.parts.opening.display)


async def test_it_tells_the_model_what_to_try_and_the_last_chats(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    await chats(file, "Tea and cake", "Names for a cat")
    async with running(store=file, engine=engine()) as run:
        await run.until(lambda: "Names for a cat" in shown(run))
        title = next(row for row in run.screen() if "fireside" in row)
        assert "Larch 3B" in title and "context" in title and "on this machine's GPU" in title
        assert all(words in shown(run) for words in (*TRIES, "Tea and cake"))
        assert "try" not in title and "small model" not in shown(run)


@pytest.mark.parametrize(
    ("gpu", "told"), [(30, "on this machine's GPU"), (12, "12 of 30 layers"), (0, "on this machine's CPU")]
)
async def test_it_tells_where_the_model_runs(gpu: int, told: str) -> None:
    async with running(engine=engine(gpu=gpu)) as run:
        await begun(run)
        assert told in shown(run)


async def test_of_the_starter_it_says_that_it_is_small() -> None:
    async with running(engine=engine(model="SmolLM2-135M-Instruct.Q4_1")) as run:
        await begun(run)
        assert "A small model" in shown(run) and "ctrl+l chooses another" in shown(run)


@pytest.mark.parametrize("key", ["h", "1", "space", "/", "@", "!", "paste", "earlier"])
async def test_it_is_gone_with_the_first_key_that_writes(key: str) -> None:
    async with running([["a reply"]]) as run:
        await begun(run)
        if key == "paste":
            run.app.parts.draft.paste("some words")
        elif key == "earlier":
            run.app.parts.draft.history_of_messages.add("said before", keep=False)
            await run.pilot.press("up")
        else:
            await run.type(" " if key == "space" else key)
        await run.until(lambda: not run.app.parts.opening.display)
        assert run.app.parts.draft.text and "Why is the sky blue?" not in shown(run)


async def test_it_stays_away_from_a_message_on_and_is_there_again_in_a_new_chat() -> None:
    async with running([[Pause(0.05), "a reply"]]) as run:
        await begun(run)
        seen: list[bool] = []
        show = run.app.parts.opening.show
        await run.type("hi")
        run.app.parts.opening.show = lambda facts, *rest: (
            seen.append(facts is not None),
            show(facts, *rest),
        )[1]  # type: ignore[method-assign]
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["a reply"] and not run.app.chat.busy)
        assert seen and not any(seen)
        await run.pilot.press("ctrl+n")
        await begun(run)
        assert "continue hi" in shown(run)


async def test_a_draft_that_is_cleared_brings_it_back() -> None:
    async with running() as run:
        await begun(run)
        await run.type("hi")
        await run.until(lambda: not run.app.parts.opening.display)
        await run.pilot.press("ctrl+c")
        await begun(run)


async def test_enter_continues_the_newest_and_down_chooses_another(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    await chats(file, "Oldest", "Older", "Newest")
    async with running(store=file) as run:
        await run.until(lambda: "continue Newest" in shown(run))
        await run.pilot.press("down")
        await run.until(lambda: "continue Older" in shown(run))
        await run.pilot.press("down", "down", "up", "up")
        await run.until(lambda: "continue Newest" in shown(run))
        await run.pilot.press("down", "enter")
        await run.until(lambda: run.app.chat.title == "Older")
        assert run.app.parts.draft.has_focus


async def test_enter_without_a_chat_to_continue_does_nothing() -> None:
    async with running() as run:
        await begun(run)
        await run.pilot.press("enter", "down", "enter")
        assert run.app.chat.id is None and run.app.parts.opening.display


async def test_a_click_continues_a_chat(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    await chats(file, "Older", "Newest")
    async with running(store=file) as run:
        await run.until(lambda: "Older" in shown(run))
        y = next(y for y, row in enumerate(run.screen()) if "Older" in row)
        await run.pilot.click(offset=(20, y))
        await run.until(lambda: run.app.chat.title == "Older")


async def test_a_chat_that_was_chosen_at_the_start_begins_without_it(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    async with running([["A week."]], store=file) as run:
        await run.ask("How long does bread keep?")
    async with running(store=file, start={"last": True}) as run:
        await run.until(lambda: "A week." in shown(run))
        assert not run.app.parts.opening.display


async def test_going_on_without_a_chat_is_a_usage_failure(tmp_path: Path) -> None:
    async with running(store=tmp_path / "chats.db", start={"last": True}, wait=False) as run:
        await run.until(lambda: run.app.startup.failure is not None)
    failure = run.app.startup.failure
    assert failure is not None and failure.exit_code == 2
    assert "There is no chat to continue." in str(failure)


async def test_a_chat_asks_again_when_it_is_opened_without_the_flag_it_began_with(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"

    async def mode(run: Running) -> str:
        return (await run.app.manager.settings(str(run.app.chat.id)))["approve"]["value"]

    async with running([["A week."]], store=file, start={"approve": "all"}, approve="all") as run:
        await run.ask("How long does bread keep?")
        assert await mode(run) == "all"
    async with running(store=file, start={"last": True}) as run:
        await run.until(lambda: "A week." in shown(run))
        assert await mode(run) == "ask"


async def test_a_private_chat_says_so_and_names_no_chats(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    await chats(file, "Tea and cake")
    async with running(store=file, start={"private": True}) as run:
        await begun(run)
        assert "nothing of this chat is saved" in shown(run) and "Tea and cake" not in shown(run)


async def test_without_a_model_the_ways_to_one_are_there_alone() -> None:
    async with running(engine=stubborn(scripts=[["hello"]]), wait=False) as run:
        await run.until(lambda: run.app.first_run.page is not None and run.app.first_run.page.is_mounted)
        await run.until(lambda: not run.app.parts.opening.display and "No model here yet." in shown(run))
        assert "Why is the sky blue?" not in shown(run)


async def test_where_the_model_cannot_be_loaded_it_says_how_to_choose_another() -> None:
    async with running(engine=stubborn(cause="truncated"), wait=False) as run:
        await run.until(lambda: "no model is loaded; ctrl+l shows what there is" in shown(run))


HOSTILE = "[red]not \x1b[31mmarkup[/] " + "\u6f22" * 80


@pytest.mark.parametrize("size", [(140, 40), (100, 30), (80, 24), (60, 20), (40, 16), (40, 8), (20, 6)])
@pytest.mark.parametrize("look", ["unicode", "ascii"])
async def test_it_fits_every_size(size: tuple[int, int], look: str, tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    await chats(file, "Tea and cake", HOSTILE, "Names for a cat")
    fields: dict[str, Any] = {"glyphs": ASCII, "theme": "terminal"} if look == "ascii" else {}
    async with running(store=file, engine=engine(gpu=0), size=size, **fields) as run:
        await run.until(lambda: run.app.empty_chat._recent)
        await run.pilot.pause()
        rows = run.screen()
        assert run.app.parts.composer.region.bottom <= size[1] and run.app.parts.composer.region.height == 1
        assert run.app.parts.seam.region.height == 1 and len(rows) == size[1]
        assert "\x1b" not in shown(run)
        if size[1] >= 16:
            assert all(words in shown(run) for words in ("fireside", *TRIES, "continue Names"))
        if size == (60, 20):
            assert "[red]not" in shown(run)
        if look == "ascii":
            assert shown(run).replace("\u6f22", "").isascii()
