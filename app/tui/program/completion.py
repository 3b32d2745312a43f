"""Completion: what a command or a file that is begun in the draft may become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from textual import work
from textual.widget import Widget

from app.frontend.draft import mention
from app.terminal.output import one_line
from app.tui.grid import Grid
from app.tui.program.model import Program
from app.tui.widgets.composer import Draft

if TYPE_CHECKING:
    from app.tui.program.commands import TuiFace
    from app.tui.widgets.completion import CompletionList

MOST_OFFERS = 50
MOST_NAME_CHARS = 1000
"""A file's name is looked for so far before the caret."""
_MENTION = re.compile(r'(?<!\S)@("?)([^\s"]*)$')
_COMMAND = re.compile(r"^/[^\n]*$")


class Completing(Program):
    """The program with its list of completions."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._files: list[str] | None = None
        self._face: TuiFace | None = None
        self._done_for = ""

    @cached_property
    def completion(self) -> CompletionList:
        """What a command or a file may be."""
        from app.tui.widgets.completion import CompletionList

        return CompletionList(self.glyphs)

    def overlays(self) -> Sequence[Widget]:
        """The list of completions."""
        return (self.completion,)

    def on_mount(self) -> None:
        """The list takes some keys while it is open."""
        self.draft.picking = lambda: self.completion.opened

    def placed(self, grid: Grid) -> None:
        """Another size."""
        super().placed(grid)
        self._place_completion()

    def _place_completion(self) -> None:
        rows = self.size.height - self.seam.region.y if self.seam.region else 3
        self.completion.place(self.grid, rows)

    @property
    def face(self) -> TuiFace:
        """This program as commands see it."""
        if self._face is None:
            from app.tui.program.commands import TuiFace

            self._face = TuiFace(self)  # pyright: ignore[reportArgumentType] # there is one class of programs
        return self._face

    # ---- offers ----------------------------------------------------------------------------

    def complete(self) -> None:
        """Offer what stands before the caret may become."""
        text, caret = self.draft.text, self.draft.caret
        before = text[:caret]
        if before and before == self._done_for:
            return
        self._done_for = ""
        if self._is_command(before) and "\n" not in text:
            self._offer_commands(before)
        elif found := _MENTION.search(before, max(0, caret - MOST_NAME_CHARS)):
            self._offer_files(found[2], (found.start(), caret))
        else:
            self.completion.show((), (0, 0))

    def _is_command(self, draft: str) -> bool:
        """Whether a draft may be a command: keys began it with one slash."""
        slash = _COMMAND.match(draft) is not None and not draft.startswith("//")
        return slash and self.draft.beginning.typed

    @work(exclusive=True, exit_on_error=False, group="completion")
    async def _offer_commands(self, line: str) -> None:
        from app import commands
        from app.tui.widgets.completion import Suggestion

        if self._manager is None:
            return
        found = await commands.complete(self.face, line)
        _, space, rest = line.partition(" ")
        start = len(line) - len(rest) if space else 1
        offers = [
            Suggestion(one.text, one.text if space else f"/{one.text}", one.detail)
            for one in found[:MOST_OFFERS]
        ]
        self._place_completion()
        if self.draft.text[: self.draft.caret] == line:
            done = len(offers) == 1 and offers[0].text == line[start:]
            self.completion.show(() if done else offers, (start, len(line)))

    @work(exclusive=True, exit_on_error=False, group="completion")
    async def _offer_files(self, typed: str, span: tuple[int, int]) -> None:
        from app.frontend.start import in_thread
        from app.markdown.fuzzy import ranked
        from app.tui.program.project_files import project_files
        from app.tui.widgets.completion import Suggestion

        if self._files is None or not typed:
            found = await in_thread(project_files, self.folder)
            # A name that a terminal would obey, or that breaks a line, is no word of a message.
            self._files = [path for path in found if path == one_line(path)]
        files = self._files or []
        offers = [
            Suggestion(mention(path) + " ", path) for path, _ in ranked(typed, files, str)[:MOST_OFFERS]
        ]
        self._place_completion()
        if self.draft.caret == span[1]:
            self.completion.show(offers, span)

    def take_offer(self) -> bool:
        """Put the selected offer into the draft; False where there is none."""
        offer = self.completion.chosen
        if offer is None:
            return False
        start, end = self.completion.span
        self.completion.show((), (0, 0))
        if end != self.draft.caret:
            return False
        self._done_for = self.draft.text[:start] + offer.text
        self.draft.replace_range(start, end, offer.text)
        return True

    def on_draft_picking(self, event: Draft.Picking) -> None:
        """A key went to the open list."""
        event.stop()
        match event.key:
            case "up" | "ctrl+p":
                self.completion.move(-1)
            case "down" | "ctrl+n":
                self.completion.move(1)
            case "escape":
                self._done_for = self.draft.text[: self.draft.caret]
                self.completion.show((), (0, 0))
            case "enter":
                self._enter_on_list()
            case _:
                self.take_offer()

    def _enter_on_list(self) -> None:
        """Enter takes the offer; a command that is whole runs at once."""
        if self.completion.span[1] != self.draft.caret:
            # Somebody typed faster than was offered: what stands there is what was meant.
            self.completion.show((), (0, 0))
            self.draft.action_send()
            return
        offer, draft = self.completion.chosen, self.draft.text
        is_command = self._is_command(draft)
        is_name = is_command and " " not in draft
        if is_name and offer is not None:
            whole = draft[1:] == offer.text
            self.take_offer()
            if whole or not self._takes_argument(offer.text):
                self.draft.action_send()
            else:
                self.draft.insert_text(" ")
            return
        self.take_offer()
        if is_command:
            self.draft.action_send()

    def _takes_argument(self, name: str) -> bool:
        from app import commands

        command = commands.find(self.face, name)
        return command is not None and " " in command.usage and "[" not in command.usage
