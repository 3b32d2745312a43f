"""Reading: scrolling, the block cursor, variants, folding, and copying what is on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from textual import events, work
from textual.actions import SkipAction

from app.tui.keys import key_name, keys_at
from app.tui.program.sending import Writing
from app.tui.widgets.seam import Hint, News

if TYPE_CHECKING:
    from app.sessions.items import Item
    from app.tui.shell import Shell
    from app.tui.transcript.entry import Entry
    from app.tui.transcript.view import Transcript


class Reading(Writing):
    """The program with its transcript."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self._block_keys = keys_at("block", self.bound)

    # ---- scrolling -------------------------------------------------------------------------

    def action_page(self, direction: int) -> None:
        """A page up or down, wherever keys go; at a card of what it asks about, where that is long."""
        if self.furnished and self.approval.has_focus and self.approval.turn_page(direction):
            return
        if direction < 0:
            self.transcript.action_page_up()
            if self.transcript.scroll_offset.y == 0:
                self.load_older()
        else:
            self.transcript.action_page_down()

    def action_newest(self) -> None:
        """To the newest line."""
        self.transcript.to_end()

    @work(exclusive=True, exit_on_error=False, group="older")
    async def action_oldest(self) -> None:
        """To the very first line."""
        while self.chat.has_older:
            await self.chat.load_older()
        self.transcript.scroll_home(animate=False)

    @work(exclusive=True, exit_on_error=False, group="older")
    async def load_older(self) -> None:
        """Put older messages above, where the store has some."""
        await self.chat.load_older()

    def on_transcript_new_below(self, event: Transcript.NewBelow) -> None:
        """Text came below what is seen."""
        self.seam.set_new_lines(event.rows)

    def on_mouse_scroll_up(self) -> None:
        """At the top there may be more."""
        if self.transcript.scroll_offset.y == 0 and self.chat.has_older:
            self.load_older()

    # ---- the block cursor ------------------------------------------------------------------

    def action_block(self, step: int) -> None:
        """The block cursor; going up, its first stop is the queue."""
        if self.waiting.has_focus:
            self.waiting.move(step)
            return
        # The focus moves at once, so that what is typed behind this key goes there, all of it.
        if step < 0:
            if self.waiting.messages and not self.transcript.has_focus:
                self.screen.set_focus(self.waiting)
                return
            if self.transcript.cursor_up() is not None:
                self.screen.set_focus(self.transcript)
        elif self.transcript.cursor_down() is None:
            self.screen.set_focus(self.draft)

    def on_waiting_list_leave(self, event: Any) -> None:
        """The cursor leaves the queue."""
        if event.up and self.transcript.cursor_up() is not None:
            self.transcript.focus()
        else:
            self.draft.focus()

    def on_transcript_cursor_moved(self, event: Transcript.CursorMoved) -> None:
        """Its keys are told in the seam."""
        self.show_hints()

    def block_key(self, event: events.Key, entry: Entry) -> bool:
        """A key at a block; whether it means something."""
        if event.key in ("up", "down"):
            # As in a list. Scrolled out of sight, the block would still take the other keys.
            self.action_block(-1 if event.key == "up" else 1)
            return True
        name = self._block_keys.get(key_name(event.key), "")
        match name:
            case "block_copy":
                self.copy(self.transcript.copy_source(entry), "the block")
            case "block_code":
                self._copy_code(entry)
            case "block_link":
                self._open_link(entry)
            case "block_pager":
                self.in_pager(self.transcript.copy_source(entry))
            case "block_fold":
                self.transcript.toggle(entry)
            case "block_edit" | "block_divide" | "block_fork" | "block_retry" | "block_tokens":
                self._item_key(name, self.chat.item_of(entry))
            case _:
                return False
        return True

    def _item_key(self, name: str, item: Item | None) -> None:
        if name == "block_edit":
            self._edit_block(item)
        elif item is None:
            is_new = self.chat.busy and self.transcript.current in self.chat.story.entries[-2:]
            self.say("it is still being written" if is_new else "this is not part of the conversation")
        elif name == "block_divide":
            self.divide(item)
        elif name == "block_fork":
            self.fork_from(item)
        elif name == "block_tokens":
            self.show_tokens(item)
        elif item.response_id is not None:
            self.retry(item.response_id)

    def block_hints(self, entry: Entry) -> Sequence[Hint]:
        """The keys that say most at a block."""
        from app.sessions.items import Message, Reasoning

        item = self.chat.item_of(entry)
        if isinstance(item, Message) and item.role == "user":
            return (("block_copy", "copy"), ("block_edit", "edit"), ("block_fork", "fork"))
        fold: Hint = ("block_fold", "fold")
        if isinstance(item, Message | Reasoning):
            return (("block_copy", "copy"), ("block_divide", "divide"), ("block_fork", "fork"), fold)
        if item is None:
            return (("block_copy", "copy"), fold)
        return (("block_copy", "copy"), ("block_fork", "fork"), fold)

    def _copy_code(self, entry: Entry) -> None:
        code = self.transcript.copy_code(entry)
        if code is None:
            self.say("no code in this block")
        else:
            self.copy(code, "its code")

    def find_key(self, event: events.Key) -> bool:
        """Keys that find in the chat; whether this is one."""
        found = self.transcript.found[1] > 0
        match self._block_keys.get(key_name(event.key), event.key):
            case "find_again":
                self._find()
            case "find_next" if found:
                self.transcript.find_next()
            case "find_before" if found:
                self.transcript.find_previous()
            case "escape" if found and self.transcript.current is None:
                self.transcript.find_clear()
                self.draft.focus()
                return True
            case _:
                return False
        self._tell_found()
        return True

    def vi_key(self, event: events.Key) -> bool:
        """Vi's keys at the conversation; whether this is one."""
        match event.key:
            case "j" | "k":
                self.action_block(1 if event.key == "j" else -1)
            case "ctrl+d" | "ctrl+u":
                self.action_page(1 if event.key == "ctrl+d" else -1)
            case "g":
                self.action_oldest()
            case "G" | "upper_g":
                self.action_newest()
            case "i":
                self.transcript.cursor_clear()
                self.draft.focus()
            case _:
                return False
        return True

    def action_find(self) -> None:
        """Find in this chat."""
        self._find()

    @work(exclusive=True, exit_on_error=False, group="find")
    async def _find(self) -> None:
        from app.tui.screens.dialogs import LineDialog

        shell = cast("Shell", self)
        query = await self.push_screen_wait(LineDialog(shell, "find in this chat"))
        if not query:
            self.transcript.find_clear()
            return
        while not self.transcript.find(query) and self.chat.has_older:
            await self.chat.load_older()
        self.transcript.focus()
        self._tell_found()

    def _tell_found(self) -> None:
        at, count = self.transcript.found
        if not count:
            self.say("no matches in this chat")
            return
        news = f"match {at} of {count}" if count > 1 else "one match"
        hints: Sequence[Hint] = (("find_next", "next"), ("find_before", "before")) if count > 1 else ()
        self.seam.say(News(news, hints=hints))

    @work(exit_on_error=False, group="editor")
    async def in_pager(self, text: str) -> None:
        """Show a text in the person's own pager; it is handed over without a file."""
        from app.frontend.editor import EditorError, page

        if self.is_lent:
            return
        try:
            await page(text, self.lent)
        except EditorError as err:
            self.say(str(err), error=True)

    def _edit_block(self, item: Item | None) -> None:
        from app.sessions.items import Message

        if not isinstance(item, Message) or item.role != "user":
            again = self.label("block_retry")
            self.say(f"only your own messages can be edited; {again} regenerates a reply")
            return
        self.transcript.cursor_clear()
        self.begin_edit("message", item.id, item.content)

    def _open_link(self, entry: Entry) -> None:
        links = self.transcript.links(entry)
        if not links:
            self.say("no link in this block")
            return
        self.open_url(links[0])
        self.say(f"opened {links[0]}")

    def on_transcript_link_chosen(self, event: Transcript.LinkChosen) -> None:
        """A click tells where a link leads; with ctrl it opens."""
        if event.url is None:
            self.say(f"not a web address: {event.target}")
        elif event.meant:
            self.open_url(event.url)
        else:
            self.seam.say(News(event.url, hints=(("ctrl+click", "opens"),)))

    @work(exit_on_error=False, group="fork")
    async def fork_from(self, item: Item) -> None:
        """Go on in a copy of the chat that ends here; a message of one's own is the draft there."""
        from app.sessions.items import Message

        chat, text = self.chat, ""
        response_id = item.response_id
        if chat.id is None:
            return
        if isinstance(item, Message) and item.role == "user":
            text, response_id = _words_up_to(chat.story.items, item)
        async with self.telling():
            made = await chat.manager.fork(chat.id, up_to_response_id=response_id)
            if isinstance(item, Message) and item.role == "user" and response_id is None:
                await chat.manager.rewind(made, None)
            await self.open_chat(made)
            if text:
                self.draft.put(text, typed=False)
            self.draft.focus()
            self.say("copied; the original is unchanged")

    @work(exit_on_error=False, group="divide")
    async def divide(self, item: Item) -> None:
        """Divide a reply anew into thought and answer."""
        from app.commands.dividing import divide, reply_around
        from app.exits import explain

        reply = reply_around(list(self.chat.story.items.values()), item)
        if reply is None:
            self.say("only a reply can be split into thinking and answer")
            return
        try:
            await divide(self.face, reply)
        except Exception as err:
            self.say(str(explain(err)), error=True)
        self.transcript.cursor_clear()
        self.draft.focus()

    @work(exit_on_error=False, group="tokens")
    async def show_tokens(self, item: Item) -> None:
        """How sure a reply was of each token; it can be written again from one of them."""
        from app.sessions.items import Message
        from app.tui.screens.token_flow import tokens_of
        from app.tui.screens.tokens import TokenView, record_tokens

        manager, session_id = self.chat.manager, await self.chat.ensure()
        tokens = tokens_of((item.tokens if isinstance(item, Message) else None) or ())
        view = TokenView(cast("Shell", self), tokens, lambda: record_tokens(manager, session_id))
        chosen = await self.push_screen_wait(view)
        if chosen is None:
            return
        async with self.telling():
            self.transcript.to_end()
            await self.chat.manager.continue_from(item.id, chosen.index, chosen.token_id)

    # ---- replies ---------------------------------------------------------------------------

    def action_retry(self) -> None:
        """Another variant of the last reply."""
        self.retry(None)

    @work(exit_on_error=False, group="reply")
    async def retry(self, response_id: str | None) -> None:
        """Answer again."""
        async with self.telling():
            self.transcript.to_end()
            await self.chat.retry(response_id)

    @work(exit_on_error=False, group="reply")
    async def action_variant(self, step: int) -> None:
        """The variant before or after, of the message at the block cursor or the last reply."""
        from app.sessions.items import Message

        if self.chat.empty:
            raise SkipAction
        entry = self.transcript.current
        item = self.chat.item_of(entry) if entry is not None else None
        message = item if isinstance(item, Message) and item.role == "user" else None
        async with self.telling():
            if await self.chat.variant(step, message) is None:
                self.say(f"there is only one variant; {self.label('retry')} writes another")

    def action_fold_thoughts(self) -> None:
        """Fold or open all thoughts."""
        self.transcript.fold_all_thoughts()

    # ---- copying ---------------------------------------------------------------------------

    def copy(self, text: str, what: str) -> None:
        """Put text on the clipboard, and tell which way it went."""
        raise NotImplementedError


def _words_up_to(items: dict[str, Item], item: Item) -> tuple[str, str | None]:
    """What the person said up to `item` since the response before it, and that response."""
    from app.sessions.items import Message

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
