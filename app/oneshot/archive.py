"""Keeping a one-shot's exchange as a chat, so that `-c` continues it: the answer beside its question.

Writes to the store alone: the session manager would more than double what keeping costs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any

from app.frontend.store_question import makes_room
from app.oneshot.sinks import ReplySoFar
from app.sessions.agents import DEFAULT_AGENT
from app.sessions.errors import FiresideError
from app.sessions.items import Item, Message, output_text, reasoning_item
from app.sessions.records import new_id
from app.sessions.store.asked import Asked, AskedFile
from app.sessions.store.rows import Whole
from app.sessions.store.store import Store
from app.terminal.output import notify

_Failed = (OSError, sqlite3.Error, FiresideError)


class KeptExchange:
    """One question and its replies, kept as a chat. `file` is there where the question lies in it already."""

    def __init__(self, asked: Asked, file: AskedFile | None = None) -> None:
        self._asked, self._file = asked, file

    def finish(self, replies: Sequence[ReplySoFar], llm_model: str) -> str | None:
        """Save the replies, each on a branch of its own and with the model's name; returns the chat's id.

        What cannot be saved is said on standard error and costs the answer nothing.
        """
        branches = [_items(reply, llm_model) for reply in replies]
        error = _error_of(self._save(branches))
        if error is not None and makes_room(error, told=False):
            error = _error_of(self._save(branches))
        self._let_go()
        if error is not None:
            notify(f"this chat was not saved: {error}")
            return None
        if self._file is not None:
            self._file.remove()
        return self._asked.session_id

    def drop(self) -> None:
        """Forget the question: nothing came of it, and it would fail again."""
        if self._file is not None and not self._file.remove():
            _error_of(self._remove())
        self._let_go()

    async def _save(self, branches: Sequence[Sequence[Item]]) -> None:
        """Add the replies to the question, which is in the store once that is open; without it, the whole."""
        store = Store.default()
        try:
            await store.database.check()
            try:
                await store.add_replies(self._asked.session_id, self._asked.item_id, branches)
            except FiresideError as err:
                if err.status_code != 404:
                    raise
                await store.add_whole([self._whole(branches)])
        finally:
            await store.close()

    def _whole(self, branches: Sequence[Sequence[Item]]) -> Whole:
        question = self._asked.message()
        nodes: list[tuple[str | None, Item]] = [(None, question)]
        for branch in branches:
            parents = [question.id, *(item.id for item in branch)]
            nodes += zip(parents, branch, strict=False)
        leaf = next((branch[-1].id for branch in branches if branch), question.id)
        return Whole(replace(self._asked.record(), leaf_id=leaf), nodes)

    async def _remove(self) -> None:
        store = Store.default()
        try:
            await store.remove(self._asked.session_id)
        finally:
            await store.close()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.locks.forget(self._asked.session_id)


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
