"""Chats of other programs: ChatGPT's export, and that of llama.cpp's web UI. Only their words are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from app.sessions.agents import DEFAULT_AGENT
from app.sessions.imported import ImportedSession, id_of, text_of, time_of, title_of
from app.sessions.items import Item, Message, output_text, reasoning_item, user_message
from app.sessions.records import Json


def foreign_session(entry: Json) -> ImportedSession | None:
    """The chat that an object of another program's export holds; None where it is none."""
    if isinstance(entry.get("mapping"), dict):
        return _chatgpt(entry)
    if isinstance(entry.get("messages"), list) and isinstance(entry.get("conv"), dict):
        return _llama(entry)
    return None


# ---- ChatGPT -------------------------------------------------------------------------------


def _chatgpt(entry: Json) -> ImportedSession:
    session = ImportedSession(
        title=title_of(entry.get("title")),
        created_at=time_of(entry.get("create_time")),
        updated_at=time_of(entry.get("update_time")),
    )
    mapping = cast(Json, entry["mapping"])

    def children(node: Json) -> list[str]:
        listed = node.get("children")
        if not isinstance(listed, list):
            return []
        return [name for name in map(id_of, cast("list[Any]", listed)) if name is not None]

    def item_of(node: Json) -> Item | None:
        message = node.get("message")
        return _chatgpt_message(cast(Json, message), session) if isinstance(message, dict) else None

    _walk(session, mapping, children, item_of, text_of(entry.get("current_node")))
    return session


def _chatgpt_message(message: Json, session: ImportedSession) -> Item | None:
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(content, dict):
        return None
    body = cast(Json, content)
    parts: Any = body.get("parts")
    if isinstance(parts, list):
        text = "\n".join(part for part in cast("list[Any]", parts) if isinstance(part, str))
    else:
        text = text_of(body.get("text")) or ""
    at = time_of(message.get("create_time"))
    role = cast(Json, author).get("role")
    if role == "system":
        if text.strip() and session.system is None:
            session.system = text
        return None
    return _spoken(role, text, at, thinks=body.get("content_type") in ("thoughts", "reasoning_recap"))


# ---- llama.cpp's web UI --------------------------------------------------------------------


def _llama(entry: Json) -> ImportedSession:
    conversation = cast(Json, entry["conv"])
    changed = conversation.get("lastModified")
    session = ImportedSession(
        title=title_of(conversation.get("name")),
        created_at=time_of(changed, scale=1000),
        updated_at=time_of(changed, scale=1000),
    )
    listed = cast("list[Any]", entry["messages"])
    mapping: Json = {}
    below: dict[str | None, list[str]] = {}
    for message in (cast(Json, item) for item in listed if isinstance(item, dict)):
        name, parent = id_of(message.get("id")), id_of(message.get("parent"))
        if name is None or name in mapping:
            continue
        mapping[name] = message
        below.setdefault(parent, []).append(name)

    def item_of(message: Json) -> Item | None:
        if message.get("type") == "root":
            return None
        text = text_of(message.get("content")) or ""
        if message.get("role") == "system":
            session.system = session.system or text
            return None
        return _spoken(message.get("role"), text, time_of(message.get("timestamp"), scale=1000))

    _walk(
        session,
        mapping,
        lambda node: below.get(id_of(node.get("id")), []),
        item_of,
        id_of(conversation.get("currNode")),
    )
    return session


# ---- both ----------------------------------------------------------------------------------


def _walk(
    session: ImportedSession,
    mapping: Json,
    children: Callable[[Json], list[str]],
    item_of: Callable[[Json], Item | None],
    current: str | None,
) -> None:
    """Take a foreign tree in, from its roots on; nodes without words are passed over.

    A node that several others claim is below the first; where they go round in a circle, it is cut.
    """
    roots = [
        name
        for name, node in mapping.items()
        if isinstance(node, dict) and id_of(cast(Json, node).get("parent")) not in mapping
    ]
    last: dict[str, str | None] = {}
    for start in (*roots, *mapping):
        if start in last:
            continue
        claimed = {start}
        above = id_of(cast(Json, mapping[start]).get("parent")) if isinstance(mapping[start], dict) else None
        todo: list[tuple[str, str | None]] = [(start, last.get(above or ""))]
        while todo:
            name, parent = todo.pop()
            node = mapping[name]
            item = item_of(cast(Json, node)) if isinstance(node, dict) else None
            last[name] = end = parent if item is None else session.add(parent, item)
            below = children(cast(Json, node)) if isinstance(node, dict) else []
            new = [one for one in dict.fromkeys(below) if one in mapping and one not in last]
            new = [one for one in new if one not in claimed]
            claimed.update(new)
            todo += [(child, end) for child in reversed(new)]
    ends = [end for end in last.values() if end is not None]
    session.leaf = last.get(current or "") or (ends[-1] if ends else None)


def _spoken(role: Any, text: str, at: int, *, thinks: bool = False) -> Item | None:
    if not text.strip():
        return None
    match role:
        case "user":
            return user_message(text, created_at=at)
        case "assistant" if thinks:
            return reasoning_item(text, created_at=at)
        case "assistant":
            return Message(role="assistant", agent=DEFAULT_AGENT, content=(output_text(text),), created_at=at)
        case _:
            return None
