"""One open chat: its session, and what a person wishes of it. Decides nothing about conversations."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.frontend.call_words import target_of
from app.frontend.draft import Block, file_block, mentions
from app.frontend.modality import require_senses
from app.frontend.model_name import UNKNOWN
from app.frontend.question import Question
from app.sessions.errors import FiresideError
from app.sessions.inputs import posted_message
from app.sessions.items import Item
from app.tui.chat.follower import Follower
from app.tui.chat.view import ChatView

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.tui.transcript.view import Transcript

OLDER_ITEMS, MANY_ITEMS = 200, 2000
"""Items of a page that is loaded, and of one on the way to an item."""


class Chat:
    """A chat with a view on the one transcript. `changed` is told whenever its facts may differ.

    `session_id` is None for a chat that has no message yet; `ensure` makes its session, and `prepare`
    gives it the settings it begins with.
    """

    def __init__(
        self,
        manager: SessionManager | None,
        transcript: Transcript,
        changed: Callable[[str], None],
        *,
        session_id: str | None = None,
        private: bool = False,
        name: str = UNKNOWN,
        prepare: Callable[[SessionManager, str], Awaitable[None]] | None = None,
    ) -> None:
        self.view = ChatView(transcript, changed, name)
        self.facts = self.view.facts
        self.private = private
        self.draft = ""
        """What was being written when another chat took the screen."""
        self.kept_draft = ""
        """What the store has of it."""
        self.attached: list[dict[str, Any]] = []
        """Blocks that go with the next message."""
        self._manager = manager
        self._id: str | None = session_id
        self._changed = changed
        self._prepare = prepare
        self._making = asyncio.Lock()
        self._follower: Follower | None = None

    # ---- what it is ------------------------------------------------------------------------

    @property
    def manager(self) -> SessionManager:
        """The manager that holds this chat. RuntimeError in the program's first moments."""
        if self._manager is None:
            raise RuntimeError("The chats are still being opened.")
        return self._manager

    @manager.setter
    def manager(self, manager: SessionManager) -> None:
        self._manager = manager

    @property
    def id(self) -> str | None:
        return self._id

    @property
    def title(self) -> str:
        return self.facts.title

    @property
    def busy(self) -> bool:
        return self.view.busy

    # ---- opening ---------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the session and follow it. FiresideError where it is not there."""
        if self._id is None:
            return
        snapshot = await self.manager.get(self._id)
        self.draft = self.kept_draft = snapshot.draft
        self.facts.context_window = snapshot.context_window
        self.facts.model = snapshot.model_override
        self.view.read(snapshot)
        self.view.tell(snapshot.items)
        await self._follow(self._id, "opened")

    async def ensure(self) -> str:
        """The session's id; makes the session where there is none yet."""
        async with self._making:
            if self._id is None:
                snapshot = await self.manager.create()
                if self._prepare is not None:
                    await self._prepare(self.manager, snapshot.id)
                self._id = snapshot.id
                await self._follow(self._id, "made")
            return self._id

    async def _follow(self, session_id: str, what: str) -> None:
        self._follower = Follower(self.manager, session_id, self.view, self._changed)
        self._follower.start()
        self.facts.take_settings(await self.manager.settings(session_id))
        self._changed(what)

    async def close(self) -> None:
        """No longer follow the session. It goes on where a reply is being written."""
        if self._follower is not None:
            await self._follower.close()

    async def bring(self, item_id: str) -> None:
        """Load what is above until an item is there; one of another branch makes that the active one.

        FiresideError where it is gone, or where the branch cannot be changed now.
        """
        await self._load_up_to(item_id)
        if item_id not in self.view.story.items and self._follower is not None:
            await self.manager.select(item_id)
            await self._follower.branched()
            await self._load_up_to(item_id)

    async def _load_up_to(self, item_id: str) -> None:
        while self.view.has_older and item_id not in self.view.story.items:
            await self.load_older(MANY_ITEMS)

    async def load_older(self, limit: int = OLDER_ITEMS) -> int:
        """Put a page of older items above; how many entries came."""
        view = self.view
        if not view.has_older or self._id is None:
            return 0
        known = next(iter(view.story.items), None)
        items = await self.manager.list_items(self._id, limit=limit, after=known, order="desc")
        view.has_older = len(items) == limit
        return view.tell_above(items[::-1])

    # ---- what a person does ----------------------------------------------------------------

    async def post(self, draft: str, blocks: Sequence[Block], folder: Path, *, loading: bool = False) -> None:
        """Send a draft as a message, with all that is attached. Raises FiresideError or OSError; nothing is
        sent then.

        `blocks` are the draft's: its pastes may be gone by now. `draft` names files of `folder` to go along.
        While a model is `loading`, nobody knows what it can read.
        """
        self._changed("posting")
        named = list(mentions(draft, folder))
        require_senses(self.attached, named, self.manager.card, self.facts.model, loading=loading)
        attached = list(self.attached)
        if named:
            session_id = await self.ensure()
            for path in named:
                file = await self.manager.files.upload(session_id, path)
                attached.append(file_block(file.id, file.name, file.bytes, file.content_type))
        await self._send([*attached, *blocks])
        del self.attached[: len(attached) - len(named)]
        self.view.unsent = [line for line in self.view.unsent if line.live]

    async def _send(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        # It waits where a reply is being written, and is durable on return.
        session_id = await self.ensure()
        self.view.dismiss_error()
        await self.manager.post(session_id, posted_message(blocks))

    async def stop(self) -> None:
        """Stop the reply; what was shown of it is kept."""
        if self._id is not None:
            self.view.told_to_stop()
            self._changed("stopping")
            await self.manager.interrupt(self._id)

    async def answer(self, question: Question, action: str, content: Mapping[str, Any]) -> None:
        result = {"action": action, "content": dict(content)}
        call = self.view.story.calls.get(question.call_id)
        if call is not None and action == "accept" and "arguments" in content:
            # The screen shows both: what the model wrote, and what runs.
            call.approved_arguments = json.dumps(content["arguments"], ensure_ascii=False)
            call.target = target_of(content["arguments"])
            self.view.page.changed(call)
        await self.manager.resolve_elicitation(question.session_id, question.id, result)

    async def retry(self, response_id: str | None = None, n: int = 1) -> None:
        """Answer again. Without an answer yet, the last message is answered."""
        response_id = response_id or self.view.last_response
        self.view.dismiss_error()
        if response_id is not None:
            await self.manager.retry(response_id, n)
            return
        last = self.view.last_message("user")
        if last is not None:
            await self.manager.edit(last.id, last.content)

    async def variant(self, step: int, item: Item | None = None) -> tuple[int, int] | None:
        """Show the variant before or after a message of the person, else the last reply, else what that
        answers; its number and how many there are."""
        others = await self._follower.variants(item) if self._follower is not None else ()
        place = next((index for index, one in enumerate(others) if one["active"]), None)
        if place is None:
            return None
        place = (place + step) % len(others)
        await self.manager.select(str(others[place]["item_id"]))
        return place + 1, len(others)

    # ---- for panes and screens -------------------------------------------------------------

    def reveal(self, item_id: str, query: str = "") -> None:
        self.view.reveal(item_id, query)

    async def keep_draft(self, text: str) -> None:
        """Have the store keep what is being written, where that is another text. A private chat is not made
        for it, nor any for nothing."""
        if self._manager is None or text == self.kept_draft:
            return
        if self._id is None and (self.private or not text.strip()):
            return
        await self.manager.set_draft(await self.ensure(), text)
        self.kept_draft = text

    async def drop_if_empty(self) -> bool:
        """Leave nothing of a chat in which nothing was said and nothing is being written."""
        if self._id is None or self.view.story.items or self.facts.waiting or self.facts.running:
            return False
        if self.kept_draft.strip() or self.draft.strip() or self.attached:
            return False
        with contextlib.suppress(FiresideError):
            await self.manager.delete(self._id)
        return True
