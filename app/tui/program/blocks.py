"""The block cursor, and what can be done to a block: copy, edit, fork, divide, answer again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import events

from app.commands.dividing import divide, reply_around
from app.sessions.items import Item, Message, Reasoning
from app.tui.keys import key_name, keys_at
from app.tui.program.commands import Commands
from app.tui.program.copying import Copying
from app.tui.program.drafts import Drafts
from app.tui.program.open_chats import OpenChats
from app.tui.program.other_programs import OtherPrograms
from app.tui.program.parts import Parts
from app.tui.widgets.seam import Hint

if TYPE_CHECKING:
    from app.tui.shell import Program
    from app.tui.transcript.entry import Entry


class Blocks:
    """Acts on the block at the cursor, or on the last reply."""

    def __init__(
        self,
        program: Program,
        parts: Parts,
        chats: OpenChats,
        drafts: Drafts,
        copying: Copying,
        others: OtherPrograms,
        commands: Commands,
    ) -> None:
        self._program = program
        self._parts = parts
        self._chats = chats
        self._drafts = drafts
        self._copying = copying
        self._others = others
        self._commands = commands
        self._keys = keys_at("block", parts.bound)

    # ---- the cursor ------------------------------------------------------------------------

    def move(self, step: int) -> None:
        """Move the block cursor; going up, its first stop is the queue."""
        parts = self._parts
        if parts.waiting.has_focus:
            parts.waiting.move(step)
            return
        # The focus moves at once, so that what is typed behind this key goes there, all of it.
        if step < 0:
            if parts.waiting.messages and not parts.transcript.has_focus:
                parts.give_keys(parts.waiting)
                return
            if parts.transcript.cursor_up() is not None:
                parts.give_keys(parts.transcript)
        elif parts.transcript.cursor_down() is None:
            parts.give_keys(parts.draft)

    def leave_queue(self, up: bool) -> None:
        """The cursor leaves the queue."""
        if up and self._parts.transcript.cursor_up() is not None:
            self._parts.transcript.focus()
        else:
            self._parts.draft.focus()

    # ---- keys ------------------------------------------------------------------------------

    def key(self, event: events.Key, entry: Entry) -> bool:
        """A key at a block; whether it means something."""
        if event.key in ("up", "down"):
            # As in a list. Scrolled out of sight, the block would still take the other keys.
            self.move(-1 if event.key == "up" else 1)
            return True
        transcript = self._parts.transcript
        name = self._keys.get(key_name(event.key), "")
        match name:
            case "block_copy":
                self._copying.copy(transcript.copy_source(entry))
            case "block_code":
                self._copy_code(entry)
            case "block_link":
                self._open_link(entry)
            case "block_pager":
                self._others.page(transcript.copy_source(entry))
            case "block_fold":
                transcript.toggle(entry)
            case "block_edit" | "block_divide" | "block_fork" | "block_retry" | "block_tokens":
                self._item_key(name, self._chats.current.view.item_of(entry))
            case _:
                return False
        return True

    def _item_key(self, name: str, item: Item | None) -> None:
        if name == "block_edit":
            self._edit(item)
        elif item is None:
            chat = self._chats.current
            is_new = chat.busy and self._parts.transcript.current in chat.view.story.entries[-2:]
            told = "it is still being written" if is_new else "this is not part of the conversation"
            self._parts.say(told)
        elif name == "block_divide":
            self._program.start(partial(self._divide, item), group="divide")
        elif name == "block_fork":
            self.fork(item)
        elif name == "block_tokens":
            self._program.start(partial(self._show_tokens, item), group="tokens")
        elif item.response_id is not None:
            self.retry(item.response_id)

    def hints(self, entry: Entry) -> Sequence[Hint]:
        """The keys that say most at a block."""
        item = self._chats.current.view.item_of(entry)
        if isinstance(item, Message) and item.role == "user":
            return (("block_copy", "copy"), ("block_edit", "edit"), ("block_fork", "fork"))
        fold: Hint = ("block_fold", "fold")
        if isinstance(item, Message | Reasoning):
            return (("block_copy", "copy"), ("block_divide", "divide"), ("block_fork", "fork"), fold)
        if item is None:
            return (("block_copy", "copy"), fold)
        return (("block_copy", "copy"), ("block_fork", "fork"), fold)

    # ---- what is done ----------------------------------------------------------------------

    def _copy_code(self, entry: Entry) -> None:
        code = self._parts.transcript.copy_code(entry)
        if code is None:
            self._parts.say("no code in this block")
        else:
            self._copying.copy(code)

    def _edit(self, item: Item | None) -> None:
        if not isinstance(item, Message) or item.role != "user":
            again = self._parts.label("block_retry")
            self._parts.say(f"only your own messages can be edited; {again} regenerates a reply")
            return
        self._parts.transcript.cursor_clear()
        self._drafts.edit("message", item.id, item.content)

    def _open_link(self, entry: Entry) -> None:
        links = self._parts.transcript.links(entry)
        if not links:
            self._parts.say("no link in this block")
            return
        self._program.open_url(links[0])
        self._parts.say(f"opened {links[0]}")

    def fork(self, item: Item) -> None:
        """Go on in a copy of the chat that ends here; a message of one's own is the draft there."""
        self._program.start(partial(self._fork, item), group="fork")

    async def _fork(self, item: Item) -> None:
        chat, text = self._chats.current, ""
        response_id = item.response_id
        if chat.id is None:
            return
        if isinstance(item, Message) and item.role == "user":
            text, response_id = _words_up_to(chat.view.story.items, item)
        async with self._parts.telling():
            made = await chat.manager.fork(chat.id, up_to_response_id=response_id)
            if isinstance(item, Message) and item.role == "user" and response_id is None:
                await chat.manager.rewind(made, None)
            await self._chats.open_chat(made)
            if text:
                self._parts.draft.put(text, typed=False)
            self._parts.draft.focus()
            self._parts.say("copied; the original is unchanged")

    async def _divide(self, item: Item) -> None:
        """Divide a reply anew into thought and answer."""
        from app.exits import explain

        reply = reply_around(list(self._chats.current.view.story.items.values()), item)
        if reply is None:
            self._parts.say("only a reply can be split into thinking and answer")
            return
        try:
            await divide(self._commands.face, reply)
        except Exception as err:
            self._parts.say(str(explain(err)), error=True)
        self._parts.transcript.cursor_clear()
        self._parts.draft.focus()

    async def _show_tokens(self, item: Item) -> None:
        """How sure a reply was of each token; it can be written again from one of them."""
        from app.tui.screens.token_flow import tokens_of
        from app.tui.screens.tokens import TokenView, record_tokens

        manager, session_id = self._chats.current.manager, await self._chats.current.ensure()
        tokens = tokens_of((item.tokens if isinstance(item, Message) else None) or ())
        view = TokenView(self._program, tokens, lambda: record_tokens(manager, session_id))
        chosen = await self._program.push_screen_wait(view)
        if chosen is None:
            return
        async with self._parts.telling():
            self._parts.transcript.to_end()
            await manager.continue_from(item.id, chosen.index, chosen.token_id)

    # ---- replies ---------------------------------------------------------------------------

    def retry(self, response_id: str | None = None) -> None:
        """Answer again; None: the last message."""
        self._program.start(partial(self._retry, response_id), group="reply")

    async def _retry(self, response_id: str | None) -> None:
        async with self._parts.telling():
            self._parts.transcript.to_end()
            await self._chats.current.retry(response_id)

    def compact_and_retry(self) -> None:
        """Summarise older turns, then answer again."""
        self._program.start(self._compact_and_retry, group="reply")

    async def _compact_and_retry(self) -> None:
        chat = self._chats.current
        async with self._parts.telling():
            await chat.manager.configure(await chat.ensure(), overflow="compact")
            await chat.retry()

    def walk_variants(self, step: int) -> None:
        """The variant before or after, of the message at the block cursor or the last reply."""
        if not self._chats.current.view.empty:
            self._program.start(partial(self._walk_variants, step), group="reply")

    async def _walk_variants(self, step: int) -> None:
        entry, chat = self._parts.transcript.current, self._chats.current
        item = chat.view.item_of(entry) if entry is not None else None
        message = item if isinstance(item, Message) and item.role == "user" else None
        async with self._parts.telling():
            if await chat.variant(step, message) is None:
                retry = self._parts.label("retry")
                self._parts.say(f"there is only one variant; {retry} writes another")


def _words_up_to(items: dict[str, Item], item: Item) -> tuple[str, str | None]:
    """What the person said up to `item` since the response before it, and that response."""
    words: list[str] = []
    found: str | None = None
    for other in items.values():
        if other.response_id is not None:
            words, found = [], other.response_id
        elif isinstance(other, Message) and other.role == "user" and not other.is_meta:
            words.append(other.text)
        if other.id == item.id:
            break
    return "\n\n".join(words), found
