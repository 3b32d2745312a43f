"""The full-screen face: keys and messages of the widgets become wishes of the program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from textual import work

from app.tui.program import Program
from app.tui.sending import wish_of
from app.tui.widgets.composer import Draft

if TYPE_CHECKING:
    pass

QUIT_WITHIN_S = 2.0
MODES = ("ask", "read", "all", "plan")


class FiresideApp(Program):
    """The program with its keys."""

    _stop_asked = 0.0

    # ---- the composer ----------------------------------------------------------------------

    def on_draft_sent(self, event: Draft.Sent) -> None:
        """Enter."""
        event.stop()
        draft = self.draft.text
        wish = wish_of(draft)
        match wish.kind:
            case "nothing":
                return
            case "message":
                self._send(draft)
            case _:
                self.say("not yet")

    @work(exit_on_error=False, group="send")
    async def _send(self, draft: str) -> None:
        from app.exits import explain

        whole = self.draft.whole
        self.draft.put("")
        try:
            await self.post(draft)
        except Exception as err:
            failure = explain(err)
            if not self.draft.text:
                self.draft.put(draft)
            self.say(str(failure), error=True)
            return
        self.draft.history_of_messages.add(whole, keep=not self.chat.private)
        self.draft.folds.clear()

    async def action_stop(self) -> None:
        """Esc."""
        if self.chat.busy:
            await self.chat.stop()

    async def action_copy_or_stop(self) -> None:
        """Ctrl-C."""
        if self.chat.busy:
            await self.chat.stop()
            return
        if self.draft.text:
            self.draft.put("")
            return
        if time.monotonic() - self._stop_asked < QUIT_WITHIN_S:
            self.exit(0)
            return
        self._stop_asked = time.monotonic()
        self.say("once more quits")

    def action_leave(self) -> None:
        """Quit."""
        self.exit(0)
