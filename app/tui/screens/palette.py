"""The command palette: every command by name or by what it does, with its key at the right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.tui.shell import Shell
from app.tui.widgets.cells import Span
from app.tui.widgets.ink import ink_of
from app.tui.widgets.picker import Entry, Picker

if TYPE_CHECKING:
    from app.commands.face import Command


class CommandPalette(Picker):
    """Choose a command. Gives back its name, or None."""

    WIDTH = 104

    def __init__(self, shell: Shell, commands: Iterable[Command], query: str = "") -> None:
        super().__init__(
            shell,
            "commands",
            hints=(("enter", "runs it"), ("esc", "closes")),
            placeholder="a name, or what it does",
            query=query,
        )
        self._commands = [command for command in commands if command.palette]

    def on_mount(self) -> None:
        ink = ink_of(self)
        self.give(
            Entry(
                command.name,
                f"/{command.name}",
                command.help,
                (Span(ink.key(command.key), "muted"),) if command.key else (),
                terms=f"{' '.join(command.aliases)} {command.help}",
            )
            for command in self._commands
        )
