"""The terminal's own cursor stands where keys write, whatever moved that: input methods compose there."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from textual.geometry import Offset

from tests.app.repl.terminal import SCRIPT
from tests.app.terminal_process import Terminal
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_approvals import Recorder, asked, call

PLACEHOLDER = "message   / command"


def place(run: Running, text: str) -> Offset:
    """Where a text begins on the screen."""
    rows = run.screen()
    row = next(row for row in range(len(rows) - 1, -1, -1) if text in rows[row])
    return Offset(rows[row].index(text), row)


async def stands(run: Running, text: str, cells: int) -> None:
    """Wait until the cursor stands so many cells behind the beginning of a text."""
    await run.until(lambda: run.app.cursor_position == place(run, text) + Offset(cells, 0))


async def test_a_dialog_and_what_comes_after_it() -> None:
    async with running(size=(140, 40)) as run:
        await run.type("one two")
        await run.pilot.press("left", "left", "left")
        await stands(run, "one two", 4)
        await run.pilot.press("ctrl+p")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.type("thm")
        await stands(run, "thm", 3)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        await stands(run, "one two", 4)


async def test_sizes() -> None:
    words = "word " * 30
    async with running(size=(140, 40)) as run:
        run.app.parts.draft.put(words + "end")
        await stands(run, "end", 3)
        for size in ((80, 24), (60, 20), (160, 50), (40, 12)):
            await run.pilot.resize_terminal(*size)
            await stands(run, "end", 3)


async def test_the_side_pane_and_a_queue_move_the_draft() -> None:
    async with running(size=(140, 40)) as run:
        await run.type("draft")
        await stands(run, "draft", 5)
        await run.pilot.press("f2")
        await run.pilot.press("f2")
        await stands(run, "draft", 5)
        await run.pilot.press("ctrl+j", "x")
        run.app.parts.draft.move_cursor((0, 2))
        await stands(run, "draft", 2)


async def test_a_card_that_appears_and_its_field() -> None:
    tool = Recorder()
    async with running([[call(text="first words")], ["done"]], tools=[tool]) as run:
        run.app.parts.draft.put("go")
        await run.pilot.press("enter")
        await asked(run)
        await run.until(lambda: run.app.parts.approval.has_focus)
        await run.until(lambda: run.app.cursor_position == run.app.parts.draft.cursor_screen_offset)
        await run.pilot.pause(0.6)
        await run.pilot.press("e")
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        await run.until(lambda: run.app.cursor_position == run.app.parts.approval.field.cursor_screen_offset)
        await run.pilot.resize_terminal(60, 20)
        field = run.app.parts.approval.field
        await run.until(lambda: field.region.width < 60)
        await run.until(
            lambda: (
                run.app.cursor_position
                == field.content_region.offset
                + field.wrapped_document.location_to_offset(field.cursor_location)
                - field.scroll_offset
            )
        )


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "exported", [{}, {"COLUMNS": "132", "LINES": "50"}], ids=["no-size-exported", "size-exported"]
)
def test_at_a_terminal_from_the_first_frame(exported: dict[str, str], tmp_path: Path) -> None:
    """Sizes in the environment are those of a terminal in which a shell began once; this one has its own."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([["hello"]]))
    environ = {**os.environ, "FACE": "tui", "TERM": "xterm-256color", "COLORTERM": "truecolor", **exported}

    with Terminal([sys.executable, str(SCRIPT), str(script)], environ, 80, 24) as terminal:

        def stands(text: str, cells: int) -> None:
            def there() -> bool:
                rows = terminal.text.split("\n")
                found = [(row.index(text) + cells, number) for number, row in enumerate(rows) if text in row]
                return (terminal.screen.cursor.x, terminal.screen.cursor.y) in found

            terminal.wait_for(there, f"the cursor at {text!r}")

        stands(PLACEHOLDER, 0)
        terminal.send("ab")
        stands("ab", 2)
        terminal.send("\x10")  # ctrl+p
        terminal.wait_for_text("esc closes")
        terminal.send("zzz")
        stands("zzz", 3)
        terminal.send("\x1b")
        stands("ab", 2)
        terminal.resize(60, 20)
        terminal.wait_for(lambda: all(len(row) <= 60 for row in terminal.text.split("\n")), "the new size")
        stands("ab", 2)
        terminal.send("\x11")
        terminal.wait()
