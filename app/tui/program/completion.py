"""The list above the draft: what a command or a file that is begun there may become."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from app.frontend.draft import mention
from app.frontend.start import in_thread
from app.terminal.output import one_line
from app.tui.program.commands import Commands
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.widgets.completion import Suggestion

if TYPE_CHECKING:
    from app.tui.shell import Program

MOST_OFFERS = 50
MOST_NAME_CHARS = 1000
"""A file's name is looked for so far before the caret."""
_MENTION = re.compile(r'(?<!\S)@("?)([^\s"]*)$')
_COMMAND = re.compile(r"^/[^\n]*$")


class Completions:
    """Offers completions of the draft."""

    def __init__(self, program: Program, parts: Parts, chats: OpenChats, commands: Commands) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._commands = commands
        self._files: list[str] | None = None
        self._done_for = ""

    @property
    def is_open(self) -> bool:
        """Whether something is offered; some keys go to the list then."""
        return self._parts.completion.opened

    def close(self) -> None:
        """Offer nothing."""
        self._parts.completion.show((), (0, 0))

    def place(self) -> None:
        """Another size."""
        seam = self._parts.seam.region
        rows = self._program.size.height - seam.y if seam else 3
        self._parts.completion.place(self._parts.grid, rows)

    # ---- offers ----------------------------------------------------------------------------

    def offer(self) -> None:
        """Offer what stands before the caret may become."""
        text, caret = self._parts.draft.text, self._parts.draft.caret
        before = text[:caret]
        if before and before == self._done_for:
            return
        self._done_for = ""
        if self._is_command(before) and "\n" not in text:
            self._program.start(partial(self._offer_commands, before), group="completion", exclusive=True)
        elif found := _MENTION.search(before, max(0, caret - MOST_NAME_CHARS)):
            offer = partial(self._offer_files, found[2], (found.start(), caret))
            self._program.start(offer, group="completion", exclusive=True)
        else:
            self.close()

    def _is_command(self, draft: str) -> bool:
        """Whether a draft may be a command: keys began it with one slash."""
        slash = _COMMAND.match(draft) is not None and not draft.startswith("//")
        return slash and self._parts.draft.beginning.typed

    async def _offer_commands(self, line: str) -> None:
        found = await self._commands.complete(line)
        _, space, rest = line.partition(" ")
        start = len(line) - len(rest) if space else 1
        offers = [
            Suggestion(one.text, one.text if space else f"/{one.text}", one.detail)
            for one in found[:MOST_OFFERS]
        ]
        self.place()
        if self._parts.draft.text[: self._parts.draft.caret] == line:
            done = len(offers) == 1 and offers[0].text == line[start:]
            self._parts.completion.show(() if done else offers, (start, len(line)))

    async def _offer_files(self, typed: str, span: tuple[int, int]) -> None:
        from app.markdown.fuzzy import ranked
        from app.tui.program.project_files import project_files

        if self._files is None or not typed:
            listed = await in_thread(project_files, self._chats.folder)
            # A name that a terminal would obey, or that breaks a line, is no word of a message.
            self._files = [path for path in listed if path == one_line(path)]
        files = self._files or []
        offers = [
            Suggestion(mention(path) + " ", path) for path, _ in ranked(typed, files, str)[:MOST_OFFERS]
        ]
        self.place()
        if self._parts.draft.caret == span[1]:
            self._parts.completion.show(offers, span)

    # ---- keys ------------------------------------------------------------------------------

    def take(self) -> bool:
        """Put the selected offer into the draft; False where there is none."""
        draft, listed = self._parts.draft, self._parts.completion
        offer = listed.chosen
        if offer is None:
            return False
        start, end = listed.span
        self.close()
        if end != draft.caret:
            return False
        self._done_for = draft.text[:start] + offer.text
        draft.replace_range(start, end, offer.text)
        return True

    def press(self, key: str) -> None:
        """A key went to the open list."""
        match key:
            case "up" | "ctrl+p":
                self._parts.completion.move(-1)
            case "down" | "ctrl+n":
                self._parts.completion.move(1)
            case "escape":
                self._done_for = self._parts.draft.text[: self._parts.draft.caret]
                self.close()
            case "enter":
                self._enter()
            case _:
                self.take()

    def _enter(self) -> None:
        """Enter takes the offer; a command that is whole runs at once."""
        draft, listed = self._parts.draft, self._parts.completion
        if listed.span[1] != draft.caret:
            # Somebody typed faster than was offered: what stands there is what was meant.
            self.close()
            draft.action_send()
            return
        offer, text = listed.chosen, draft.text
        is_command = self._is_command(text)
        is_name = is_command and " " not in text
        if is_name and offer is not None:
            whole = text[1:] == offer.text
            self.take()
            if whole or not self._commands.takes_argument(offer.text):
                draft.action_send()
            else:
                draft.insert_text(" ")
            return
        self.take()
        if is_command:
            draft.action_send()
