"""A chat as it was read from an export: a tree with ids of its own, bounded, every call closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from app.sessions.agents import DEFAULT_AGENT
from app.sessions.errors import InvalidInputError
from app.sessions.items import FunctionCall, FunctionCallOutput, Item, Message
from app.sessions.records import Json, new_id, now
from app.sessions.store.recovery import lost_result

MAX_ITEMS = 200_000
MAX_OPEN_CALLS = 64
MAX_TITLE_CHARS = 200
NOT_HERE = "[This call was open when the chat was exported; it has no result.]"
_DAY_S = 24 * 3600


@dataclass
class ImportedSession:
    """A session as read, with ids of its own; `leaf` is the end of its active path."""

    title: str | None = None
    created_at: int = field(default_factory=now)
    updated_at: int = field(default_factory=now)
    agent: Json = field(default_factory=lambda: {"name": DEFAULT_AGENT})
    system: str | None = None
    leaf: str | None = None
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict[str, tuple[str, bytes]])
    _nodes: list[tuple[str | None, Item]] = field(default_factory=list[tuple[str | None, Item]])

    def add(self, parent: str | None, item: Item) -> str:
        """Put an item below another; returns its id. InvalidInputError where there are too many."""
        if len(self._nodes) >= MAX_ITEMS:
            raise InvalidInputError(f"The export contains a chat of more than {MAX_ITEMS:,} items.")
        self._nodes.append((parent, item))
        return item.id

    @property
    def size(self) -> int:
        """How many items it has."""
        return len(self._nodes)

    def nodes(self, files: Mapping[str, str]) -> list[tuple[str | None, Item]]:
        """The tree in writing order, with attachments under their new ids and every call closed.

        InvalidInputError where that takes too much.
        """
        return _Closing(self, files).nodes()


_Waiting: TypeAlias = tuple[tuple[str, FunctionCall], ...]
"""Calls without a result, each with the id that the export has for it: it may have one for several."""


class _Closing:
    """Gives every call a result, and leaves out results that nobody asked for."""

    def __init__(self, session: ImportedSession, files: Mapping[str, str]) -> None:
        self._session = session
        self._files = files
        self._read = session._nodes  # pyright: ignore[reportPrivateUsage]
        self._parents = {parent for parent, _ in self._read}
        self._open: dict[str | None, _Waiting] = {}
        """The calls that wait below an item, where there are any."""
        self._moved: dict[str, str | None] = {}
        self._kept: list[tuple[str | None, Item]] = []

    def nodes(self) -> list[tuple[str | None, Item]]:
        for wanted, item in self._read:
            parent = self._moved.get(wanted, wanted) if wanted is not None else None
            waiting = self._open.get(parent, ())
            match item:
                case FunctionCall():
                    wrote = item.call_id
                    taken = any(call.call_id == wrote for _, call in waiting)
                    item = replace(item, status="completed", call_id=new_id("call") if taken else wrote)
                    waiting = (*waiting, (wrote, item))
                    if len(waiting) > MAX_OPEN_CALLS:
                        raise InvalidInputError(
                            f"The export contains more than {MAX_OPEN_CALLS} calls that are open at once."
                        )
                case FunctionCallOutput():
                    answered = next((pair for pair in waiting if pair[0] == item.call_id), None)
                    if answered is None:
                        self._leave_out(item, parent)
                        continue
                    waiting = tuple(pair for pair in waiting if pair is not answered)
                    item = replace(item, call_id=answered[1].call_id)
                case _:
                    parent, waiting = self._close(parent, waiting), ()
            self._keep(parent, _attached(item, self._files))
            self._end(item, waiting)
        return self._kept

    def _leave_out(self, item: Item, parent: str | None) -> None:
        self._moved[item.id] = parent
        if self._session.leaf == item.id:
            self._session.leaf = parent

    def _end(self, item: Item, waiting: _Waiting) -> None:
        if item.id in self._parents:
            if waiting:
                self._open[item.id] = waiting
            return
        end = self._close(item.id, waiting)
        if self._session.leaf == item.id:
            self._session.leaf = end

    def _close(self, parent: str | None, waiting: _Waiting) -> str | None:
        """Put a result for each call below `parent`; returns the last of them."""
        for _, call in waiting:
            result = lost_result(call, NOT_HERE)
            self._keep(parent, result)
            parent = result.id
        return parent

    def _keep(self, parent: str | None, item: Item) -> None:
        if len(self._kept) >= MAX_ITEMS:
            raise InvalidInputError(f"The export contains a chat of more than {MAX_ITEMS:,} items.")
        self._kept.append((parent, item))


def _attached(item: Item, files: Mapping[str, str]) -> Item:
    if not isinstance(item, Message) or not any("file_id" in block for block in item.content):
        return item
    blocks = [
        {**block, "file_id": files.get(str(block["file_id"]), "file_gone")} if "file_id" in block else block
        for block in item.content
    ]
    return replace(item, content=tuple(blocks))


# ---- values from outside -------------------------------------------------------------------


def text_of(value: Any) -> str | None:
    """A text that is not empty, else None."""
    return value if isinstance(value, str) and value else None


def title_of(value: Any) -> str | None:
    """A title on one line, of the length that titles have."""
    return " ".join((text_of(value) or "").split())[:MAX_TITLE_CHARS].strip() or None


def id_of(value: Any) -> str | None:
    """What something is called: a text or a whole number, as a text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value)


def time_of(value: Any, *, scale: int = 1) -> int:
    """A time in whole seconds: what is no time, or has not come yet, is now."""
    latest = now()
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value / scale) if good and 0 < value <= (latest + _DAY_S) * scale else latest
