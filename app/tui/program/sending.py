"""Writing: what enter, the editor and the queue do with the draft."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from textual import work
from textual.widgets import TextArea

from app.frontend.draft import (
    Block,
    as_keys,
    blocks_of,
    draft_of,
    edited_blocks,
    pasted_pictures,
    wish_of,
    with_double,
)
from app.frontend.paste import Folds
from app.tui.program.completion import Completing
from app.tui.widgets.composer import Draft

if TYPE_CHECKING:
    from app.tui.program.type_ahead import TypeAhead
    from app.tui.widgets.waiting import WaitingList

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


class Writing(Completing):
    """The program with its composer."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.editing: Editing | None = None
        self.type_ahead: TypeAhead | None = None
        self._shell_stops: list[asyncio.Event] = []
        """Each ends a shell line that runs."""

    def _engine_idle(self) -> bool:
        return self.model.load is None and not any(
            chat.facts.running for chat in {*self.chats.values(), self.chat}
        )

    async def furnish(self) -> None:
        """Bring the other parts, and what reads ahead."""
        await super().furnish()
        if self.settings.get("type_ahead"):
            from app.tui.program.type_ahead import TypeAhead

            self.type_ahead = TypeAhead(self._engine_idle)
        if self.draft.text:
            self._written()

    def on_mount(self) -> None:
        """A pasted path may be a picture."""
        self.draft.pictures_in = self._pictures_in

    def _pictures_in(self, text: str) -> str | None:
        return pasted_pictures(text, self.folder) if self.model.sees else None

    def stop_reading_ahead(self) -> None:
        """Nothing is read any more before it is sent."""
        if self.type_ahead is not None:
            self.type_ahead.stop()

    # ---- sending ---------------------------------------------------------------------------

    def on_draft_sent(self, event: Draft.Sent) -> None:
        """Enter: a message, a command, a shell line, or the end of an edit."""
        event.stop()
        draft, kept, typed = self.draft.text, self.draft.kept, self.draft.beginning.typed
        blocks = blocks_of(draft, self.draft.folds, typed=typed)
        if self.editing is not None:
            if draft.strip() and not self.editing.sent:
                self.editing.sent = True
                self._end_edit(blocks, kept, self.editing)
            return
        wish = wish_of(draft, typed=typed, meant=self._is_meant)
        if wish.kind == "nothing" or (wish.kind == "message" and self.held_back()):
            return
        self.draft.history_of_messages.add(kept, keep=not self.chat.private)
        self.draft.put("")
        match wish.kind:
            case "command":
                self.run_command(wish.text)
            case "shell":
                self.run_shell(wish.text)
            case _:
                self._post(draft, blocks, typed=typed, hint=wish.hint)

    def _is_meant(self, name: str) -> bool:
        from app import commands

        return commands.is_meant(self.face, name)

    def settle_focus(self) -> None:
        """Keys go to what waits for the person."""

    def held_back(self) -> bool:
        """Whether a message has to wait, with the draft as it is."""
        return False

    @work(exit_on_error=False, group="send")
    async def _post(self, draft: str, blocks: Sequence[Block], *, typed: bool, hint: str) -> None:
        from app.exits import explain

        self.stop_reading_ahead()
        self.transcript.to_end()
        folds = self.draft.folds
        try:
            await self.post(draft, blocks)
        except Exception as err:
            # Nothing was sent: it goes on as the draft, or is found in the history.
            if not self.draft.text:
                self.draft.put(draft, typed=typed)
            self.say(str(explain(err)), error=True)
            return
        if hint:
            self.say(hint)
        if folds is self.draft.folds and not self.draft.text:
            folds.clear()
        self.save_draft_soon()

    @work(exit_on_error=False, group="command")
    async def run_command(self, line: str) -> None:
        """Run a slash command; what goes wrong is told in the seam."""
        from app import commands

        await self.ready()
        await commands.run_line(self.face, line)
        self.call_after_refresh(self.settle_focus)

    @work(exit_on_error=False, group="shell")
    async def run_shell(self, line: str) -> None:
        """Run the person's own shell line; its output goes with the next message."""
        stop = asyncio.Event()
        self._shell_stops.append(stop)
        try:
            await self._run_shell(line, stop)
        finally:
            self._shell_stops.remove(stop)
            self.call_later(self.show_hints)

    async def _run_shell(self, line: str, stop: asyncio.Event) -> None:
        from app.frontend.shell_line import run_line
        from app.tui.chat.story import STOPPED_BY_YOU, count_words
        from app.tui.transcript.tool_entry import ToolCall

        await self.ready()
        shown = ToolCall("!", line, state="running")
        chat = self.chat
        chat.add_entry(shown)
        chat.unsent.append(shown)
        self.show_hints()
        folder = self.folder
        show = partial(chat.page.append_text, shown)
        try:
            result = await run_line(line, folder, show, private=chat.private, stop=stop)
        except OSError as err:
            shown.end("failed", err.strerror or str(err))
            chat.page.changed(shown)
            return
        if result.folder != folder:
            self.folder = result.folder
        chat.page.flush()
        facts = count_words(result.line_count) or "no output"
        if result.is_stopped:
            shown.end("failed", STOPPED_BY_YOU, fold=False)
        elif result.limit_s is not None:
            shown.end("failed", f"ended after {result.limit_s:.0f} s, {facts}", fold=False)
        elif result.code:
            shown.end("failed", f"exit {result.code}, {facts}", fold=False)
        else:
            shown.end("done", facts, fold=False)
        chat.page.changed(shown)
        chat.attached.append(result.block(line))
        self.say("its output goes with the next message")

    @property
    def shell_runs(self) -> bool:
        """Whether a shell line of the person runs."""
        return bool(self._shell_stops)

    def stop_shell(self) -> bool:
        """End the person's shell lines; what they printed goes with the next message. False for none."""
        for stop in self._shell_stops:
            stop.set()
        return bool(self._shell_stops)

    # ---- editing ---------------------------------------------------------------------------

    def begin_edit(
        self, kind: Literal["message", "queued"], item_id: str, content: Sequence[Mapping[str, Any]]
    ) -> None:
        """Put an earlier message into the composer; what was there comes back afterwards."""
        self.leave_edit()
        draft, folds, typed = self.draft.text, self.draft.folds, self.draft.beginning.typed
        text, self.draft.folds = draft_of(content)
        self.draft.put(text, typed=False)
        self.editing = Editing(kind, item_id, content, self.draft.whole, draft, folds, typed)
        self.draft.focus()
        self.show_hints()

    def leave_edit(self) -> None:
        """Leave the message as it was; what was written for it is found in the history."""
        if self.editing is None:
            return
        kept, self.editing = self.editing, None
        if self.draft.whole != kept.text:
            self.draft.history_of_messages.add(self.draft.kept, keep=False)
        self.draft.folds = kept.folds
        self.draft.put(kept.draft, typed=kept.typed)
        self.show_hints()

    @work(exit_on_error=False, group="send")
    async def _end_edit(self, blocks: Sequence[Block], kept: str, editing: Editing) -> None:
        from app.exits import explain
        from app.sessions.errors import FiresideError

        chat, written = self.chat, edited_blocks(editing.content, blocks)
        self.draft.history_of_messages.add(kept, keep=not chat.private)
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
            self.say(told, error=True)
            return
        if self.editing is editing:
            self.leave_edit()

    def _keep_words(self, editing: Editing) -> str:
        """What was waiting waits no longer: the words for it are the draft now. Tells where they are."""
        if self.editing is not editing:
            return "Press up to find what you wrote for it."
        self.editing = None
        before = as_keys(editing.draft, editing.folds, typed=editing.typed)
        self.draft.history_of_messages.add(before, keep=False)
        self.save_draft_soon()
        self.show_hints()
        told = "What you wrote stays in the draft and can be sent as a new message."
        return f"{told} Press up to find the draft from before." if before.strip() else told

    def on_waiting_list_edit(self, event: WaitingList.Edit) -> None:
        """A waiting message is to be changed."""
        content = self.chat.facts.contents.get(event.item_id)
        if content is not None:
            self.begin_edit("queued", event.item_id, content)

    @work(exit_on_error=False, group="send")
    async def _remove(self, item_id: str) -> None:
        from app.exits import explain

        try:
            await self.chat.manager.queue_remove(item_id)
        except Exception as err:
            self.say(str(explain(err)), error=True)

    def on_waiting_list_remove(self, event: WaitingList.Remove) -> None:
        """A waiting message is taken back; its text stays in the history."""
        draft, folds = draft_of(self.chat.facts.contents.get(event.item_id, ()))
        self.draft.history_of_messages.add(as_keys(draft, folds, typed=False), keep=False)
        self._remove(event.item_id)

    @work(exit_on_error=False, group="editor")
    async def action_editor(self) -> None:
        """Write on in the person's own editor."""
        before = self.draft.whole
        # What keys began before stays a command, or loses its mark; what the editor begins is text.
        typed = self.draft.begins_typed
        text = await self.in_editor(before)
        if text is None:
            return
        if self.draft.whole not in (before, ""):
            # A message that could not be sent came back meanwhile.
            self.draft.history_of_messages.add(self.draft.kept, keep=False)
        self.draft.folds.clear()
        self.draft.put(text, typed=typed and text.lstrip()[:1] == before.lstrip()[:1])

    async def in_editor(self, text: str) -> str | None:
        """`text` as the person left it; None where the editor cannot be used, which is told."""
        from app.frontend.editor import EditorError, edit

        private, saved = self.chat.private, ""

        def left(written: str) -> None:
            nonlocal saved
            saved = written
            self.draft.history_of_messages.add(with_double(written), keep=not private)

        if self.is_lent:
            return None
        try:
            return await edit(text, self.lent, private=private, left=left)
        except EditorError as err:
            self.say(f"{err} Press up to find what was saved." if saved else str(err), error=True)
            return None

    @property
    def unsent(self) -> str:
        """The draft; while an earlier message is edited, the draft behind it and then what is written."""
        kept = self.editing
        if kept is None:
            return super().unsent
        before = as_keys(kept.draft, kept.folds, typed=kept.typed)
        if self.draft.whole == kept.text:
            return before
        return f"{before}\n\n{self.draft.whole}" if before else self.draft.kept

    # ---- the draft -------------------------------------------------------------------------

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """The draft is another one."""
        if event.text_area is self.draft and self.furnished:
            self._written()

    def _written(self) -> None:
        self.draft_changed()
        self.save_draft_soon()
        if self.type_ahead is not None:
            self.type_ahead.typed(self.chat, self.draft.whole)
        self.complete()

    def draft_changed(self) -> None:
        """Something was written or removed."""
        self.approval.set_drafting(bool(self.draft.text))
        self.seam.dismiss(typing=True)
        self.seam.keys_changed()
