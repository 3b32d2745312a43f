"""The person's editor, run from the chat. The terminal is its meanwhile."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from app.exits import ExitCode, Failure
from app.frontend.memory_folder import memory_folder
from app.repl.console import Console
from app.tui.editor import keep, opened_elsewhere

_EDITORS = ("nano", "vim", "vi", "emacs")


async def edit(console: Console, text: str, suffix: str, *, private: bool) -> str | None:
    """`text` as the person left it in `$VISUAL` or `$EDITOR`; None where the editor failed.

    Failure where there is no editor, where it came back at once, and where a private text could only be
    edited on a disk.
    """
    command = _editor()
    folder = memory_folder() if private else None
    if private and folder is None:
        raise _failure(
            "An editor needs a file, and there is no in-memory folder for one here.",
            "Nothing of a private chat is written to disk.",
        )
    handle, name = tempfile.mkstemp(prefix="fireside-", suffix=suffix, dir=folder)
    file, is_kept = Path(name), False
    try:
        with open(handle, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(text)
        began = time.monotonic()
        with console.cooked():
            code = await asyncio.to_thread(_run, [*command, name])
        if code != 0:
            return None
        changed = file.read_text(encoding="utf-8-sig", errors="replace")
        if is_kept := opened_elsewhere(time.monotonic() - began, changed, text):
            raise _failure(keep(file, os.path.basename(command[0]), private=private))
        return changed
    finally:
        if not is_kept:
            file.unlink(missing_ok=True)


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, check=False).returncode
    except OSError as err:
        raise _failure(
            f"{command[0]} cannot be started: {err.strerror}.", "Set $EDITOR to another one."
        ) from err


def _editor() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        if chosen := os.environ.get(name, "").strip():
            try:
                command = shlex.split(chosen)
            except ValueError as err:
                raise _failure(f"${name} cannot be read: {err}.") from err
            if os.sep in command[0] and not os.path.isabs(command[0]):
                raise _failure(f"${name} names {command[0]}, a relative path.", "Give its full path.")
            return command
    for name in _EDITORS:
        if (found := shutil.which(name)) is not None:
            return [found]
    raise _failure("No editor was found.", "Set $EDITOR to the one you like.")


def _failure(message: str, remedy: str = "") -> Failure:
    return Failure("outside", message, remedy=remedy, exit_code=ExitCode.FAILED)
