"""`fireside sessions ...`: the collection of chats, through the session manager. Starts no model."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from app.characters import clean_text
from app.cli.table import table
from app.clock import moment
from app.exits import ExitCode, Failure, usage
from app.frontend.find_chat import find
from app.frontend.store_question import makes_room
from app.open_stores import refuse
from app.sessions.archive import ExportFormat
from app.sessions.manager import SessionManager
from app.sessions.snapshot import SessionSummary
from app.sessions.store.store_file import DamagedStoreError
from app.terminal.confirm import agreed
from app.terminal.output import is_terminal, notify, one_line, prepare, sanitize
from backend.engines.scripted import ScriptedEngine

T = TypeVar("T")
_HEADINGS = ("ID", "CHANGED", "STATUS", "TITLE")
_ALL = 10_000


def show_all(*, limit: int, archived: bool, as_json: bool) -> ExitCode:
    """Print the chats, the last changed first."""

    async def work(manager: SessionManager) -> list[Any]:
        return await manager.list(limit, include_archived=archived)

    found = _with_manager(work)
    if as_json:
        print(json.dumps({"sessions": [one.to_wire() for one in found]}))
    elif found:
        rows = [(one.id, _date(one.updated_at), one.status, one.title or "-") for one in found]
        print("\n".join(table([_HEADINGS, *rows])))
    else:
        print('There are no chats yet. Start one with: fireside -p "..."')
    return ExitCode.ANSWERED


def recent(limit: int) -> list[SessionSummary]:
    """The chats, the last changed first."""

    async def work(manager: SessionManager) -> list[SessionSummary]:
        return await manager.list(limit)

    return _with_manager(work)


def changed_at(one: SessionSummary) -> str:
    """When a chat changed, as a list shows it."""
    return _date(one.updated_at)


def show(name: str, *, as_json: bool) -> ExitCode:
    """Print a chat's active path as text, or its snapshot with every item of that path."""

    async def work(manager: SessionManager) -> str:
        snapshot = await find(manager, name)
        if not as_json:
            return await manager.export(snapshot.id, "markdown")
        items = await manager.list_items(snapshot.id, limit=_ALL)
        fields = {**snapshot.to_wire(), "items": [item.to_wire() for item in items]}
        return json.dumps({**fields, "has_more_items": len(items) == _ALL})

    _write(_with_manager(work))
    return ExitCode.ANSWERED


def search(query: str, *, limit: int, as_json: bool) -> ExitCode:
    """Print what holds all words of `query`, newest first."""

    async def work(manager: SessionManager) -> list[dict[str, Any]]:
        return await manager.search(query, limit=limit)

    found = _with_manager(work)
    if as_json:
        print(json.dumps({"hits": found}))
        return ExitCode.ANSWERED
    for hit in found:
        who = hit["role"] or hit["type"].replace("_", " ")
        print(_line(f"{hit['session_id']}  {_date(hit['created_at'])}  {who}: {hit['preview']}"))
    if not found:
        notify("nothing was found")
    return ExitCode.ANSWERED


def export(name: str, *, format: str, output: str | None) -> ExitCode:
    """Write a chat to standard output, or to a file that only its owner reads.

    What is attached is no reading for a person: on a terminal it is named only.
    """
    with_files = output is not None or not is_terminal(sys.stdout)

    async def work(manager: SessionManager) -> tuple[str, int]:
        chosen: ExportFormat = format  # pyright: ignore[reportAssignmentType]  # checked by the manager
        session_id = (await find(manager, name)).id
        left_out = 0 if with_files or format == "markdown" else len(await manager.files.list(session_id))
        return await manager.export(session_id, chosen, with_files=with_files), left_out

    text, left_out = _with_manager(work)
    if output is None:
        _write(text)
        if left_out:
            notify(f"{_count(left_out, 'file')} of the chat cannot be shown here; -o FILE writes all of it")
        return ExitCode.ANSWERED
    try:
        refuse(output)
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(clean_text(text))
    except OSError as err:
        raise usage(f"{output} cannot be written: {err.strerror}.") from err
    return ExitCode.ANSWERED


def import_all(files: Sequence[str], *, as_json: bool) -> ExitCode:
    """Read exports of Fireside, ChatGPT or llama.cpp's web UI; prints the new ids."""

    async def work(manager: SessionManager) -> list[str]:
        return [new for file in files for new in await manager.import_(Path(file))]

    _print_ids(_with_manager(work), as_json=as_json)
    return ExitCode.ANSWERED


def fork(name: str, *, title: str | None, as_json: bool) -> ExitCode:
    """Copy a chat's active path into a new one; prints its id."""

    async def work(manager: SessionManager) -> list[str]:
        return [await manager.fork((await find(manager, name)).id, title)]

    _print_ids(_with_manager(work), as_json=as_json)
    return ExitCode.ANSWERED


def rename(name: str, title: str) -> ExitCode:
    """Give a chat another title."""

    async def work(manager: SessionManager) -> None:
        await manager.rename((await find(manager, name)).id, title)

    _with_manager(work)
    return ExitCode.ANSWERED


def remove(names: Sequence[str], *, yes: bool, undo: bool) -> ExitCode:
    """Put chats away for 30 days, after which they are gone; with `undo` take them back."""

    async def work(manager: SessionManager) -> None:
        if undo:
            for name in names:
                await manager.undelete(name)
            return
        found = [await find(manager, name) for name in names]
        titles = ", ".join(one_line(one.title or "") or one.id for one in found)
        if not yes and not agreed(f"Delete {titles}?"):
            raise Failure(
                "not_confirmed",
                "Nothing was deleted.",
                remedy="To agree beforehand, add --yes.",
                exit_code=ExitCode.FAILED,
            )
        for one in found:
            await manager.delete(one.id)
        notify("deleted; for 30 days it can be restored with: fireside sessions rm --undo ID")

    _with_manager(work)
    return ExitCode.ANSWERED


@asynccontextmanager
async def _manager() -> AsyncGenerator[SessionManager]:
    # An engine that is closed and never asked: loading the backend would take longer than the command.
    async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
        yield manager


def _with_manager(work: Callable[[SessionManager], Awaitable[T]]) -> T:
    async def inside() -> T:
        async with _manager() as manager:
            return await work(manager)

    try:
        return asyncio.run(inside())
    except DamagedStoreError as err:
        if not makes_room(err, told=False):
            raise
    return asyncio.run(inside())


def _print_ids(ids: Sequence[str], *, as_json: bool) -> None:
    print(json.dumps({"ids": list(ids)}) if as_json else "\n".join(ids))


def _write(text: str) -> None:
    """Text that Fireside did not write itself: without controls on a terminal, else as it is."""
    out = prepare(sys.stdout)
    out.write(sanitize(text) if is_terminal(sys.stdout) else clean_text(text))
    out.write("" if text.endswith("\n") else "\n")
    out.flush()


def _line(text: str) -> str:
    return one_line(text)


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def _date(seconds: int) -> str:
    return moment(seconds).strftime("%Y-%m-%d %H:%M")
