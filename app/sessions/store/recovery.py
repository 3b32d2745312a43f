"""After a crash: sessions that were running and whose process is gone are made whole again.

What was written of a reply is kept as an interrupted one, and every call gets its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.sessions.items import FunctionCall, FunctionCallOutput, Item, Message, output_text, reasoning_item
from app.sessions.store.rows import Change, Node, SessionRecord, Writing
from app.sessions.store.store import Store

LOST_CALL = (
    "This call was cut off: Fireside ended while it was open. It may have run in part; look before "
    "you call it again."
)
UNFINISHED = ("running", "launching", "waiting")


async def recover(store: Store) -> list[str]:
    """Repair every session that nobody runs any more; returns their ids.

    Sessions whose lock another process holds are left alone.
    """
    unfinished = await store.sessions(statuses=UNFINISHED, limit=10_000)
    ids = {record.id for record in unfinished}
    ids.update(writing.session_id for writing in await store.writings())
    repaired: list[str] = []
    for session_id in sorted(ids):
        if store.locks.holds(session_id) and not store.private:
            continue
        if not store.locks.try_take(session_id):
            continue
        try:
            await recover_session(store, await store.session(session_id, deleted=True))
            repaired.append(session_id)
        finally:
            store.locks.release(session_id)
    return repaired


async def recover_session(store: Store, record: SessionRecord) -> None:
    """Repair one session, whose lock must be held."""
    writings = await store.writings(record.id)
    for writing in writings:
        await _keep_writing(store, record, writing)
        record = await store.session(record.id, deleted=True)
    if not writings and record.status not in UNFINISHED:
        return
    nodes = await store.tree(record.id)
    for leaf, calls in _open_calls(nodes):
        change = Change(
            items=[lost_result(call) for call in calls],
            parent=leaf,
            move_leaf=leaf == record.leaf_id,
            settled=[replace(call, status="incomplete") for call in calls],
            uses=False,
        )
        await store.apply(record.id, change)
    if record.status in UNFINISHED:
        # A one-shot's question counts as used when it is answered; this one never was.
        await store.apply(record.id, Change(fields={"status": "idle"}, uses=record.used == 0))


def kept_reply(writing: Writing) -> list[Item]:
    """What was written of a reply, as items."""
    items: list[Item] = []
    common: dict[str, Any] = {
        "response_id": writing.response_id,
        "status": "incomplete",
        "model": writing.agent,
    }
    if writing.reasoning:
        items.append(reasoning_item(writing.reasoning, interrupted=True, **common))
    content = (output_text(writing.text),) if writing.text else ()
    items.append(
        Message(
            role="assistant",
            agent=writing.agent,
            content=content,
            interrupted=True,
            finish="cancelled",
            **common,
        )
    )
    return items


def lost_result(call: FunctionCall, text: str = LOST_CALL) -> FunctionCallOutput:
    """The result that stands for one that never came."""
    return FunctionCallOutput(
        call_id=call.call_id, output=text, is_error=True, response_id=call.response_id, model=call.model
    )


async def _keep_writing(store: Store, record: SessionRecord, writing: Writing) -> None:
    on_path = record.leaf_id == writing.parent_id
    change = Change(
        items=kept_reply(writing),
        parent=writing.parent_id,
        move_leaf=on_path,
        written=[writing.response_id],
        uses=False,
    )
    await store.apply(record.id, change)


def _open_calls(nodes: Sequence[Node]) -> list[tuple[str, list[FunctionCall]]]:
    """For each end of a branch, the calls that have no result."""
    by_id = {node.item.id: node for node in nodes}
    parents = {node.parent_id for node in nodes}
    missing: list[tuple[str, list[FunctionCall]]] = []
    for node in nodes:
        if node.item.id in parents:
            continue
        done: set[str] = set()
        open_calls: list[FunctionCall] = []
        at: Node | None = node
        # Calls wait at the very end of a branch; past a message everything is settled.
        while at is not None and not isinstance(at.item, Message):
            match at.item:
                case FunctionCallOutput(call_id=call_id):
                    done.add(call_id)
                case FunctionCall() as call if call.call_id not in done:
                    open_calls.append(call)
                case _:
                    pass
            at = by_id.get(at.parent_id) if at.parent_id else None
        if open_calls:
            missing.append((node.item.id, open_calls[::-1]))
    return missing
