"""A reply that reached its limit inside its thought: no answer, and the page says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.engines.scripted import Step
from backend.types import ChatOutcome, ReasoningPiece, TextPiece
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)
THOUGHT = "first consider the outer ring, then"


def cut(*pieces: ReasoningPiece | TextPiece) -> list[Step]:
    thought = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece))
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    return [*pieces, ChatOutcome(finish="length", prompt_tokens=3, text=text, reasoning=thought)]


async def test_a_thought_that_was_cut_is_told_while_and_after(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    async with running([cut(ReasoningPiece(THOUGHT))], store=store) as run:
        await run.send("q")
        await run.until(lambda: "cut off while it thought" in "\n".join(run.screen()))
        assert run.texts("thought") == [THOUGHT]
        assert "".join(run.texts("answer")) == ""
    async with running([], store=store, start={"last": True}) as run:
        await run.until(lambda: "cut off while it thought" in "\n".join(run.screen()))


async def test_an_answer_that_was_cut_is_only_cut() -> None:
    async with running([cut(ReasoningPiece(THOUGHT), TextPiece("The outer"))]) as run:
        await run.send("q")
        await run.until(lambda: "cut off" in "\n".join(run.screen()))
        assert "while it thought" not in "\n".join(run.screen())
        assert run.texts("answer") == ["The outer"]


@pytest.mark.parametrize("steps", [[""], [ReasoningPiece(THOUGHT)]], ids=["nothing", "thought only"])
async def test_a_reply_without_a_word_says_that_it_ended(steps: list[Step], tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    async with running([steps, ["fine"]], store=store) as run:
        await run.send("q")
        await run.until(lambda: "ended without an answer" in "\n".join(run.screen()))
        await run.ask("again")
        assert "\n".join(run.screen()).count("ended without an answer") == 1
    async with running([], store=store, start={"last": True}) as run:
        await run.until(lambda: "ended without an answer" in "\n".join(run.screen()))
