"""What esc and ctrl+c end: an open list, an edit, a reply, a shell line, a load."""

from __future__ import annotations

from textual.screen import Screen

from app.tui.program.completion import Completions
from app.tui.program.copying import Copying
from app.tui.program.drafts import Drafts
from app.tui.program.model import ModelControl
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.shell_lines import ShellLines
from app.tui.program.side import SidePane


class Stopping:
    """Ends one thing at a time, the nearest first."""

    def __init__(
        self,
        parts: Parts,
        chats: OpenChats,
        drafts: Drafts,
        model: ModelControl,
        completions: Completions,
        shell_lines: ShellLines,
        side: SidePane,
        copying: Copying,
    ) -> None:
        self._parts = parts
        self._chats = chats
        self._drafts = drafts
        self._model = model
        self._completions = completions
        self._shell_lines = shell_lines
        self._side = side
        self._copying = copying

    async def escape(self) -> None:
        """Close what is open, else stop the reply."""
        parts, chat = self._parts, self._chats.current
        if self._completions.is_open:
            self._completions.close()
        elif self._drafts.editing is not None:
            self._drafts.leave_edit()
        elif parts.transcript.current is not None:
            parts.transcript.cursor_clear()
            parts.draft.focus()
        elif parts.pane.has_focus_within or parts.pane.has_focus:
            self._side.leave()
        elif parts.waiting.has_focus:
            parts.draft.focus()
        elif chat.busy:
            await chat.stop()
        elif not self._shell_lines.stop() and not self._model.give_up():
            parts.seam.dismiss()
            parts.transcript.find_clear()
            parts.draft.focus()

    async def copy_or_stop(self, screen: Screen[object]) -> bool:
        """Copy what is selected on a screen, else stop what runs; False where there is neither."""
        draft, chat = self._parts.draft, self._chats.current
        selected = screen.get_selected_text() or draft.folds.unfold(draft.selected_text)
        if selected:
            self._copying.copy(selected)
            screen.clear_selection()
            return True
        if chat.busy:
            await chat.stop()
            return True
        return self._shell_lines.stop()
