"""The command palette: every command by name or by what it does, with its key at the right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.commands import group_of
from app.markdown.fuzzy import Match
from app.tui.shell import Shell
from app.tui.widgets.cells import Span
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.rows import ListRow

if TYPE_CHECKING:
    from app.commands.face import Command


KEY_NAMES: Mapping[str, str] = {
    "new": "new_chat",
    "chats": "chats",
    "search": "search",
    "retry": "retry",
    "model": "models",
    "approve": "approvals",
    "params": "params",
    "theme": "themes",
    "help": "help_always",
}
"""Commands that a key of the table runs, with its name there."""


def key_of(shell: Shell, command: Command) -> str:
    """The key that runs a command, as it is bound now; empty for none."""
    if not command.key:
        return ""
    name = KEY_NAMES.get(command.name)
    return shell.label(name) if name else shell.glyphs.key(command.key)


class CommandPalette(Picker):
    """Choose a command. Gives back its name, or None."""

    WIDTH = 104

    def __init__(self, shell: Shell, commands: Iterable[Command], query: str = "") -> None:
        super().__init__(
            shell,
            "commands",
            hints=(("enter", "runs"), ("esc", "closes")),
            placeholder="a name, or what it does",
            query=query,
        )
        self._commands = [command for command in commands if command.palette]

    def on_mount(self) -> None:
        self.give(
            Entry(
                command.name,
                f"/{command.name}",
                command.help,
                (Span(key_of(self.shell, command), "muted"),),
                group=group_of(command),
                terms=f"{' '.join(command.aliases)} {command.help}",
            )
            for command in self._commands
        )

    def rows_of(self, found: Sequence[tuple[Entry, Match]]) -> list[ListRow]:
        """Grouped; what fits a filter stands by how well it does."""
        if self.filter.value.strip():
            found = [(replace(entry, group=""), match) for entry, match in found]
        return super().rows_of(found)
