"""Small dialogs that the program waits for. Screens are imported when they are opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.commands.face import Choice, Rows
    from app.tui.shell import Program


async def ask(program: Program, question: str, default: str = "") -> str | None:
    """One line of text; None where nothing was answered."""
    from app.tui.screens.dialogs import LineDialog

    return await program.push_screen_wait(LineDialog(program, question, default))


async def choose(program: Program, title: str, choices: Sequence[Choice]) -> str | None:
    """The value of a choice; None where none was made."""
    from app.tui.widgets.picker import Entry, Picker

    entries = [Entry(choice.value, choice.label, choice.detail) for choice in choices]
    return await program.push_screen_wait(Picker(program, title, entries))


async def show(program: Program, title: str, body: Rows | str) -> None:
    """A text to read."""
    from app.tui.screens.dialogs import TextDialog

    await program.push_screen_wait(TextDialog(program, title, body))
