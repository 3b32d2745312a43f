"""What the seam tells of the keys that mean something where keys go now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from app.tui.program.blocks import Blocks
from app.tui.program.drafts import Drafts
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.shell_lines import ShellLines
from app.tui.widgets.seam import Hint

if TYPE_CHECKING:
    from app.tui.chat.chat import Chat

CHAT_KEYS: tuple[Hint, ...] = (("r", "rename"), ("p", "pin"), ("a", "archive"), ("d", "delete"))


class Hints:
    """Tells the keys."""

    def __init__(
        self, parts: Parts, chats: OpenChats, drafts: Drafts, blocks: Blocks, shell_lines: ShellLines
    ) -> None:
        self._parts = parts
        self._chats = chats
        self._drafts = drafts
        self._blocks = blocks
        self._shell_lines = shell_lines

    def told(self, chat: Chat, what: str) -> None:
        self.show()

    def focus_moved(self, to: Widget) -> None:
        """Keys go elsewhere."""
        self.show()

    def written(self) -> None:
        """Something is being written, or no longer: other keys work beside it, and the news was read."""
        self._parts.seam.dismiss(typing=True)
        self._parts.seam.keys_changed()

    def show(self) -> None:
        """Tell in the seam what keys do where they go."""
        if not self._parts.furnished:
            return
        self._point_at_error()
        self._parts.seam.set_hints(self._hints())
        self._parts.seam.keys_changed()

    def _hints(self) -> Sequence[Hint]:
        parts, chat = self._parts, self._chats.current
        if self._drafts.editing is not None and parts.draft.has_focus:
            return (("stop", "cancels"),)
        if parts.waiting.has_focus:
            return (("queue_edit", "edits"), ("queue_remove", "removes"))
        if parts.transcript.has_focus and parts.transcript.current is not None:
            return self._blocks.hints(parts.transcript.current)
        if parts.side.has_focus_within and not parts.pane.tells_keys:
            return CHAT_KEYS
        if parts.approval.has_focus_within or parts.transcript.has_focus or parts.side.has_focus_within:
            return (("next", "to write"),)
        if parts.approval.question is not None:
            return (("next", "answers"),)
        if chat.view.stopping:
            return (("", "stopping"),)
        if chat.busy:
            return (("block_up", "edits the queue"),) if parts.waiting.messages else (("stop", "stops"),)
        if self._shell_lines.run:
            return (("stop", "stops"),)
        if chat.view.error and chat.view.error.choices:
            return (("next", "to the choices"),)
        return (("retry", "answers it"),) if chat.view.unanswered else ()

    def _point_at_error(self) -> None:
        error, transcript = self._chats.current.view.error, self._parts.transcript
        if error is None or not error.choices:
            return
        here = transcript.has_focus and transcript.current is None
        chosen = (error.chosen or 0) if here else None
        if chosen != error.chosen:
            error.chosen = chosen
            transcript.changed(error)
