"""The tool that keeps short notes in a folder of Fireside's own, one file a note."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tools.builtin.search_files import entries
from tools.context import ToolContext
from tools.definition import Attempt, Effect, ToolError, tool
from tools.workspace import open_real_folder, read_real, remove_real, write_real

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,63}")
_MOST_BYTES = 65_536
_MOST_NOTES = 500


def _does(arguments: Mapping[str, Any]) -> frozenset[Effect]:
    return frozenset(("read",) if arguments.get("action") in ("list", "read") else ("write",))


def _must_be_note(attempt: Attempt) -> None:
    arguments = attempt.arguments
    if arguments["action"] != "list":
        _check_name(str(arguments.get("name", "")))
    _check_size(str(arguments.get("text", "")).encode("utf-8", "replace"))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ToolError("A note's name is 1 to 64 letters, digits, spaces, '-' or '_'.")


def _check_size(data: bytes) -> None:
    if len(data) > _MOST_BYTES:
        raise ToolError(
            f"A note may have at most {_MOST_BYTES:,} bytes, and this one would have {len(data):,}."
        )


@tool(does=("read", "write"), does_for=_does, check=_must_be_note)
def notes(
    context: ToolContext,
    action: Literal["list", "read", "write", "append", "delete"],
    name: str = "",
    text: str = "",
) -> str:
    """Keep notes that later chats can read.

    Args:
        action: What to do; list needs no name.
        name: The note: letters, digits, spaces, '-' and '_'.
        text: What to write or append.
    """
    if context.notes_folder is None:
        raise ToolError("This chat keeps no notes.")
    folder = Path(os.path.realpath(context.notes_folder.parent)) / context.notes_folder.name
    if action == "list":
        return "\n".join(_names(folder)) or "There are no notes."
    _check_name(name)
    path = folder / f"{name}.md"
    old = _read(path)
    if action in ("read", "delete") and old is None:
        raise ToolError(f"There is no note {name}. There are: {', '.join(_names(folder)) or 'none'}.")
    match action:
        case "read":
            return (old or b"").decode("utf-8", "replace")
        case "delete":
            remove_real(path)
            return f"Deleted the note {name}."
        case "write":
            _write(path, text.encode("utf-8", "replace"), folder)
        case "append":
            before = old + b"\n" if old and not old.endswith(b"\n") else old or b""
            _write(path, before + text.encode("utf-8", "replace"), folder)
    return f"Kept the note {name}."


def _names(folder: Path) -> list[str]:
    try:
        opened = open_real_folder(folder)
    except FileNotFoundError:
        return []
    try:
        return [entry.name.removesuffix(".md") for entry in entries(opened) if entry.name.endswith(".md")]
    finally:
        os.close(opened)


def _read(path: Path) -> bytes | None:
    try:
        return read_real(path, _MOST_BYTES)
    except FileNotFoundError:
        return None


def _write(path: Path, data: bytes, folder: Path) -> None:
    _check_size(data)
    names = _names(folder)
    if path.stem not in names and len(names) >= _MOST_NOTES:
        raise ToolError(f"There are {_MOST_NOTES} notes already; delete one first.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = open_real_folder(folder)
    try:
        os.fchmod(opened, 0o700)
    finally:
        os.close(opened)
    write_real(path, data, private=True)
