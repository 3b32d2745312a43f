"""No key that was meant for something else decides about a call."""

from __future__ import annotations

import asyncio

import pytest

from app.tui.widgets import approval
from backend.engines.scripted import Pause
from tests.app.tui.pilot import running
from tests.app.tui.test_approvals import Recorder, asked, call


async def test_a_message_sent_and_the_next_one_begun_decide_nothing() -> None:
    tool = Recorder()
    gate = asyncio.Event()
    async with running([[Pause(until=gate), call(text="x")], ["done"]], tools=[tool]) as run:
        await run.send("do it")
        await run.until(lambda: run.app.chat.busy)
        await run.type("more")
        gate.set()
        await run.until(lambda: run.app.parts.approval.armed)
        await run.pilot.press("enter", "y", "e", "s")
        assert run.app.parts.approval.question is not None
        await run.until(lambda: run.app.parts.approval.armed)
        assert tool.calls == []


async def test_a_reason_for_a_question_that_went_decides_nothing() -> None:
    tool = Recorder()
    both = [call("c1", text="first"), call("c2", text="second")]
    async with running([both, ["done"]], tools=[tool]) as run:
        await asked(run)
        card, chat = run.app.parts.approval, run.app.chat
        first = card.question
        assert first is not None
        await run.pilot.press("n")
        await run.until(lambda: card.field.has_focus)
        await run.type("no sy")
        await chat.answer(first, "decline", {})
        await run.until(lambda: card.question is not None and card.question.id != first.id)
        assert not card.armed
        await run.type("y as")
        assert run.app.parts.draft.history_of_messages.entries[-1] == "no sy"
        assert "up brings your text back" in run.seam
        assert card.question is not None
        assert tool.calls == []


async def test_words_begun_at_a_card_go_to_the_draft_whole() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        assert run.app.parts.approval.has_focus
        await run.pilot.press(*"Now more")
        await run.until(lambda: run.app.parts.draft.text == "Now more")
        assert run.app.parts.draft.has_focus
        assert run.app.parts.approval.question is not None
        assert tool.calls == []


async def test_an_answer_too_early_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        card = run.app.parts.approval
        monkeypatch.setattr(approval, "ARM_AFTER_S", 2.0)  # longer than a slow machine takes for one key
        card.set_drafting(True)  # the time counts anew
        card.set_drafting(False)
        await run.pilot.press("y")
        await run.until(lambda: card.armed)
        assert run.app.parts.draft.text == "" and tool.calls == []


async def test_a_word_too_early_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        monkeypatch.setattr(approval, "ARM_AFTER_S", 60.0)
        run.app.parts.approval.set_drafting(True)
        run.app.parts.approval.set_drafting(False)
        await run.pilot.press("y", "e", "s")
        await run.until(lambda: run.app.parts.draft.text == "yes")
        assert tool.calls == []
