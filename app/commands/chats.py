"""Commands about chats: begin, list, open, copy, name, find, write out, read in."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.commands.face import Choice, Command, Completion, Face, words
from app.commands.shared import choose, cut, date, write_file
from app.exits import Failure
from app.frontend.find_chat import find
from app.terminal.output import squeezed

if TYPE_CHECKING:
    from app.sessions.archive import ExportFormat
    from app.sessions.snapshot import SessionSummary

LISTED = 200
SHOWN_ID_CHARS = 8
"""Enough to name a chat by."""
_FORMATS = {"jsonl": ".jsonl", "markdown": ".md", "html": ".html"}
_BY_SUFFIX = {".jsonl": "jsonl", ".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}


async def _new(face: Face, rest: str) -> None:
    await face.new_session()
    if rest:
        await face.manager.rename(await face.session(), rest)


async def _private(face: Face, rest: str) -> None:
    await face.new_session(private=True)
    face.say("Private chat: nothing is saved unless you /export it.")


async def _chats(face: Face, rest: str) -> None:
    if not rest and await face.screen("chats"):
        return
    await _resume(face, rest)


async def _resume(face: Face, rest: str) -> None:
    if rest:
        await face.open_session(await _named(face, rest))
        return
    listed = await _listed(face)
    if not listed:
        face.say("There are no chats yet. Your first message starts one.")
        return
    choices = [
        Choice(
            one.id,
            one.title or "(untitled)",
            f"{date(one.updated_at)}  {one.id.removeprefix('sess_')[:SHOWN_ID_CHARS]}",
        )
        for one in listed
    ]
    if (chosen := await choose(face, "Which chat?", choices)) is not None:
        await face.open_session(chosen)


async def _named(face: Face, name: str) -> str:
    """The id of the chat a person means: from a private chat one comes back to those that are kept."""
    if face.is_private:
        with contextlib.suppress(Failure):
            return (await find(face.manager, name)).id
    return (await find(face.kept, name)).id


async def _listed(face: Face) -> Sequence[SessionSummary]:
    own = await face.manager.list(LISTED)
    return [*own, *await face.kept.list(LISTED)] if face.is_private else own


async def _fork(face: Face, rest: str) -> None:
    if face.session_id is None:
        face.say("There is nothing to copy yet: this chat is empty.")
        return
    copy = await face.manager.fork(face.session_id, rest or None)
    await face.open_session(copy)
    face.say("This is a copy of the chat; the original is unchanged.")


async def _rename(face: Face, rest: str) -> None:
    title: str | None = rest
    if not rest:
        held = (await face.manager.get(await face.session(), include_items=False)).title
        title = await face.ask("Title", squeezed(held or ""))
    if title is None or not title.strip():
        return
    await face.manager.rename(await face.session(), title)
    face.say(f"This chat is now called {cut(title)}.")


async def _search(face: Face, rest: str) -> None:
    if await face.screen("search", rest):
        return
    rest = rest or await face.ask("Search for") or ""
    if not rest.strip():
        return
    hits = await face.manager.search(rest)
    if not hits:
        face.say(f"No matches for {cut(rest)}.")
        return
    choices = [
        Choice(
            str(hit["session_id"]),
            f"{hit['role'] or str(hit['type']).replace('_', ' ')}: {hit['preview']}",
            date(int(hit["created_at"])),
        )
        for hit in hits
    ]
    if (chosen := await choose(face, f"Found: {rest}", choices)) is not None:
        await face.open_session(chosen)


async def _delete(face: Face, rest: str) -> None:
    if face.session_id is None:
        face.say("There is nothing to delete: this chat is empty.")
        return
    await face.delete_session(face.session_id)


async def _undelete(face: Face, rest: str) -> None:
    gone = await face.manager.deleted()
    if not gone:
        face.say("No chat was deleted in the last 30 days.")
        return
    choices = [Choice(one.id, one.title or "(untitled)", date(one.updated_at)) for one in gone]
    chosen = gone[0].id if len(gone) == 1 else await choose(face, "Which chat should be restored?", choices)
    if chosen is not None:
        await face.manager.undelete(chosen)
        await face.open_session(chosen)


async def _pin(face: Face, rest: str) -> None:
    session_id = await face.session()
    pinned = (await face.manager.get(session_id, include_items=False)).pinned
    await face.manager.pin(session_id, not pinned)
    face.say("This chat is unpinned." if pinned else "This chat is pinned to the top of the list.")


async def _archive(face: Face, rest: str) -> None:
    if face.session_id is None:
        face.say("There is nothing to archive: this chat is empty.")
        return
    if face.is_private:
        face.say("A private chat is not saved, so it cannot be archived; /delete closes it.")
        return
    session_id = face.session_id
    await face.manager.archive(session_id)
    await face.new_session()
    face.say("The chat is archived; `fireside sessions list --all` shows it.")


async def _export(face: Face, rest: str) -> None:
    if face.session_id is None:
        face.say("There is nothing to export yet: this chat is empty.")
        return
    first, _, name = rest.partition(" ")
    if first not in _FORMATS:
        first, name = "", rest
    format = first or _BY_SUFFIX.get(Path(name).suffix.lower(), "markdown")
    if not name:
        stem = face.session_id.removeprefix("sess_")[:12]
        name = f"fireside-{stem}{_FORMATS[format]}"
    chosen: ExportFormat = format  # pyright: ignore[reportAssignmentType]  # one of the keys above
    text = await face.manager.export(face.session_id, chosen)
    if (target := await write_file(face, name, text)) is not None:
        face.say(f"Chat exported to {squeezed(str(target))}.")


async def _import(face: Face, rest: str) -> None:
    name = rest or await face.ask("File") or ""
    if not name.strip():
        return
    ids = await face.manager.import_(Path(name.strip()).expanduser())
    if not ids:
        face.say("That file contains no chats.")
    elif len(ids) == 1:
        await face.open_session(ids[0])
    else:
        face.say(f"{len(ids)} chats were read; /chats lists them.")


async def _complete_chats(face: Face, rest: str) -> Sequence[Completion]:
    wanted = rest.lower()
    return [
        Completion(one.id.removeprefix("sess_"), cut(one.title or "(untitled)", 60))
        for one in await _listed(face)
        if one.id.removeprefix("sess_").startswith(wanted) or (wanted and wanted in (one.title or "").lower())
    ]


COMMANDS = (
    Command("new", "/new [TITLE]", "start a new chat", _new, ("clear",), "ctrl+n"),
    Command("chats", "/chats", "list chats and open one", _chats, ("list",), "f2"),
    Command("resume", "/resume [ID]", "continue another chat", _resume, ("open",), complete=_complete_chats),
    Command("fork", "/fork [TITLE]", "continue in a copy of this chat", _fork),
    Command("rename", "/rename TITLE", "rename this chat", _rename, ("title",)),
    Command("pin", "/pin", "pin or unpin this chat", _pin),
    Command("archive", "/archive", "archive this chat", _archive),
    Command("delete", "/delete", "delete this chat; it can be restored for 30 days", _delete, ("rm",)),
    Command("undelete", "/undelete", "restore a deleted chat", _undelete),
    Command("search", "/search WORDS", "search all chats", _search, ("find",), "ctrl+f"),
    Command(
        "export",
        "/export [jsonl|markdown|html] [FILE]",
        "export this chat to a file",
        _export,
        complete=words("jsonl", "markdown", "html"),
    ),
    Command("import", "/import FILE", "import chats from Fireside, ChatGPT or llama.cpp", _import),
    Command("private", "/private", "start a chat that is not saved", _private),
)
