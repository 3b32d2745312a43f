"""Keeping a one-shot's exchange as a chat, once its answer was shown, so that `-c` goes on from it.

Writes to the store alone: the session manager would more than double what keeping costs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.sessions.agents import DEFAULT_AGENT
from app.sessions.errors import FiresideError
from app.sessions.items import Item, Message, output_text, reasoning_item, title_of, user_message
from app.sessions.records import new_id
from app.sessions.rows import SessionRecord, Whole
from app.sessions.store import Store
from app.sinks import Reply
from app.store_question import makes_room
from app.terminal import notify


def keep(prompt: str, system: str | None, replies: Sequence[Reply]) -> str | None:
    """Save a question and its replies, each on a branch of its own; returns the chat's id.

    What cannot be saved is said on standard error and costs the answer nothing.
    """
    question = user_message(prompt)
    record = SessionRecord(
        id=new_id("sess"),
        agent={"name": DEFAULT_AGENT},
        title=title_of(question) or None,
        settings={"system": system} if system else {},
    )
    nodes: list[tuple[str | None, Item]] = [(None, question)]
    leaf = question.id
    for reply in replies:
        parent = question.id
        for item in _items(reply):
            nodes.append((parent, item))
            parent = item.id
        if leaf == question.id:
            leaf = parent
    error = _error_of_saving(record, nodes, leaf)
    if error is not None and makes_room(error, told=False):
        error = _error_of_saving(record, nodes, leaf)
    if error is not None:
        notify(f"this chat was not saved: {error}")
        return None
    return record.id


def _error_of_saving(
    record: SessionRecord, nodes: Sequence[tuple[str | None, Item]], leaf: str
) -> Exception | None:
    try:
        asyncio.run(_write(record, nodes, leaf))
    except (OSError, sqlite3.Error, FiresideError) as err:
        return err
    return None


async def _write(record: SessionRecord, nodes: Sequence[tuple[str | None, Item]], leaf: str) -> None:
    store = Store.default()
    try:
        await store.database.check()
        await store.add_whole([Whole(replace(record, leaf_id=leaf), nodes)])
    finally:
        await store.close()


def _items(reply: Reply) -> list[Item]:
    outcome = reply.outcome
    if not reply.text and not reply.reasoning and outcome is None:
        return []
    stopped = True if outcome is None else None
    common: dict[str, Any] = {"response_id": new_id("resp"), "model": DEFAULT_AGENT, "interrupted": stopped}
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
        **common,
    )
    return [*items, message]
