"""Operations on the tree of a session: edit, retry, continue, choose a branch, fork, the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.sessions.agents import DEFAULT_AGENT, Agent
from app.sessions.errors import ConflictError, FiresideError, InvalidInputError, not_found, wrapped
from app.sessions.inputs import posted_message
from app.sessions.items import (
    Compaction,
    Item,
    Message,
    Reasoning,
    output_text,
    reasoning_item,
    title_of,
)
from app.sessions.open_sessions import Workplace
from app.sessions.records import Json, new_id
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.turn.live import LiveSession
from backend.types import BackendError

MAX_VARIANTS = 8


class TreeOperations(Workplace):
    """The part of the session manager that makes and chooses branches. Nothing is overwritten."""

    async def edit(self, item_id: str, content: str | Sequence[Mapping[str, Any]]) -> str:
        """Put another message in place of a person's, on a new branch, and answer it.

        Returns the new item's id; the response's id comes with `session.input.consumed`.
        """
        live = await self.of_item(item_id)
        async with live.writing():
            live.refuse_if_busy()
            node = await self.store.node(item_id)
            if not isinstance(node.item, Message) or node.item.role != "user":
                raise InvalidInputError("Only a message of the user can be edited.")
            message = await live.admit(posted_message(content))
            await live.branch_to(node.parent_id, node.parent_id)
            await live.begin([message])
            return message.id

    async def retry(self, response_id: str, n: int = 1) -> list[str]:
        """Answer anew, `n` times at once on branches of their own; returns the new response ids."""
        if not 1 <= n <= MAX_VARIANTS:
            raise InvalidInputError(f"A reply can be regenerated 1 to {MAX_VARIANTS} times at once, not {n}.")
        live = await self.of_response(response_id)
        async with live.writing():
            live.refuse_if_busy()
            nodes = await self.store.response(response_id)
            tip = nodes[0].parent_id
            if tip is None:
                raise InvalidInputError("There is no message that this reply answers.")
            return await live.rerun(tip, n=n)

    async def continue_reply(self, response_id: str) -> str:
        """Go on with a reply that was cut off or stopped; returns the new response's id."""
        live = await self.of_response(response_id)
        async with live.writing():
            live.refuse_if_busy()
            last = (await self.store.response(response_id))[-1]
            if not isinstance(last.item, Message) or last.item.role != "assistant":
                raise InvalidInputError("That reply ends with a call, not with text that could be continued.")
            return (await live.rerun(last.parent_id, continued=last.item))[0]

    async def continue_from(self, item_id: str, token_index: int, token_id: int) -> str:
        """Write a reply again from one of its tokens on, with another token in its place.

        The message must have been written with `logprobs`. Returns the new response's id.
        """
        live = await self.of_item(item_id)
        async with live.writing():
            live.refuse_if_busy()
            node = await self.store.node(item_id)
            message = node.item
            if not isinstance(message, Message) or not message.tokens:
                raise InvalidInputError("That message has no recorded tokens; set logprobs to record them.")
            if not 0 <= token_index < len(message.tokens):
                raise InvalidInputError(f"The message has tokens 0 to {len(message.tokens) - 1}.")
            async with self._lease.use(live.settings.model, lambda fraction: None) as engine:
                try:
                    chosen = await engine.detokenize([token_id])
                except BackendError as err:
                    raise wrapped(err) from err
            start = _rewritten(message, token_index, token_id, chosen)
            return (await live.rerun(node.parent_id, continued=start))[0]

    async def select(self, item_id: str) -> str:
        """Make the newest branch through an item the active one; returns its last item's id."""
        live = await self.of_item(item_id)
        async with live.writing():
            leaf = await self.store.newest_leaf(item_id)
            for turn in live.turns.values():
                # A running turn has gone on since.
                if any(item.id == leaf for item in turn.items):
                    leaf = turn.tip or leaf
            await live.branch_to(item_id, leaf)
            return leaf

    async def rewind(self, session_id: str, item_id: str | None) -> None:
        """End the active path at an item (None: before the first); what came after it stays a branch."""
        live = await self.live(session_id)
        async with live.writing():
            live.refuse_if_busy()
            path = await self.store.branch(live.record.leaf_id)
            if item_id is not None and all(item.id != item_id for item in path):
                raise not_found("message", item_id)
            await live.branch_to(item_id, item_id)

    async def siblings(self, item_id: str) -> list[Json]:
        """The alternatives to an item, oldest first: `item_id`, `response_id`, `active`.

        For an item inside a reply these are the other replies to the same message.
        """
        live = await self.of_item(item_id)
        node = await self.store.node(item_id)
        if node.item.response_id is not None:
            node = (await self.store.response(node.item.response_id))[0]
        record = await self.record(live.id)
        path = {item.id for item in await self.store.branch(record.leaf_id)}
        return [
            {"item_id": item.id, "response_id": item.response_id, "active": item.id in path}
            for item in await self.store.children(node.parent_id, live.id)
        ]

    async def resplit(self, item_id: str, reasoning_end: int) -> str:
        """Divide a reply anew into thought and answer, on a new branch; returns the new message's id.

        `reasoning_end` counts characters of the thought and the text together.
        """
        live = await self.of_item(item_id)
        async with live.writing():
            live.refuse_if_busy()
            path = await self.store.branch(live.record.leaf_id)
            place = next((index for index, item in enumerate(path) if item.id == item_id), None)
            message = None if place is None else path[place]
            if place is None or not isinstance(message, Message) or message.role != "assistant":
                raise InvalidInputError("Only a reply on the active path can be split again.")
            before = path[place - 1] if place else None
            start = place - 1 if isinstance(before, Reasoning) else place
            held = before.text if isinstance(before, Reasoning) else ""
            if not 0 <= reasoning_end <= len(held) + len(message.text):
                raise InvalidInputError(f"The reply has {len(held) + len(message.text)} characters.")
            thought, text = _divided(held, message.text, reasoning_end)
            items: list[Item] = []
            if thought:
                items.append(reasoning_item(thought, response_id=message.response_id))
            content = (output_text(text),) if text else ()
            items.append(replace(message, content=content, tokens=None))
            divided_at = len(items) - 1
            items = copies([*items, *path[place + 1 :]])
            divided = items[divided_at]
            parent = path[start - 1].id if start else None
            await live.update(Change(items=items, parent=parent))
            await live.branch_to(divided.id, items[-1].id)
            return divided.id

    async def fork(
        self, session_id: str, title: str | None = None, up_to_response_id: str | None = None
    ) -> str:
        """An idle copy of the active path in a new session; returns its id.

        400 for a sub-agent's session and for a response that is not on the path.
        """
        record = await self.record(session_id)
        if record.parent_id is not None:
            raise InvalidInputError("A sub-agent's session cannot be forked.")
        path = await self.store.branch(record.leaf_id)
        if up_to_response_id is not None:
            places = [index for index, item in enumerate(path) if item.response_id == up_to_response_id]
            if not places:
                raise InvalidInputError(f"The active path has no response {up_to_response_id[:80]!r}.")
            path = path[: places[-1] + 1]
        copy = SessionRecord(
            id=new_id("sess"),
            agent=record.agent,
            title=title or record.title,
            labels=record.labels,
            settings=record.settings,
            # A copy of a chat that runs may end in open calls, which recovery closes.
            status="running",
        )
        names = await self.files.copy(record.id, copy.id)
        await self.store.add_session(copy, [_renamed(item, names) for item in copies(path)])
        live = await self.live(copy.id)
        async with live.writing():
            return copy.id

    async def conversation_of(self, response_id: str) -> tuple[str, list[Item]]:
        """The session of a response, and what was said up to its end. 404 where there is none."""
        node = (await self.store.response(response_id))[-1]
        record = await self.store.session(node.session_id)
        return record.id, await self.store.branch(node.item.id)

    async def add_exchange(self, items: Sequence[Item], *, after: tuple[str, str] | None = None) -> str:
        """Keep what was said elsewhere: behind an item of a session, or as a new session; returns its id."""
        if after is None:
            titles = (title_of(item) for item in items if isinstance(item, Message) and item.role == "user")
            title = next(filter(None, titles), None)
            record = SessionRecord(id=new_id("sess"), agent=Agent(DEFAULT_AGENT).to_wire(), title=title)
            await self.store.add_session(record, items)
            return record.id
        session_id, parent = after
        live = await self.live(session_id)
        async with live.writing():
            live.refuse_if_busy()
            await live.update(Change(items=items, parent=parent))
        return session_id

    # ---- the queue -------------------------------------------------------------------------

    async def queue(self, session_id: str) -> list[Json]:
        """The messages that wait, oldest first."""
        return [item.to_wire() for item in await self.store.queued((await self.live(session_id)).id)]

    async def queue_edit(self, item_id: str, content: str | Sequence[Mapping[str, Any]]) -> None:
        """Change a waiting message. ConflictError once it was sent."""
        live, waiting = await self._waiting(item_id)
        message = replace(posted_message(content), id=item_id, created_at=waiting)
        await live.change_queue(item_id, await live.admit(message))

    async def queue_remove(self, item_id: str) -> None:
        """Take a waiting message back. ConflictError once it was sent."""
        live, _ = await self._waiting(item_id)
        await live.change_queue(item_id, None)

    async def _waiting(self, item_id: str) -> tuple[LiveSession, int]:
        for live in list(self._live.values()):
            for item in live.queue:
                if item.id == item_id:
                    return live, item.created_at
        session_id = await self.store.queued_in(item_id)
        if session_id is not None:
            return await self.live(session_id), 0
        try:
            await self.store.node(item_id)
        except FiresideError:
            raise not_found("message", item_id) from None
        raise ConflictError("That message has been sent already.")


def _divided(thought: str, text: str, at: int) -> tuple[str, str]:
    """Thought and text, divided anew; what moves over stands in lines of its own."""
    if at <= len(thought):
        return thought[:at], _joined(thought[at:], text).lstrip("\n")
    moved = at - len(thought)
    return _joined(thought, text[:moved]), text[moved:].lstrip("\n")


def _joined(before: str, after: str) -> str:
    touching = before and after and not before[-1].isspace() and not after[0].isspace()
    return f"{before}\n\n{after}" if touching else before + after


def _rewritten(message: Message, index: int, token_id: int, chosen: str) -> Message:
    """What is left of a reply before one of its tokens, with another token after it."""
    tokens = list(message.tokens or ())
    recorded = "".join(str(token["text"]) for token in tokens)
    # Of a reply that was continued only the later part may have been recorded.
    before = message.text.removesuffix(recorded) if message.text.endswith(recorded) else ""
    head = before + "".join(str(token["text"]) for token in tokens[:index])
    top = list(tokens[index].get("top") or ())
    known = {int(other[0]): float(other[2]) for other in top}
    least = min(known.values(), default=float(tokens[index]["logprob"]))
    token = {"id": token_id, "text": chosen, "logprob": known.get(token_id, least), "top": top}
    return replace(message, content=(output_text(head + chosen),), tokens=(*tokens[:index], token))


def copies(items: Sequence[Item]) -> list[Item]:
    """The same items and responses under new ids; what points inside them points to the copies."""
    ids: dict[str, str] = {}
    responses: dict[str, str] = {}
    copies: list[Item] = []
    for item in items:
        ids[item.id] = new_id(item.prefix)
        response = item.response_id
        if response is not None:
            # A response is found by its id alone, so no two may share one.
            response = responses.setdefault(response, new_id("resp"))
        copy = replace(item, id=ids[item.id], response_id=response)
        if isinstance(copy, Compaction):
            copy = replace(copy, last_item_id=ids.get(copy.last_item_id, copy.last_item_id))
        copies.append(copy)
    return copies


def _renamed(item: Item, names: Mapping[str, str]) -> Item:
    """An item whose attachments are those of the copy."""
    if not names or not isinstance(item, Message):
        return item
    blocks = [
        {**block, "file_id": names[block["file_id"]]} if block.get("file_id") in names else block
        for block in item.content
    ]
    return replace(item, content=tuple(blocks))
