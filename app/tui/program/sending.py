"""What becomes of the draft at enter: a message, a command, a shell line, or the end of an edit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.frontend.draft import Block, blocks_of, wish_of
from app.tui.program.commands import Commands
from app.tui.program.drafts import Drafts
from app.tui.program.empty_chat import EmptyChat
from app.tui.program.first_run import FirstRun
from app.tui.program.open_chats import OpenChats
from app.tui.program.parts import Parts
from app.tui.program.shell_lines import ShellLines

if TYPE_CHECKING:
    from app.tui.shell import Program


class Sender:
    """Hands the draft to whom it is meant for."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        chats: OpenChats,
        drafts: Drafts,
        commands: Commands,
        shell_lines: ShellLines,
        first_run: FirstRun,
        empty_chat: EmptyChat,
    ) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._drafts = drafts
        self._commands = commands
        self._shell_lines = shell_lines
        self._first_run = first_run
        self._empty_chat = empty_chat

    def enter(self) -> None:
        """The draft is whole."""
        draft = self._parts.draft
        text, kept, typed = draft.text, draft.kept, draft.beginning.typed
        blocks = blocks_of(text, draft.folds, typed=typed)
        if self._drafts.editing is not None:
            if text.strip():
                self._drafts.send_edit(self._drafts.editing, blocks, kept)
            return
        wish = wish_of(text, typed=typed, meant=self._commands.is_meant)
        if wish.kind == "nothing":
            self._empty_chat.go_on()
            return
        if wish.kind == "message" and self._first_run.holds_back():
            return
        draft.history_of_messages.add(kept, keep=not self._chats.current.private)
        draft.put("")
        match wish.kind:
            case "command":
                self._commands.run(wish.text)
            case "shell":
                self._shell_lines.begin(wish.text)
            case _:
                self._program.start(partial(self._post, text, blocks, typed, wish.hint), group="send")

    async def _post(self, text: str, blocks: Sequence[Block], typed: bool, hint: str) -> None:
        from app.exits import explain

        self._drafts.stop_reading_ahead()
        self._parts.transcript.to_end()
        draft = self._parts.draft
        folds = draft.folds
        try:
            chat = await self._chats.ready()
            await chat.post(text, blocks, self._chats.folder, loading=self._chats.loading)
        except Exception as err:
            # Nothing was sent: it goes on as the draft, or is found in the history.
            if not draft.text:
                draft.put(text, typed=typed)
            self._parts.say(str(explain(err)), error=True)
            return
        if hint:
            self._parts.say(hint)
        if folds is draft.folds and not draft.text:
            folds.clear()
        self._drafts.keep_soon()
