"""Where keys go: to the draft, a card, an error or a block."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from textual import events
from textual.widget import Widget

from app.tui.keys import key_name, keys_at
from app.tui.program.blocks import Blocks
from app.tui.program.commands import Commands
from app.tui.program.completion import Completions
from app.tui.program.copying import SAVES, Copying
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.reading import Reader
from app.tui.program.side import SidePane
from app.tui.program.signal import Signal

if TYPE_CHECKING:
    from app.tui.chat.chat import Chat
    from app.tui.shell import Program
    from app.tui.transcript.entries import ErrorEntry

ERROR_ARMS_AFTER_S = 0.5
AT_BLOCKS = ("up", "down", "enter")
"""Keys without a letter that mean something at a block or an error."""
CALLS_KEYS = ("asked", "resolved", "failed", "consumed")
"""What a chat tells that may take the keys, or give them back."""


class Focus:
    """Keys go to what waits for the person, but never away from what is written."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        chats: OpenChats,
        completions: Completions,
        reader: Reader,
        blocks: Blocks,
        side: SidePane,
        copying: Copying,
        commands: Commands,
    ) -> None:
        self.moved: Signal[[Widget]] = Signal()
        """Keys go to another part now."""
        self._program = program
        self._parts = parts
        self._chats = chats
        self._completions = completions
        self._reader = reader
        self._blocks = blocks
        self._side = side
        self._copying = copying
        self._commands = commands
        self._news_keys = keys_at("news", parts.bound)
        self._error_at = 0.0
        self._to_conversation: WeakSet[events.Key] = WeakSet()
        """Keys that were sent to the conversation and have not come back from it."""

    @property
    def _in_dialog(self) -> bool:
        return len(self._program.screen_stack) > 1

    # ---- who has the keys ------------------------------------------------------------------

    def told(self, chat: Chat, what: str) -> None:
        """A chat changed; a question or an error of the one on the screen takes the keys."""
        if chat is not self._chats.current:
            return
        if what == "failed":
            self._error_at = time.monotonic()
        if what in CALLS_KEYS:
            self.settle()

    def to_draft(self) -> None:
        """Keys go to the draft."""
        self._parts.draft.focus()

    def settle(self) -> None:
        """Keys go to what waits for the person, but never away from a half-typed message."""
        if self._in_dialog:
            return
        parts, error = self._parts, self._chats.current.view.error
        asks, fails = parts.approval.question is not None, bool(error and error.choices)
        if parts.approval.has_focus_within and not asks:
            parts.draft.focus()
        elif not parts.draft.text and parts.draft.has_focus:
            if asks:
                parts.approval.focus()
            elif fails:
                parts.transcript.focus()
        if not fails and parts.transcript.has_focus and parts.transcript.current is None:
            parts.draft.focus()

    def next(self) -> None:
        """Tab: to what waits, to the chats, and back to the draft."""
        parts, error = self._parts, self._chats.current.view.error
        if self._completions.is_open:
            self._completions.take()
        elif not parts.draft.has_focus:
            parts.transcript.cursor_clear()
            parts.draft.focus()
        elif parts.approval.question is not None:
            parts.approval.focus()
        elif error is not None and error.choices:
            parts.transcript.focus()
        else:
            self._side.open()

    # ---- keys ------------------------------------------------------------------------------

    def takes_first(self, event: events.Event) -> bool:
        """Whether a key is done with before the part that has the focus hears of it. A message that is begun
        while a card has the keys goes to the draft, no letter lost or late."""
        if not isinstance(event, events.Key):
            return False
        if self._begins_at_card(event):
            return True
        if self._program.screen_stack and self._program.focused is self._parts.transcript:
            # Not when they come back from there: the keys behind one that begins a message would
            # be written before those that are still on their way.
            is_plain = "+" not in event.key and (event.is_printable or event.key in AT_BLOCKS)
            if is_plain and self._taken(event):
                return True
            self._to_conversation.add(event)
        return False

    def _begins_at_card(self, event: events.Key) -> bool:
        if event.is_forwarded or not self._program.screen_stack:
            return False
        if self._program.focused is not self._parts.approval:
            return False
        words = self._parts.approval.words(event)
        if not words:
            return False
        self._parts.give_keys(self._parts.draft)
        self._parts.draft.begin(words)
        if not event.is_printable and event.key != "enter":
            self._parts.draft.post_message(events.Key(event.key, event.character))
        return True

    def key(self, event: events.Key) -> None:
        """Keys at the conversation: at a block, at an error, or the beginning of a message."""
        if self._in_dialog:
            return
        if self._taken(event):
            event.stop()
        elif self._program.focused is not self._parts.transcript:
            self._pass_on(event)

    def _taken(self, event: events.Key) -> bool:
        if self._news_key(event):
            return True
        self._parts.seam.dismiss()
        return self._program.focused is self._parts.transcript and self._conversation_key(event)

    def _news_key(self, event: events.Key) -> bool:
        """Do what the seam's news offers; False where it offers nothing for this key.

        A letter of the composer never comes here: there another key does it, which the seam shows.
        """
        name, news = self._news_keys.get(key_name(event.key)), self._parts.seam.news
        if name is None or news is None or all(hint[0] != name for hint in news.hints):
            return False
        if name == SAVES[0]:
            self._copying.save()
        else:
            self._side.restore()
        return True

    def _conversation_key(self, event: events.Key) -> bool:
        draft, block, error = (
            self._parts.draft,
            self._parts.transcript.current,
            self._chats.current.view.error,
        )
        if self._reader.find_key(event) or (draft.vi is not None and self._vi_key(event)):
            return True
        if block is not None:
            if self._blocks.key(event, block):
                return True
        elif error is not None and error.choices and self._error_key(event, error):
            return True
        if not draft.text and draft.frees(event.key):
            return False  # `?`, `[` and `]` mean here what they mean in an empty draft
        if not event.is_printable or not event.character:
            return False
        self._parts.transcript.cursor_clear()  # esc means the reply again
        # At once, so that the next key goes there; those on their way already are passed on.
        self._parts.give_keys(draft)
        draft.insert_text(event.character)
        return True

    def _vi_key(self, event: events.Key) -> bool:
        """Vi's keys at the conversation; whether this is one."""
        match event.key:
            case "j" | "k":
                self._blocks.move(1 if event.key == "j" else -1)
            case "ctrl+d" | "ctrl+u":
                self._reader.page(1 if event.key == "ctrl+d" else -1)
            case "g":
                self._reader.oldest()
            case "G" | "upper_g":
                self._reader.newest()
            case "i":
                self._parts.transcript.cursor_clear()
                self._parts.draft.focus()
            case _:
                return False
        return True

    def _pass_on(self, event: events.Key) -> None:
        """A key that was on its way to the conversation when a message was begun there, in one burst."""
        draft = self._parts.draft
        if event not in self._to_conversation or self._program.focused is not draft:
            return
        event.stop()
        if event.is_printable and event.character:
            draft.insert_text(event.character)
        else:
            draft.post_message(events.Key(event.key, event.character))

    def paste(self, event: events.Paste) -> None:
        """A paste where no field has the keys is a part of the message, never an answer."""
        if not self._in_dialog:
            event.stop()
            self._parts.draft.focus()
            self._parts.draft.paste(self._parts.approval.held_words() + event.text)

    # ---- an error --------------------------------------------------------------------------

    @property
    def error_armed(self) -> bool:
        """Whether keys count at an error already."""
        return time.monotonic() - self._error_at >= ERROR_ARMS_AFTER_S

    def _error_key(self, event: events.Key, error: ErrorEntry) -> bool:
        keys = [choice.key for choice in error.choices]
        if event.key in ("up", "down"):
            step = 1 if event.key == "down" else -1
            error.chosen = ((error.chosen or 0) + step) % len(keys)
            self._parts.transcript.changed(error)
            return True
        key = keys[error.chosen or 0] if event.key == "enter" else event.key
        if key not in keys:
            return False
        if not self.error_armed:
            # Somebody was typing when it came: a letter is the beginning of a message.
            return event.key == "enter"
        self._parts.draft.focus()
        match key:
            case "r":
                self._blocks.retry()
            case "m":
                self._commands.run("/model")
            case "v":
                self._commands.run("/logs")
            case "c":
                self._blocks.compact_and_retry()
            case _:
                self._chats.begin_chat()
        return True
