"""Keeping a one-shot's exchange as a chat, so that `-c` continues it: the question first, then the answer.

Writes to the store alone: the session manager would more than double what keeping costs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from app.frontend.store_question import makes_room
from app.oneshot.sinks import ReplySoFar
from app.sessions.agents import DEFAULT_AGENT
from app.sessions.errors import FiresideError
from app.sessions.items import Item, Message, output_text, reasoning_item, title_of, user_message
from app.sessions.records import new_id
from app.sessions.store.rows import SessionRecord, Whole
from app.sessions.store.store import Store
from app.terminal.output import notify

_GONE = ("store_moved", "not_found")
"""Codes of errors for a question that is not where it was saved: then the whole exchange is new."""
_Failed = (OSError, sqlite3.Error, FiresideError)


class KeptExchange:
    """One question, kept while it is answered, and its replies. Each method may run in another thread."""

    def __init__(self, prompt: str, system: str | None) -> None:
        self._question = user_message(prompt)
        self._record = SessionRecord(
            id=new_id("sess"),
            agent={"name": DEFAULT_AGENT},
            title=title_of(self._question) or None,
            settings={"system": system} if system else {},
        )
        self._store: Store | None = None
        """Open while the question is in it."""

    def begin(self) -> None:
        """Save the question. Where that fails nothing is told yet: `finish` tries once more."""
        store = None
        with suppress(*_Failed):
            store = Store.default()
            # Running, and locked: if this process dies the next one finds it like any chat that was cut off.
            store.locks.take(self._record.id)
            record = replace(self._record, status="running")
            asyncio.run(store.add_session(record, [self._question], uses=False))
            self._store, store = store, None
        if store is not None:
            asyncio.run(store.close())

    def finish(self, replies: Sequence[ReplySoFar], llm_model: str) -> str | None:
        """Save the replies, each on a branch of its own and with the model's name; returns the chat's id.

        What cannot be saved is said on standard error and costs the answer nothing.
        """
        branches = [_items(reply, llm_model) for reply in replies]
        error = (
            _error_of(self._answer(branches)) if self._store is not None else _error_of(self._add(branches))
        )
        if isinstance(error, FileNotFoundError) or getattr(error, "code", None) in _GONE:
            error = _error_of(self._add(branches))
        if error is not None and makes_room(error, told=False):
            error = _error_of(self._add(branches))
        if error is not None:
            notify(f"this chat was not saved: {error}")
            return None
        return self._record.id

    def drop(self) -> None:
        """Forget the question: nothing came of it, and it would fail again."""
        if self._store is not None:
            _error_of(self._drop(self._store))

    async def _answer(self, branches: Sequence[Sequence[Item]]) -> None:
        """Add the replies to the question that is in the store."""
        assert self._store is not None
        store, self._store = self._store, None
        try:
            await store.database.check()
            await store.add_replies(self._record.id, self._question.id, branches)
        finally:
            store.locks.forget(self._record.id)
            await store.close()

    async def _add(self, branches: Sequence[Sequence[Item]]) -> None:
        """Save the whole exchange."""
        nodes: list[tuple[str | None, Item]] = [(None, self._question)]
        for branch in branches:
            parents = [self._question.id, *(item.id for item in branch)]
            nodes += zip(parents, branch, strict=False)
        leaf = next((branch[-1].id for branch in branches if branch), self._question.id)
        store = Store.default()
        try:
            await store.database.check()
            await store.add_whole([Whole(replace(self._record, leaf_id=leaf), nodes)])
        finally:
            await store.close()

    async def _drop(self, store: Store) -> None:
        try:
            await store.remove(self._record.id)
        finally:
            store.locks.forget(self._record.id)
            await store.close()


def keep(prompt: str, system: str | None, replies: Sequence[ReplySoFar], llm_model: str) -> str | None:
    """Save a whole exchange of which nothing is kept yet, as `KeptExchange.finish` does."""
    return KeptExchange(prompt, system).finish(replies, llm_model)


def _error_of(work: Coroutine[Any, Any, None]) -> Exception | None:
    try:
        asyncio.run(work)
    except _Failed as err:
        return err
    return None


def _items(reply: ReplySoFar, llm_model: str) -> list[Item]:
    outcome = reply.outcome
    if not reply.text and not reply.reasoning and outcome is None:
        return []
    stopped = True if outcome is None else None
    common: dict[str, Any] = {
        "response_id": new_id("resp"),
        "model": DEFAULT_AGENT,
        "llm_model": llm_model or None,
        "interrupted": stopped,
    }
    items: list[Item] = []
    if reply.reasoning:
        items.append(reasoning_item(reply.reasoning, **common))
    finish = "cancelled" if outcome is None else outcome.finish
    message = Message(
        role="assistant",
        agent=DEFAULT_AGENT,
        content=(output_text(reply.text),) if reply.text else (),
        status="incomplete" if stopped or finish == "length" else "completed",
        finish=finish,
        schema_errors=(outcome and outcome.schema_errors) or None,
        **common,
    )
    return [*items, message]
