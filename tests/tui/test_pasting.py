"""A paste of several lines, wherever the keys go: nothing of it is lost, and nothing is answered."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from app.tui.dialogs import LineDialog
from tests.tui.program import running
from tests.tui.test_approvals import Asker, Recorder, asked, call

pytestmark = pytest.mark.timeout(60)
LINES = "one\ntwo\nthree"


async def test_a_paste_while_a_call_asks_is_kept_for_the_message() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        assert run.app.approval.has_focus
        run.app.post_message(events.Paste("y\ny\n"))
        await run.until(lambda: run.app.draft.text == "y\ny\n")
        assert run.app.approval.question is not None
        assert not tool.calls


async def test_a_paste_at_the_conversation_is_kept_for_the_message() -> None:
    async with running([["hello"]], size=(140, 32)) as run:
        await run.ask("hi")
        for widget in (run.app.transcript, run.app.pane):
            widget.focus()
            await run.until(lambda: not run.app.draft.has_focus)
            run.app.post_message(events.Paste(LINES))
            await run.until(lambda: run.app.draft.text == LINES)
            assert run.app.draft.has_focus
            run.app.draft.put("")


async def test_a_paste_into_an_answer_keeps_its_lines() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    tool = Asker(schema=schema)
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("enter")
        await run.until(lambda: run.app.approval.field.has_focus)
        run.app.post_message(events.Paste(LINES))
        await run.until(lambda: run.app.approval.field.text == LINES)
        await run.pilot.press("enter")
        await run.until(lambda: run.app.approval.question is None or run.app.approval.field.text != LINES)
        await run.pilot.press("enter")
        await run.until(lambda: tool.answers)
        assert tool.answers == [{"name": LINES}]


async def test_a_paste_into_one_line_joins_its_lines() -> None:
    async with running([["hello"]]) as run:
        await run.ask("hi")
        run.app.run_command("/rename")
        await run.until(lambda: isinstance(run.app.screen, LineDialog))
        field = run.app.screen.query_one(Input)
        field.value = ""
        run.app.post_message(events.Paste(LINES))
        await run.until(lambda: field.value == "one two three")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.chat.title == "one two three")
