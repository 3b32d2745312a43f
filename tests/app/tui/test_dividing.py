"""A reply whose model mislabelled its tags, divided anew by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.sessions.items import Message, Reasoning
from app.tui.widgets.picker import Picker
from backend.types import ReasoningPiece
from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program
WRONG = ("First I add them.\nThen I check.\nThe sum is 12.\n\nAnything else?",)


async def divided(run: Running, thought: str, answer: str) -> None:
    """Wait until the page and the store both say so, and all that reads them."""
    await run.until(
        lambda: [text.rstrip() for text in run.texts("thought")] == ([thought] if thought else [])
    )
    assert [text for text in run.texts("answer") if text] == ([answer] if answer else [])
    items = await run.items()
    assert "".join(item.text for item in items if isinstance(item, Reasoning)).rstrip() == thought
    assert [item.text for item in items if isinstance(item, Message) and item.role == "assistant"] == [answer]


async def test_the_answer_begins_at_a_line_that_is_picked(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    thought, answer = "First I add them.\nThen I check.", "The sum is 12.\n\nAnything else?"
    async with running([WRONG, ["more"]], store=store) as run:
        await run.ask("7 + 5?")
        await run.pilot.press("alt+up")
        assert "d divide" in run.seam
        await run.pilot.press("d")
        await run.until(lambda: isinstance(run.app.screen, Picker))
        rows = "\n".join(run.screen())
        assert "all of it is the answer" in rows and "as it is" in rows and "The sum is 12." in rows
        await run.pilot.press("down", "down", "down", "enter")
        await divided(run, thought, answer)
        copied: list[str] = []
        run.app.copying.copy = lambda text: copied.append(text)
        await run.send("/copy")
        await run.until(lambda: copied == [answer])
        exported = await run.app.manager.export(run.app.chat.id, "markdown")
        assert exported.count("The sum is 12.") == 1
        await run.ask("and now?")
        told = [
            str(turn["content"]) for turn in run.engine.requests[-1].messages if turn["role"] == "assistant"
        ]
        assert [text.strip() for text in told] == [answer]
    async with running(store=store, start={"last": True}) as run:
        await run.until(lambda: run.texts("answer") == [answer, "more"])
        assert [text.rstrip() for text in run.texts("thought")] == [thought]


async def test_all_of_it_is_the_answer_and_back() -> None:
    """Not a letter is lost on the way, and the reply as it was is another variant."""
    async with running([[ReasoningPiece("The sum is 12."), "Anything else?"]]) as run:
        await run.ask("7 + 5?")
        await run.send("/resplit answer")
        await divided(run, "", "The sum is 12.\n\nAnything else?")
        assert "another variant" in run.seam
        await run.pilot.press("left_square_bracket")
        await divided(run, "The sum is 12.", "Anything else?")
        await run.send("/resplit thought")
        await divided(run, "The sum is 12.\n\nAnything else?", "")
        await run.send("/resplit 2")
        await divided(run, "The sum is 12.", "Anything else?")


async def test_what_is_no_reply_is_told() -> None:
    async with running([["one"]]) as run:
        await run.send("/resplit")
        await run.until(lambda: "There are no replies yet" in run.seam)
        await run.ask("a question")
        await run.pilot.press("alt+up", "alt+up", "d")
        await run.until(lambda: "only a reply can be split" in run.seam)
        await run.pilot.press("escape")
        await run.send("/resplit 7")
        await run.until(lambda: "a line from 1 to 1" in run.seam)
        await run.send("/resplit answer")
        await run.until(lambda: "The reply is unchanged" in run.seam)
