"""A paste of several lines, wherever the keys go: nothing of it is lost, and nothing is answered."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from app.tui.screens.dialogs import LineDialog
from app.tui.transcript.selection import Point, selected_text
from tests.app.tui.pilot import running
from tests.app.tui.test_approvals import Asker, Recorder, asked, call

pytestmark = pytest.mark.timeout(60)
LINES = "one\ntwo\nthree"


async def test_a_paste_while_a_call_asks_is_kept_for_the_message() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        assert run.app.parts.approval.has_focus
        run.app.post_message(events.Paste("y\ny\n"))
        await run.until(lambda: run.app.parts.draft.text == "y\ny\n")
        assert run.app.parts.approval.question is not None
        assert not tool.calls


async def test_a_paste_at_the_conversation_is_kept_for_the_message() -> None:
    async with running([["hello"]], size=(140, 32)) as run:
        await run.ask("hi")
        for widget in (run.app.parts.transcript, run.app.parts.pane):
            widget.focus()
            await run.until(lambda: not run.app.parts.draft.has_focus)
            run.app.post_message(events.Paste(LINES))
            await run.until(lambda: run.app.parts.draft.text == LINES)
            assert run.app.parts.draft.has_focus
            run.app.parts.draft.put("")


async def test_a_paste_into_an_answer_keeps_its_lines() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    tool = Asker(schema=schema)
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("enter")
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        run.app.post_message(events.Paste(LINES))
        await run.until(lambda: run.app.parts.approval.field.text == LINES)
        await run.pilot.press("enter")
        await run.until(
            lambda: run.app.parts.approval.question is None or run.app.parts.approval.field.text != LINES
        )
        await run.pilot.press("enter")
        await run.until(lambda: tool.answers)
        assert tool.answers == [{"name": LINES}]


async def test_a_paste_into_one_line_joins_its_lines() -> None:
    async with running([["hello"]]) as run:
        await run.ask("hi")
        run.app.commands.run("/rename")
        await run.until(lambda: isinstance(run.app.screen, LineDialog))
        field = run.app.screen.query_one(Input)
        field.value = ""
        run.app.post_message(events.Paste(LINES))
        await run.until(lambda: field.value == "one two three")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.chat.title == "one two three")


async def test_a_copy_of_a_message_has_its_folded_paste_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(f"line {number}" for number in range(120))
    async with running([["ok"]]) as run:
        copied: list[str] = []
        monkeypatch.setattr(run.app.copying, "copy", lambda text: copied.append(text))
        await run.type("see ")
        run.app.post_message(events.Paste(text))
        await run.until(lambda: run.app.parts.draft.text == "see [pasted 120 lines]")
        run.app.parts.draft.select_all()
        await run.pilot.press("ctrl+c")
        assert copied == ["see " + text]
        run.app.parts.draft.move_cursor((0, 0))
        await run.ask(run.app.parts.draft.text)
        assert run.texts("user") == ["see [pasted 120 lines]"]
        user = next(entry for entry in run.entries if entry.kind == "user")
        assert run.app.parts.transcript.copy_source(user) == "see " + text
        whole = selected_text(run.entries, (Point(0, 0, 0), Point(0, 0, 9_999)))
        assert whole == "see " + text
        await run.pilot.press("alt+up", "alt+up", "c")
        assert copied[-1] == "see " + text
