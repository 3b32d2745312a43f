"""The full-screen face with all its keys: stopping, leaving, dialogs, modes and looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual import events, work
from textual.actions import SkipAction

from app.terminal.theming import read, switch
from app.tui.driver import ScreenDriver
from app.tui.keys import free_keys, key_name, key_rows, keys_at, keys_of
from app.tui.program.focus import Focus
from app.tui.widgets.composer import Draft
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from app.terminal.clipboard import Copied

QUIT_WITHIN_S = 2.0
MODES = ("ask", "read", "all", "plan")
ANYWHERE = frozenset({"copy_or_stop", "leave", "suspend_process", "mouse"})
"""What a key does also while a dialog is open."""
SAVES: Hint = ("save_copy", "saves them to a file")


class FiresideApp(Focus):
    """The program with all its keys."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.mouse_on = True
        self._quit_asked = -QUIT_WITHIN_S
        self._copied = ""

    def on_mount(self) -> None:
        """The keys are bound before the first one comes."""
        self.draft.send_keys = keys_of("send", self.bound)
        self.draft.newline_keys = keys_of("newline", self.bound)
        free = free_keys(self.bound)
        self.draft.frees = lambda key: key in free
        self._news_keys = keys_at("news", self.bound)
        if self.settings.get("vi_keys"):
            from app.tui.vi.bindings import ViBindings

            self.draft.vi = ViBindings(self.draft, self._mode_changed, self.action_page)

    def _mode_changed(self) -> None:
        self.refresh_facts()
        self.show_hints()

    def key_rows(self) -> Sequence[tuple[str, str, str]]:
        """Every key as (group, keys, what it does), as they are bound now."""
        return key_rows(self.bound)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a dialog is open, its own keys count and few others."""
        if len(self.screen_stack) > 1 and action not in ANYWHERE and hasattr(type(self), f"action_{action}"):
            return action in _OF_TEXTUAL
        if (
            action == "retry"
            and self.draft.has_focus
            and self.draft.vi is not None
            and self.draft.vi.takes_redo
        ):
            return False
        return super().check_action(action, parameters)

    def started(self) -> None:
        """The chats of this person are known: the pane shows them."""
        super().started()
        self.refresh_side()
        if self.start.resume == "":
            self.run_command("/chats")

    # ---- stopping and leaving --------------------------------------------------------------

    async def action_stop(self) -> None:
        """Esc closes what is open, else stops the reply."""
        if self.completion.opened:
            self.completion.show((), (0, 0))
        elif self.editing is not None:
            self.leave_edit()
        elif self.transcript.current is not None:
            self.transcript.cursor_clear()
            self.draft.focus()
        elif self.pane.has_focus_within or self.pane.has_focus:
            self.leave_side()
        elif self.waiting.has_focus:
            self.draft.focus()
        elif self.chat.busy:
            await self.chat.stop()
        elif not self.stop_shell() and not self.give_up():
            self.seam.dismiss()
            self.transcript.find_clear()
            self.draft.focus()

    async def action_copy_or_stop(self) -> None:
        """Ctrl-C copies a selection, else stops, else clears the draft, else, twice, quits."""
        if self.furnished and await self._copied_or_stopped():
            return
        written = self.draft.kept + self.early_text
        self.drop_early()
        if written:
            self.draft.history_of_messages.add(written, keep=False)
            self.draft.put("")
            self.say("cleared; up brings it back")
        elif time.monotonic() - self._quit_asked < QUIT_WITHIN_S:
            self.action_leave()
        else:
            self._quit_asked = time.monotonic()
            scrolls = self.draft.vi is not None and not self.draft.vi.inserts
            self.seam.say(News("again to quit", hints=() if scrolls else (("ctrl+d", "too"),)))

    async def _copied_or_stopped(self) -> bool:
        selected = self.screen.get_selected_text() or self.draft.folds.unfold(self.draft.selected_text)
        if selected:
            self.copy(selected, "the selection")
            self.screen.clear_selection()
            return True
        if self.chat.busy:
            await self.chat.stop()
            return True
        return self.stop_shell()

    def on_draft_left(self, event: Draft.Left) -> None:
        """Ctrl-D at an empty draft."""
        self.action_leave()

    def action_leave(self) -> None:
        """Quit."""
        self.exit(0)

    # ---- dialogs ---------------------------------------------------------------------------

    def action_search(self) -> None:
        """Search all chats."""
        self.run_command("/search")

    def action_models(self) -> None:
        """Choose a model."""
        self.run_command("/model")

    def action_params(self) -> None:
        """See and change the settings of replies."""
        self.run_command("/params")

    def action_themes(self) -> None:
        """Choose the colours."""
        self.run_command("/theme")

    def action_help(self) -> None:
        """Keys and commands."""
        if self.draft.text and self.draft.has_focus and self.focused is self.draft:
            raise SkipAction
        self.run_command("/help")

    @work(exit_on_error=False, group="command")
    async def action_palette(self) -> None:
        """Any command, by name."""
        from app import commands
        from app.tui.screens.palette import CommandPalette

        name = await self.push_screen_wait(CommandPalette(self, commands.available(self.face)))
        command = commands.find(self.face, name) if name else None
        if command is None:
            return
        if self._takes_argument(command.name):
            self.draft.put(f"/{command.name} ")
            self.draft.focus()
            return
        await self.ready()
        await commands.run(self.face, command)

    async def show_screen(self, name: str, query: str = "") -> bool:
        """Open the screen for a purpose; False where there is none, and the command answers by itself."""
        from app.tui.program.screens import open_screen

        return await open_screen(self, name, query)

    # ---- modes and looks -------------------------------------------------------------------

    @work(exclusive=True, exit_on_error=False, group="mode")
    async def action_cycle_approval(self) -> None:
        """What runs without asking: ask, read, all, plan."""
        await self.ready()
        mode = self.chat.facts.approve
        wanted = MODES[(MODES.index(mode) + 1) % len(MODES)] if mode in MODES else MODES[0]
        async with self.telling():
            await self.chat.manager.configure(await self.chat.ensure(), approve=wanted)
            self.say(_MODE_WORDS[wanted])

    def use_theme(self, name: str) -> None:
        """Draw with another theme from now on. ThemeError where there is none or it is broken."""
        self.redraw_with(switch(self.palette, read(name)))
        self.show_chat()

    def action_mouse(self) -> None:
        """Leave the mouse to the terminal, for its own selection, or take it back."""
        driver = self._driver
        if not isinstance(driver, ScreenDriver):
            return
        self.mouse_on = not self.mouse_on
        driver.use_mouse(self.mouse_on)
        self.say(
            "mouse on: clicks and the wheel work here"
            if self.mouse_on
            else f"mouse off: the terminal handles it; {self.hint_label('mouse')} turns it on"
        )

    def copy(self, text: str, what: str) -> None:
        """Put text on the clipboard, and tell which way it went."""
        self._copied = text
        self._put_on_clipboard(text)

    @work(exclusive=True, exit_on_error=False, group="copy")
    async def _put_on_clipboard(self, text: str) -> None:
        from app.terminal.clipboard import ClipboardError, copy

        def work() -> Copied:
            return copy(text, self._send_sequence, keep_off_disk=self.chat.private)

        try:
            copied = await asyncio.to_thread(work)
        except ClipboardError as err:
            self.say(str(err), error=True)
            return
        if copied.way == "tool":
            self.seam.say(News(copied.notice(), mark=self.glyphs.done))
        elif copied.way == "terminal" and not self.chat.private:
            self.seam.say(News(copied.notice(), hints=(SAVES,)))
        else:
            self.say(copied.notice())

    def news_key(self, event: events.Key) -> bool:
        """Do what the seam's news offers; False where it offers nothing for this key.

        A letter of the composer never comes here: there another key does it, which the seam shows.
        """
        name, news = self._news_keys.get(key_name(event.key)), self.seam.news
        if name is None or news is None or all(hint[0] != name for hint in news.hints):
            return False
        if name == SAVES[0]:
            self._save_copy()
        elif self.deleted is not None:
            self.undelete(self.deleted)
        return True

    def _save_copy(self) -> None:
        from app.terminal.clipboard import ClipboardError, save

        try:
            self.say(save(self._copied).notice())
        except ClipboardError as err:
            self.say(str(err), error=True)

    def _send_sequence(self, sequence: str) -> None:
        self.call_from_thread(self.write_out, sequence)

    async def read_clipboard(self) -> str | None:
        """The clipboard's text; None where it cannot be read."""
        from app.terminal.clipboard import ClipboardError, paste

        try:
            return await asyncio.to_thread(paste)
        except ClipboardError as err:
            self.say(str(err), error=True)
            return None


_MODE_WORDS = {
    "ask": "every call that touches something asks first",
    "read": "read-only calls in the workspace run; everything else asks first",
    "all": "files, pages and sandboxed commands run; everything else asks first",
    "plan": "the model can only read and plan",
}
_OF_TEXTUAL = frozenset({"focus_next", "focus_previous"})
