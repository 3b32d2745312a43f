"""What is being written: kept over a crash and for its chat, read ahead, and put aside while an earlier
message is edited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from app.frontend.draft import Block, as_keys, draft_of, edited_blocks, pasted_pictures
from app.frontend.draft_keeper import DraftKeeper
from app.frontend.model_name import ModelState
from app.frontend.paste import Folds
from app.settings.config import Settings
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.signal import Signal

if TYPE_CHECKING:
    from textual.widgets import TextArea

    from app.tui.chat.chat import Chat
    from app.tui.program.type_ahead import TypeAhead
    from app.tui.shell import Program

GONE = (404, 409)
"""Of an error: the message that was edited is not waiting any more."""


@dataclass
class Editing:
    """What the draft is going to replace, and the draft it took the place of."""

    kind: Literal["message", "queued"]
    item_id: str
    content: Sequence[Mapping[str, Any]]
    """The blocks that it is made of."""
    text: str
    """It as it was, whole."""
    draft: str
    folds: Folds
    typed: bool
    sent: bool = False


class Drafts:
    """The draft of the chat on the screen, and those of the others."""

    def __init__(
        self, program: Program, parts: Parts, chats: OpenChats, model: ModelState, settings: Settings
    ) -> None:
        self.written: Signal[[]] = Signal()
        """Something was written or removed."""
        self.edits: Signal[[]] = Signal()
        """An earlier message is edited from now on, or no longer."""
        self.editing: Editing | None = None
        self.type_ahead: TypeAhead | None = None
        self._program = program
        self._parts = parts
        self._chats = chats
        self._model = model
        self._settings = settings
        self._keeper = DraftKeeper(lambda: program.start(self.keep, group="draft"))

    def begin(self) -> None:
        """All parts are there: what was written meanwhile is heard of."""
        self._parts.draft.pictures_in = self._pictures_in
        if self._settings.get("type_ahead"):
            from app.tui.program.type_ahead import TypeAhead

            self.type_ahead = TypeAhead(self._is_engine_idle)
        if self._parts.draft.text:
            self.written()

    def changed(self, area: TextArea) -> None:
        """A text is another one, perhaps the draft."""
        if area is self._parts.draft and self._parts.furnished:
            self.written()

    def _pictures_in(self, text: str) -> str | None:
        return pasted_pictures(text, self._chats.folder) if self._model.sees else None

    # ---- reading ahead ---------------------------------------------------------------------

    def _is_engine_idle(self) -> bool:
        return self._model.load is None and not any(chat.facts.running for chat in self._chats.all)

    def read_ahead(self) -> None:
        """Read what is written before it is sent, where the settings say so."""
        if self.type_ahead is not None:
            self.type_ahead.typed(self._chats.current, self._parts.draft.whole)

    def stop_reading_ahead(self) -> None:
        """Nothing is read any more before it is sent."""
        if self.type_ahead is not None:
            self.type_ahead.stop()

    # ---- keeping ---------------------------------------------------------------------------

    def keep_soon(self) -> None:
        """Keep the draft over a crash, a moment from now: also while the person types on and on."""
        self._keeper.changed()

    async def keep(self) -> None:
        """Keep the draft of the chat on the screen. A private chat's stays in memory."""
        if self._chats.begun.is_set():
            await self._chats.current.keep_draft(self.unsent)

    def close(self) -> None:
        """The program ends: nothing is read ahead or kept by itself any more."""
        self.stop_reading_ahead()
        self._keeper.stop()

    @property
    def unsent(self) -> str:
        """All that is being written, as keys would have to write it; while an earlier message is edited, the
        draft behind it and then what is written."""
        draft, put_by = self._parts.draft, self.editing
        if put_by is None:
            return draft.kept
        before = as_keys(put_by.draft, put_by.folds, typed=put_by.typed)
        if draft.whole == put_by.text:
            return before
        return f"{before}\n\n{draft.whole}" if before else draft.kept

    def switch(self, before: Chat, chat: Chat, carry: bool) -> None:
        """Another chat brings its own draft; with `carry` what is being written goes along, behind that."""
        self.leave_edit()
        draft = self._parts.draft
        if not carry:
            before.draft = draft.kept
            draft.folds.clear()
            draft.put(chat.draft)
        elif chat.draft:
            draft.put("\n".join(part for part in (chat.draft, draft.text) if part))

    # ---- editing ---------------------------------------------------------------------------

    def edit(
        self, kind: Literal["message", "queued"], item_id: str, content: Sequence[Mapping[str, Any]]
    ) -> None:
        """Put an earlier message into the composer; what was there comes back afterwards."""
        self.leave_edit()
        draft = self._parts.draft
        before, folds, typed = draft.text, draft.folds, draft.beginning.typed
        text, draft.folds = draft_of(content)
        draft.put(text, typed=False)
        self.editing = Editing(kind, item_id, content, draft.whole, before, folds, typed)
        draft.focus()
        self.edits()

    def leave_edit(self) -> None:
        """Leave the message as it was; what was written for it is found in the history."""
        if self.editing is None:
            return
        draft, kept, self.editing = self._parts.draft, self.editing, None
        if draft.whole != kept.text:
            draft.history_of_messages.add(draft.kept, keep=False)
        draft.folds = kept.folds
        draft.put(kept.draft, typed=kept.typed)
        self.edits()

    def send_edit(self, editing: Editing, blocks: Sequence[Block], kept: str) -> None:
        """Put what is written in the place of the message, once."""
        if not editing.sent:
            editing.sent = True
            self._program.start(partial(self._send_edit, editing, blocks, kept), group="send")

    async def _send_edit(self, editing: Editing, blocks: Sequence[Block], kept: str) -> None:
        from app.exits import explain
        from app.sessions.errors import FiresideError

        chat, written = self._chats.current, edited_blocks(editing.content, blocks)
        self._parts.draft.history_of_messages.add(kept, keep=not chat.private)
        try:
            if editing.kind == "queued":
                await chat.manager.queue_edit(editing.item_id, written)
            else:
                await chat.manager.edit(editing.item_id, written)
        except Exception as err:
            editing.sent = False
            told = str(explain(err))
            if editing.kind == "queued" and isinstance(err, FiresideError) and err.status_code in GONE:
                told = f"{told} {self._keep_words(editing)}"
            self._parts.say(told, error=True)
            return
        if self.editing is editing:
            self.leave_edit()

    def _keep_words(self, editing: Editing) -> str:
        """What was waiting waits no longer: the words for it are the draft now. Tells where they are."""
        if self.editing is not editing:
            return "Press up to find what you wrote for it."
        self.editing = None
        before = as_keys(editing.draft, editing.folds, typed=editing.typed)
        self._parts.draft.history_of_messages.add(before, keep=False)
        self.keep_soon()
        self.edits()
        told = "What you wrote stays in the draft and can be sent as a new message."
        return f"{told} Press up to find the draft from before." if before.strip() else told

    # ---- the queue -------------------------------------------------------------------------

    def edit_waiting(self, item_id: str) -> None:
        """A waiting message is to be changed."""
        content = self._chats.current.facts.contents.get(item_id)
        if content is not None:
            self.edit("queued", item_id, content)

    def remove_waiting(self, item_id: str) -> None:
        """A waiting message is removed; its text stays in the history."""
        draft, folds = draft_of(self._chats.current.facts.contents.get(item_id, ()))
        self._parts.draft.history_of_messages.add(as_keys(draft, folds, typed=False), keep=False)
        self._program.start(partial(self._remove_waiting, item_id), group="send")

    async def _remove_waiting(self, item_id: str) -> None:
        from app.exits import explain

        try:
            await self._chats.current.manager.queue_remove(item_id)
        except Exception as err:
            self._parts.say(str(explain(err)), error=True)
