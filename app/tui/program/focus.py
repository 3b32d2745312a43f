"""Where keys go: to the draft, a card, an error or a block; and what the seam tells of them there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from textual import events, work

from app.frontend.draft import with_double
from app.tui.program.side import Rooms
from app.tui.widgets.seam import Hint

if TYPE_CHECKING:
    from app.tui.chat.chat import Chat
    from app.tui.transcript.entries import ErrorEntry
    from app.tui.widgets.approval import ApprovalCard

ERROR_ARMS_AFTER_S = 0.5
AT_BLOCKS = ("up", "down", "enter")
"""Keys without a letter that mean something at a block or an error."""
CHAT_KEYS: tuple[Hint, ...] = (("r", "rename"), ("p", "pin"), ("a", "archive"), ("d", "delete"))


class Focus(Rooms):
    """The program whose keys go to what waits for the person, but never away from what is written."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._error_at = 0.0
        self._to_conversation: WeakSet[events.Key] = WeakSet()
        """Keys that were sent to the conversation and have not come back from it."""

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
            return (("stop", "cancels"),)
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
                # Not when they come back from there: the keys behind one that begins a message would
                # be written before those that are still on their way.
                is_plain = "+" not in event.key and (event.is_printable or event.key in AT_BLOCKS)
                if is_plain and self._early is None and self._taken(event):
                    self._key_at = time.monotonic()
                    return
                self._to_conversation.add(event)
        await super().on_event(event)

    def news_key(self, event: events.Key) -> bool:
        """Do what the seam's news offers; False where it offers nothing for this key."""
        return False

    def _begins_at_card(self, event: events.Key) -> bool:
        if event.is_forwarded or not self.furnished or not self.screen_stack:
            return False
        if self.focused is not self.approval:
            return False
        words = self.approval.words(event)
        if not words:
            return False
        self.screen.set_focus(self.draft)
        self.draft.begin(words)
        if not event.is_printable and event.key != "enter":
            self.draft.post_message(events.Key(event.key, event.character))
        return True

    def on_key(self, event: events.Key) -> None:
        """Keys at the conversation: at a block, at an error, or the beginning of a message."""
        if len(self.screen_stack) > 1:
            return
        if self._taken(event):
            event.stop()
        elif self.focused is not self.transcript:
            self._pass_on(event)

    def _taken(self, event: events.Key) -> bool:
        if self.news_key(event):
            return True
        self.seam.dismiss()
        return self.focused is self.transcript and self._conversation_key(event)

    def _conversation_key(self, event: events.Key) -> bool:
        block, error = self.transcript.current, self.chat.error
        if self.find_key(event) or (self.draft.vi is not None and self.vi_key(event)):
            return True
        if block is not None:
            if self.block_key(event, block):
                return True
        elif error is not None and error.choices and self._error_key(event, error):
            return True
        if not self.draft.text and self.draft.frees(event.key):
            return False  # `?`, `[` and `]` mean here what they mean in an empty draft
        if not event.is_printable or not event.character:
            return False
        self.transcript.cursor_clear()  # esc means the reply again
        # At once, so that the next key goes there; those on their way already are passed on.
        self.screen.set_focus(self.draft)
        self.draft.insert_text(event.character)
        return True

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
            self.draft.paste(self.approval.held_words() + event.text if self.furnished else event.text)

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
            self.draft.history_of_messages.add(with_double(event.text), keep=False)
            self.say("that question is closed; up brings your text back")
