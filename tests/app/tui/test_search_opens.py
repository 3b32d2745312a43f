"""What a search over all chats found is opened: the very message, with its words marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.tui.screens.hits import hit_of
from app.tui.screens.search import SearchScreen
from app.tui.transcript.entry import Entry
from backend.types import ReasoningPiece, ToolCall
from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


def message(number: int) -> dict[str, Any]:
    role, kind = ("user", "input_text") if number % 2 == 0 else ("assistant", "output_text")
    return {"type": "message", "role": role, "content": [{"type": kind, "text": f"plain words {number}"}]}


async def found(run: Running, query: str) -> None:
    """Search with the slash command and open the first hit."""
    await run.send(f"/search {query}")
    await run.until(lambda: isinstance(run.app.screen, SearchScreen) and run.app.screen.chosen)
    await run.pilot.press("enter")
    await run.until(lambda: len(run.app.screen_stack) == 1 and run.app.parts.transcript.found[1])


def shown(run: Running) -> Entry:
    """The entry at whose hit the transcript stands."""
    hit = run.app.parts.transcript._search.current
    assert hit is not None
    return hit.entry


async def test_words_of_the_command_are_looked_for_at_once_and_need_not_stand_side_by_side() -> None:
    async with running([["the index was wrong, hence an error"], ["another"]]) as run:
        await run.ask("why")
        await run.app.chats.new_chat()
        await run.ask("hi")
        await found(run, "error index")
        assert shown(run).source == "the index was wrong, hence an error"
        assert run.app.parts.transcript.found[1] == 2 and run.app.parts.draft.has_focus
        await run.until(lambda: "match 1 of 2" in run.seam or "match 2 of 2" in run.seam)
        await run.pilot.press("escape")
        await run.until(lambda: run.app.parts.transcript.found[1] == 0)


async def test_a_name_of_joined_words_is_found_by_the_words() -> None:
    async with running([["it raises IndexError here, an error"]]) as run:
        await run.ask("why")
        await run.app.chats.new_chat()
        await found(run, "index error")
        hit = run.app.parts.transcript._search.current
        assert hit is not None and hit.entry.source[hit.start : hit.end] == "IndexError"


async def test_the_output_of_a_tool_and_a_thought_open_where_they_are_folded(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("quartz and feldspar\n")
    call = ToolCall("c0", "read_file", {"path": "notes.txt"})
    scripts = [[ReasoningPiece("I ponder basalt."), call], ["done"]]
    async with running(scripts, tools="read_file", workspace=tmp_path, approve="all") as run:
        await run.ask("look")
        for words, kind in (("feldspar", "tool"), ("basalt", "thought")):
            await run.app.chats.new_chat()
            await found(run, words)
            assert shown(run).kind == kind
            assert any(words in row for row in run.screen())


async def test_a_hit_far_above_the_page_is_loaded_and_one_of_another_branch_is_gone_to() -> None:
    async with running([["first answer"], ["second answer"]]) as run:
        manager = run.app.manager
        items = [{**message(0), "content": [{"type": "input_text", "text": "a needle"}]}]
        far = await manager.create(title="long", initial_items=[*items, *map(message, range(1, 3000))])
        await found(run, "needle")
        assert run.app.chat.id == far.id and any("a needle" in row for row in run.screen())
        await run.app.chats.new_chat()
        await run.ask("question")
        assert run.app.chat.view.last_response is not None
        await run.app.chat.retry()
        await run.until(lambda: run.texts("answer") == ["second answer"] and not run.app.chat.busy)
        await run.app.chats.new_chat()
        await found(run, "first answer")
        assert run.texts("answer") == ["first answer"]


async def test_a_reply_keeps_the_name_of_the_model_that_wrote_it() -> None:
    async with running([["a pebble"], ["two"]]) as run:
        await run.ask("hi")
        first, chat = run.app.model.name, run.app.chat.id
        assert await run.app.load_model("Qwen3-4B-Q4_K_M.gguf")
        await run.ask("and now")
        assert [hit_of(hit).who for hit in await run.app.manager.search("pebble")] == [first]
        await run.app.chats.new_chat()
        assert chat is not None
        await run.app.close_chat(chat)
        await run.app.chats.open_chat(chat)
        assert run.texts("name") == [first, "Qwen3 4B"]


async def test_a_chat_is_found_and_opened_by_its_title() -> None:
    async with running([["one"], ["two"]]) as run:
        await run.ask("hello there")
        first = run.app.chat.id
        run.app.commands.run("/rename Plans of the garden")
        await run.until(lambda: run.app.chat.title == "Plans of the garden")
        await run.app.chats.new_chat()
        await run.ask("something else")
        await run.send("/search garden plan")
        await run.until(lambda: isinstance(run.app.screen, SearchScreen) and run.app.screen.chosen)
        await run.pilot.press("enter")
        await run.until(lambda: len(run.app.screen_stack) == 1 and run.app.chat.id == first)
