"""A text in the person's own editor. A private one lies in memory only, or the editor is refused."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from app import paths
from app.terminal import sanitize

MEMORY_FOLDER = Path("/dev/shm")


class EditorError(Exception):
    """The editor cannot be used; the text says why."""


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The editor's argument list, by `VISUAL`, else `EDITOR`, else vi."""
    chosen = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    try:
        return shlex.split(chosen) or ["vi"]
    except ValueError:
        return [chosen]


def edit(text: str, suspended: Callable[[], AbstractContextManager[None]], *, private: bool = False) -> str:
    """`text` as the person left it. `suspended` gives the terminal to the editor. EditorError.

    Blocks until the editor ends: the screen is not ours meanwhile.
    """
    folder = _folder(private)
    try:
        handle, name = tempfile.mkstemp(prefix="message-", suffix=".md", dir=folder)
    except OSError as err:
        raise EditorError(f"No file for the editor could be made: {err.strerror or err}.") from err
    file = Path(name)
    try:
        with open(handle, "w", encoding="utf-8") as writing:
            writing.write(text)
        command = [*editor_command(), str(file)]
        try:
            with suspended():
                code = subprocess.run(command, check=False).returncode
        except OSError as err:
            raise EditorError(
                f"The editor {command[0]} could not be started: {err.strerror or err}. "
                f"VISUAL or EDITOR names another one."
            ) from err
        if code != 0:
            raise EditorError(f"The editor {command[0]} ended with {code}; the text is as it was.")
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
    finally:
        file.unlink(missing_ok=True)


def page(text: str, suspended: Callable[[], AbstractContextManager[None]]) -> None:
    """Show `text` in the pager that `PAGER` names, else less. EditorError where there is none."""
    try:
        command = shlex.split(os.environ.get("PAGER") or "less -R") or ["less"]
    except ValueError:
        command = ["less"]
    try:
        with suspended():
            subprocess.run(command, input=sanitize(text), text=True, errors="replace", check=False)
    except OSError as err:
        raise EditorError(f"The pager {command[0]} could not be started: {err.strerror or err}.") from err


def _folder(private: bool) -> Path:
    if not private:
        return paths.make_private_dir(paths.state_dir() / "drafts")
    if not (MEMORY_FOLDER.is_dir() and os.access(MEMORY_FOLDER, os.W_OK)):
        raise EditorError(
            "A private chat leaves nothing on a disk, and there is no folder in memory for the editor."
        )
    return MEMORY_FOLDER
