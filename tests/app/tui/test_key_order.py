"""Keys that come in one read of the terminal do what they would do one by one."""

from __future__ import annotations

import pytest
from textual import events
from textual.widgets import Input

from app.tui.screens.dialogs import LineDialog
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_approvals import Recorder, asked, call

pytestmark = pytest.mark.timeout(60)
TOGETHER = [
    *("x", "y", "ctrl+u", *"wordk", "backspace", "s", "home", *"last", "ctrl+a", *"my", "end", "!"),
    *("left", "left", "delete", "d", "end", "."),
]
WRITTEN = "mylastwordd!."


def press_together(run: Running, *keys: str) -> None:
    """Give the program all keys before it takes the first, as the terminal does."""
    for key in keys:
        run.app.post_message(events.Key(key, key if len(key) == 1 else None))


async def test_keys_that_come_together_write_what_they_say() -> None:
    async with running([["yes"]]) as run:
        run.app.parts.draft.focus()
        press_together(run, *TOGETHER)
        await run.until(lambda: run.app.parts.draft.text.endswith("."))
        assert run.app.parts.draft.text == WRITTEN


async def test_a_letter_with_alt_is_not_written() -> None:
    async with running([["yes"]]) as run:
        run.app.post_message(events.Key("alt+u", "u"))
        press_together(run, "a", ".")
        await run.until(lambda: run.app.parts.draft.text.endswith("."))
        assert run.app.parts.draft.text == "a."


async def test_they_write_a_reason_too() -> None:
    async with running([[call(text="x")], ["done"]], tools=[Recorder()]) as run:
        await asked(run)
        await run.pilot.press("n")
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        press_together(run, *TOGETHER)
        await run.until(lambda: run.app.parts.approval.field.text.endswith("."))
        assert run.app.parts.approval.field.text == WRITTEN


async def test_they_write_a_line_too() -> None:
    async with running([["yes"]]) as run:
        await run.ask("hi")
        run.app.commands.run("/rename")
        await run.until(lambda: isinstance(run.app.screen, LineDialog))
        line = run.app.screen.query_one(Input)
        press_together(run, *TOGETHER)
        await run.until(lambda: line.value.endswith("."))
        assert line.value == WRITTEN
