"""The full-screen face: where keys go, dialogs, approvals, looks, and leaving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from textual import events, work
from textual.actions import SkipAction

from app.theming import read, switch
from app.tui.driver import ScreenDriver
from app.tui.keys import free_keys, key_name, key_rows, keys_at, keys_of
from app.tui.rooms import Rooms
from app.tui.widgets.composer import Draft
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from app.clipboard import Copied
    from app.tui.chat import Chat
    from app.tui.transcript.entries import ErrorEntry
    from app.tui.widgets.approval import ApprovalCard

QUIT_WITHIN_S = 2.0
ERROR_ARMS_AFTER_S = 0.5
MODES = ("ask", "read", "all", "plan")
CHAT_KEYS: tuple[Hint, ...] = (("r", "rename"), ("p", "pin"), ("a", "put away"), ("d", "delete"))
ANYWHERE = frozenset({"copy_or_stop", "leave", "suspend_process", "mouse"})
"""What a key does also while a dialog is open."""
SAVES: Hint = ("save_copy", "saves them to a file")


class FiresideApp(Rooms):
    """The program with all its keys."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.mouse_on = True
        self._quit_asked = -QUIT_WITHIN_S
        self._error_at = 0.0
        self._copied = ""
        self._to_conversation: WeakSet[events.Key] = WeakSet()
        """Keys that were sent to the conversation and have not come back from it."""

    def on_mount(self) -> None:
        """The keys are bound before the first one comes."""
        self.draft.send_keys = keys_of("send", self.bound)
        self.draft.newline_keys = keys_of("newline", self.bound)
        free = free_keys(self.bound)
        self.draft.frees = lambda key: key in free
        self._news_keys = keys_at("news", self.bound)
        if self.settings.get("vi_keys"):
            from app.tui.vi.hand import ViHand

            self.draft.vi = ViHand(self.draft, self._mode_changed, self.action_page)

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

    # ---- where keys go ---------------------------------------------------------------------

    def started(self) -> None:
        """The chats of this person are known: the pane shows them."""
        super().started()
        self.refresh_side()
        if self.start.resume == "":
            self.run_command("/chats")

    def chat_shown(self) -> None:
        """Another chat: keys go to its draft."""
        super().chat_shown()
        self.leave_edit()
        self.draft.focus()
        self.show_hints()
        self.settle_focus()
        self.refresh_side()

    def chat_told(self, chat: Chat, what: str) -> None:
        """A chat changed; a question or an error of the one on the screen takes the keys."""
        super().chat_told(chat, what)
        if what in ("opened", "made", "ended", "asked", "resolved", "failed", "consumed", "status"):
            self.refresh_side()
        if chat is self.chat:
            if what == "failed":
                self._error_at = time.monotonic()
            if what in ("asked", "resolved", "failed", "consumed"):
                self.settle_focus()
        self.show_hints()

    def settle_focus(self) -> None:
        """Keys go to what waits for the person, but never away from a half-typed message."""
        if len(self.screen_stack) > 1:
            return
        asks, fails = self.approval.question is not None, bool(self.chat.error and self.chat.error.choices)
        if self.approval.has_focus_within and not asks:
            self.draft.focus()
        elif not self.draft.text and self.draft.has_focus:
            if asks:
                self.approval.focus()
            elif fails:
                self.transcript.focus()
        if not fails and self.transcript.has_focus and self.transcript.current is None:
            self.draft.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Keys go elsewhere: their hints follow."""
        self.show_hints()

    def show_hints(self) -> None:
        """Tell in the seam what keys do where they go."""
        if not self.furnished:
            return
        self._point_at_error()
        self.seam.set_hints(self._hints())
        self.seam.keys_changed()

    def _hints(self) -> Sequence[Hint]:
        if self.editing is not None and self.draft.has_focus:
            return (("stop", "leaves it as it was"),)
        if self.waiting.has_focus:
            return (("queue_edit", "edits"), ("queue_remove", "removes"))
        if self.transcript.has_focus and self.transcript.current is not None:
            return self.block_hints(self.transcript.current)
        if self.side.has_focus_within and not self.pane.tells_keys:
            return CHAT_KEYS
        if self.approval.has_focus_within or self.transcript.has_focus or self.side.has_focus_within:
            return (("next", "to write"),)
        if self.approval.question is not None:
            return (("next", "answers"),)
        if self.chat.stopping:
            return (("", "stopping"),)
        if self.chat.busy:
            return (("block_up", "edits the queue"),) if self.waiting.messages else (("stop", "stops"),)
        if self.shell_runs:
            return (("stop", "stops"),)
        if self.chat.error and self.chat.error.choices:
            return (("next", "to the choices"),)
        return (("retry", "answers it"),) if self.chat.unanswered else ()

    def _point_at_error(self) -> None:
        error = self.chat.error
        if error is None or not error.choices:
            return
        here = self.transcript.has_focus and self.transcript.current is None
        chosen = (error.chosen or 0) if here else None
        if chosen != error.chosen:
            error.chosen = chosen
            self.transcript.changed(error)

    async def on_event(self, event: events.Event) -> None:
        """A message that is begun while a card has the keys goes to the draft, no letter lost or late."""
        if isinstance(event, events.Key):
            if self._begins_at_card(event):
                return
            if self.furnished and self.screen_stack and self.focused is self.transcript:
                self._to_conversation.add(event)
        await super().on_event(event)

    def _begins_at_card(self, event: events.Key) -> bool:
        if event.is_forwarded or not self.furnished or not self.screen_stack:
            return False
        if self.focused is not self.approval:
            return False
        words = self.approval.words(event)
        if words:
            self.screen.set_focus(self.draft)
            self.draft.insert_text(words)
        return bool(words)

    def on_key(self, event: events.Key) -> None:
        """Keys at the conversation: at a block, at an error, or the beginning of a message."""
        if len(self.screen_stack) > 1:
            return
        if self._news_key(event):
            event.stop()
            return
        self.seam.dismiss()
        if self.focused is not self.transcript:
            self._pass_on(event)
            return
        block, error = self.transcript.current, self.chat.error
        if self.find_key(event) or (self.draft.vi is not None and self.vi_key(event)):
            event.stop()
            return
        if block is not None:
            if self.block_key(event, block):
                event.stop()
                return
        elif error is not None and error.choices and self._error_key(event, error):
            event.stop()
            return
        if not self.draft.text and self.draft.frees(event.key):
            return  # `?`, `[` and `]` mean here what they mean in an empty draft
        if event.is_printable and event.character:
            event.stop()
            self.transcript.cursor_clear()  # esc means the reply again
            # At once, so that the next key goes there; those on their way already are passed on.
            self.screen.set_focus(self.draft)
            self.draft.insert_text(event.character)

    def _pass_on(self, event: events.Key) -> None:
        """A key that was on its way to the conversation when a message was begun there, in one burst."""
        if event not in self._to_conversation or self.focused is not self.draft:
            return
        event.stop()
        if event.is_printable and event.character:
            self.draft.insert_text(event.character)
        else:
            self.draft.post_message(events.Key(event.key, event.character))

    def on_paste(self, event: events.Paste) -> None:
        """A paste where no field has the keys is a part of the message, never an answer."""
        if len(self.screen_stack) == 1:
            event.stop()
            self.draft.focus()
            self.draft.paste(event.text)

    def _error_key(self, event: events.Key, error: ErrorEntry) -> bool:
        keys = [choice.key for choice in error.choices]
        if event.key in ("up", "down"):
            step = 1 if event.key == "down" else -1
            error.chosen = ((error.chosen or 0) + step) % len(keys)
            self.transcript.changed(error)
            return True
        key = keys[error.chosen or 0] if event.key == "enter" else event.key
        if key not in keys:
            return False
        if not self.error_armed:
            # Somebody was typing when it came: a letter is the beginning of a message.
            return event.key == "enter"
        self.draft.focus()
        match key:
            case "r":
                self.retry(None)
            case "m":
                self.run_command("/model")
            case "v":
                self.run_command("/logs")
            case "c":
                self._compact_and_retry()
            case _:
                self.action_new_chat()
        return True

    @work(exit_on_error=False, group="reply")
    async def _compact_and_retry(self) -> None:
        async with self.telling():
            await self.chat.manager.configure(await self.chat.ensure(), overflow="compact")
            await self.chat.retry()

    @property
    def error_armed(self) -> bool:
        """Whether keys count at an error already."""
        return time.monotonic() - self._error_at >= ERROR_ARMS_AFTER_S

    def action_next(self) -> None:
        """Tab: to what waits, to the chats, and back to the draft."""
        if self.completion.opened:
            self.take_offer()
        elif not self.draft.has_focus:
            self.transcript.cursor_clear()
            self.draft.focus()
        elif self.approval.question is not None:
            self.approval.focus()
        elif self.chat.error is not None and self.chat.error.choices:
            self.transcript.focus()
        else:
            self.open_side()

    @work(exit_on_error=False, group="answer")
    async def on_approval_card_answered(self, event: ApprovalCard.Answered) -> None:
        """A person decided."""
        async with self.telling():
            await self.chat.answer(event.question, event.action, event.content)

    def on_approval_card_unasked(self, event: ApprovalCard.Unasked) -> None:
        """What was written for a question that went is not lost."""
        if event.text.strip():
            self.draft.history_of_messages.add(event.text, keep=False)
            self.say("nobody waits for that answer any more; up brings your words back")

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
        written = self.draft.whole + self.early_text
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
            self.seam.say(News("once more quits", hints=() if scrolls else (("ctrl+d", "too"),)))

    async def _copied_or_stopped(self) -> bool:
        selected = self.screen.get_selected_text() or self.draft.selected_text
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
        from app.tui.doors import open_screen

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
            "the mouse is ours again"
            if self.mouse_on
            else f"the mouse is the terminal's; {self.hint_label('mouse')} takes it"
        )

    def copy(self, text: str, what: str) -> None:
        """Put text on the clipboard, and tell which way it went."""
        self._copied = text
        self._put_on_clipboard(text)

    @work(exclusive=True, exit_on_error=False, group="copy")
    async def _put_on_clipboard(self, text: str) -> None:
        from app.clipboard import ClipboardError, copy

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

    def _news_key(self, event: events.Key) -> bool:
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
        from app.clipboard import ClipboardError, save

        try:
            self.say(save(self._copied).notice())
        except ClipboardError as err:
            self.say(str(err), error=True)

    def _send_sequence(self, sequence: str) -> None:
        self.call_from_thread(self.write_out, sequence)

    async def read_clipboard(self) -> str | None:
        """The clipboard's text; None where it cannot be read."""
        from app.clipboard import ClipboardError, paste

        try:
            return await asyncio.to_thread(paste)
        except ClipboardError as err:
            self.say(str(err), error=True)
            return None


_MODE_WORDS = {
    "ask": "every call that touches something asks first",
    "read": "calls that only read run, the rest asks first",
    "all": "every call runs without asking",
    "plan": "the model only reads, and plans",
}
_OF_TEXTUAL = frozenset({"focus_next", "focus_previous"})
