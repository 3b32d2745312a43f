"""One open chat: its session, and what a person wishes of it. Decides nothing about conversations."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.frontend.model_name import UNKNOWN
from app.frontend.question import Question
from app.sessions.errors import FiresideError
from app.sessions.items import FunctionCallOutput, Item
from app.terminal.figures import short_count
from app.tui.chat.follower import Following
from app.tui.chat.story import Story, target_of
from app.tui.transcript.entry import Entry

OLDER_ITEMS, MANY_ITEMS = 200, 2000
"""Items of a page that is loaded, and of one on the way to an item."""


class Chat(Following):
    """A chat on one transcript. `changed` is told whenever its facts may differ.

    `session_id` is None for a chat that has no message yet; `ensure` makes its session, and `prepare`
    gives it the settings it begins with.
    """

    # ---- opening ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the session and follow it. FiresideError where it is not there."""
        if self._id is None:
            return
        snapshot = await self.manager.get(self._id)
        self.draft = self.kept_draft = snapshot.draft
        self.facts.title = snapshot.title or ""
        self.facts.status = snapshot.status
        self.facts.context_window = snapshot.context_window
        self.facts.model = snapshot.model_override
        self.has_older = snapshot.has_more_items
        self.story = Story(self.story.name)
        self.story.tell(snapshot.items)
        self.page.replace(self.story.entries)
        self.facts.questions = [Question.of(self._id, event) for event in snapshot.pending_elicitations]
        self._take_queue(snapshot.pending_inputs)
        self._start()
        await self._read_settings(self._id)
        self._changed("opened")

    async def ensure(self) -> str:
        """The session's id; makes the session where there is none yet."""
        async with self._making:
            if self._id is None:
                snapshot = await self.manager.create()
                if self._prepare is not None:
                    await self._prepare(self.manager, snapshot.id)
                self._id = snapshot.id
                self._start()
                await self._read_settings(self._id)
                self._changed("made")
            return self._id

    def _start(self) -> None:
        self._follow = asyncio.create_task(self._run(), name=f"chat {self._id}")

    async def _read_settings(self, session_id: str) -> None:
        settings = await self.manager.settings(session_id)
        self.facts.take_settings(settings)

    async def close(self) -> None:
        """No longer follow the session. It goes on where a reply is being written."""
        if self._follow is not None:
            self._follow.cancel()
            await asyncio.wait([self._follow])

    async def bring(self, item_id: str) -> None:
        """Load what is above until an item is there; one of another branch makes that the active one.

        FiresideError where it is gone, or where the branch cannot be changed now.
        """
        await self._load_up_to(item_id)
        if item_id not in self.story.items:
            await self.manager.select(item_id)
            await self._branched()
            await self._load_up_to(item_id)

    async def _load_up_to(self, item_id: str) -> None:
        while self.has_older and item_id not in self.story.items:
            await self.load_older(MANY_ITEMS)

    async def load_older(self, limit: int = OLDER_ITEMS) -> int:
        """Put a page of older items above; how many entries came."""
        if not self.has_older or self._id is None:
            return 0
        known = next(iter(self.story.items), None)
        items = await self.manager.list_items(self._id, limit=limit, after=known, order="desc")
        self.has_older = len(items) == limit
        older = Story(self.story.name)
        older.tell(reversed(items))
        self.story.entries[:0] = older.entries
        self.story.items = {**older.items, **self.story.items}
        self.story.calls = {**older.calls, **self.story.calls}
        self.story.names = {**older.names, **self.story.names}
        self.page.replace(self.story.entries, keep_place=True)
        return len(older.entries)

    # ---- what a person does ----------------------------------------------------------------

    async def send(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Post a message; it waits where a reply is being written. Durable on return."""
        session_id = await self.ensure()
        self._dismiss_error()
        await self.manager.post_event(session_id, {"type": "message", "data": {"content": list(blocks)}})

    async def stop(self) -> None:
        """Stop the reply; what was shown of it is kept."""
        if self._id is not None:
            self._stopped = self._reply
            self._changed("stopping")
            await self.manager.interrupt(self._id)

    async def answer(self, question: Question, action: str, content: Mapping[str, Any]) -> None:
        """Answer an open question."""
        result = {"action": action, "content": dict(content)}
        call = self.story.calls.get(question.call_id)
        if call is not None and action == "accept" and "arguments" in content:
            # The screen shows both: what the model wrote, and what runs.
            call.approved_arguments = json.dumps(content["arguments"], ensure_ascii=False)
            call.target = target_of(call.approved_arguments)
            self.page.changed(call)
        await self.manager.resolve_elicitation(question.session_id, question.id, result)

    async def retry(self, response_id: str | None = None, n: int = 1) -> None:
        """Answer again. Without an answer yet, the last message is answered."""
        response_id = response_id or self.last_response
        self._dismiss_error()
        if response_id is not None:
            await self.manager.retry(response_id, n)
            return
        last = self.last_message("user")
        if last is not None:
            await self.manager.edit(last.id, last.content)

    async def go_on(self) -> None:
        """Go on with the last reply where it was cut off or stopped."""
        if self.last_response is not None:
            await self.manager.continue_reply(self.last_response)

    async def variant(self, step: int, item: Item | None = None) -> tuple[int, int] | None:
        """Show the variant before or after a message of the person, else the last reply, else what that
        answers; its number and how many there are."""
        others = await self.variants(item)
        place = next((index for index, one in enumerate(others) if one["active"]), None)
        if place is None:
            return None
        place = (place + step) % len(others)
        await self.manager.select(str(others[place]["item_id"]))
        return place + 1, len(others)

    def item_of(self, entry: Entry) -> Item | None:
        """The item that an entry shows."""
        return self.story.items.get(entry.id)

    # ---- for panes and screens -------------------------------------------------------------

    def search(self, query: str) -> int:
        return self.page.transcript.find(query)

    def reveal(self, item_id: str, query: str = "") -> None:
        item = self.story.items.get(item_id)
        call = self.story.calls.get(item.call_id) if isinstance(item, FunctionCallOutput) else None
        entry = call or next((one for one in self.story.entries if one.id == item_id), None)
        if entry is None:
            return
        if not query or not self.page.transcript.find(query, near=entry, words=True):
            self.page.transcript.jump_to(entry)

    async def keep_draft(self, text: str) -> None:
        """Have the store keep what is being written."""
        await self.manager.set_draft(await self.ensure(), text)
        self.kept_draft = text

    async def drop_if_empty(self) -> bool:
        """Leave nothing of a chat in which nothing was said and nothing is being written."""
        if self._id is None or self.story.items or self.facts.waiting or self.facts.running:
            return False
        if self.kept_draft.strip() or self.draft.strip() or self.attached:
            return False
        with contextlib.suppress(FiresideError):
            await self.manager.delete(self._id)
        return True

    def show_loading(self, fraction: float) -> None:
        """The model that a waiting reply needs is being loaded."""
        if self.facts.running and self._reply is not None and not self._reply.tokens:
            self._reply.show_loading(fraction)

    def model_loaded(self, name: str, window: int | None, *, changed: bool) -> None:
        """Another model answers from now on."""
        if self.facts.model is None:
            if changed:
                self.facts.context_tokens = None  # each model counts in its own way
            self.story.name = name
            self.facts.context_window = window or self.facts.context_window
        if self._reply is not None and not self._reply.ended and self._reply.name is not None:
            if not self._reply.tokens:
                self._reply.name.name = name
                self._reply.end_progress()
                self.page.changed(self._reply.name)
        elif changed and self.story.entries:
            size = f", context {short_count(window)}" if window else ""
            self.add_note(f"model changed to {name}{size}")
        elif self.story.entries and not changed:
            self.rename(name)

    def rename(self, name: str) -> None:
        """Tell the name of who answers beside the replies that were shown before it was known."""
        for row in self.story.names.values():
            if row.name == UNKNOWN:
                row.name = name
                self.page.changed(row)
