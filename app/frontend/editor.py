"""A text in the person's own editor or pager, while everything else goes on.

A private text lies in memory only, or the editor is refused.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from app import paths
from app.characters import clean_text
from app.exits import ExitCode, Failure
from app.frontend.memory_folder import memory_folder
from app.terminal.output import sanitize

EDITORS = ("nano", "vim", "vi", "emacs")
"""What is looked for where a person named none: first what tells its own keys."""
AT_ONCE_S = 2.0
"""An editor that ends sooner, and changed nothing, has most likely opened a window of its own."""
GRACE_S = 2.0
"""How long a program that was asked to end may take."""

Lend = Callable[[], AbstractContextManager["tuple[int, int] | None"]]
"""Gives the terminal away while it is entered: the descriptors of a program's output and errors, where
they are others than 1 and 2."""


class EditorError(Failure):
    """The editor or pager cannot be used; the text says why."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__("editor", message, remedy=remedy, exit_code=ExitCode.FAILED)


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The editor's argument list, by `VISUAL`, else `EDITOR`, else one that is here. EditorError."""
    for name in ("VISUAL", "EDITOR"):
        if chosen := environ.get(name, "").strip():
            try:
                return shlex.split(chosen)
            except ValueError as err:
                raise EditorError(
                    f"{name} cannot be read: {err}.", "Set it to the command of an editor."
                ) from err
    for name in EDITORS:
        if shutil.which(name, path=environ.get("PATH")) is not None:
            return [name]
    raise EditorError("No editor was found.", "Set EDITOR to the one you like.")


async def edit(
    text: str, lend: Lend, *, private: bool = False, left: Callable[[str], None], suffix: str = ".md"
) -> str:
    """`text` as the person left it. EditorError where there is no editor, or where it failed.

    `left` is told what was saved by an editor that failed, or that had to end with this task.
    """
    command = editor_command()
    name = _require("editor", command[0], "Set VISUAL or EDITOR to another one.")
    is_kept = False
    folder = _folder(private)
    try:
        handle, path = tempfile.mkstemp(prefix="message-", suffix=suffix, dir=folder)
    except OSError as err:
        raise EditorError(f"No file for the editor could be made: {err.strerror or err}.") from err
    file, is_done = Path(path), False
    try:
        with open(handle, "w", encoding="utf-8") as writing:
            writing.write(clean_text(text))
        began = time.monotonic()
        try:
            code = await _run([*command, path], lend)
        except OSError as err:
            raise EditorError(
                f"The editor {name} could not be started: {err.strerror or err}. "
                f"Set VISUAL or EDITOR to another one."
            ) from err
        if code != 0:
            raise EditorError(f"The editor {name} {_ended(code)}; the text is unchanged.")
        is_done = True
        try:
            changed = _read(file)
            if is_kept := opened_elsewhere(time.monotonic() - began, changed, text):
                raise EditorError(keep(file, name, private=private))
            return changed
        except OSError as err:
            raise EditorError(
                f"The editor {name} left no file ({err.strerror or err}); the text is unchanged."
            ) from err
    finally:
        if not is_done and file.exists() and (saved := _read(file)) != text.rstrip("\n"):
            left(saved)
        if not is_kept:
            file.unlink(missing_ok=True)


def opened_elsewhere(seconds: float, after: str, before: str) -> bool:
    """Whether an editor that took so long, and left `after` of `before`, may still be open in a window."""
    return seconds < AT_ONCE_S and after.rstrip("\n") == before.rstrip("\n")


def keep(file: Path, name: str, *, private: bool) -> str:
    """What is told of an editor that came back at once; its file stays, a private one until we leave."""
    if private:
        atexit.register(file.unlink, missing_ok=True)
    return (
        f"The editor {name} came back at once and changed nothing. If its window is still open, it needs the "
        f"flag that makes it wait, as in EDITOR='code --wait'. What you save there is kept in {file}."
    )


async def page(text: str, lend: Lend, *, at_end: bool = False) -> None:
    """Show `text` in the pager that `PAGER` names, else less, which can begin at its end.

    EditorError where there is none.
    """
    try:
        command = shlex.split(os.environ.get("PAGER") or "less -R") or ["less"]
    except ValueError:
        command = ["less"]
    name = _require("pager", command[0], "Set PAGER to another one.")
    if at_end and name == "less":
        command.append("+G")
    try:
        await _run(command, lend, clean_text(sanitize(text)).encode())
    except OSError as err:
        raise EditorError(f"The pager {name} could not be started: {err.strerror or err}.") from err


async def _run(command: list[str], lend: Lend, fed: bytes | None = None) -> int:
    """Run a program in the terminal until it ends; its exit code, or minus the signal. OSError."""
    with lend() as outputs:
        out, err = outputs or (None, None)
        # In our own process group: what stops it at a key stops us too, and the shell has its prompt.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=None if fed is None else asyncio.subprocess.PIPE, stdout=out, stderr=err
        )
        try:
            await process.communicate(fed)
        finally:
            if process.returncode is None:
                await _end(process)
    return process.returncode or 0


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def _ended(code: int) -> str:
    if code > 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _require(kind: str, program: str, remedy: str) -> str:
    """The program's short name. Without the program the screen need not be left."""
    if os.sep in program and not os.path.isabs(program):
        raise EditorError(f"The {kind} {program} is a relative path: give its full path. {remedy}")
    if shutil.which(program) is None:
        raise EditorError(f"The {kind} {program} could not be started: no such program. {remedy}")
    return os.path.basename(program)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8-sig", errors="replace").rstrip("\n")


def _folder(private: bool) -> Path:
    if not private:
        return paths.make_private_dir(paths.state_dir() / "drafts")
    if (folder := memory_folder()) is None:
        raise EditorError(
            "The editor needs a file, and there is no in-memory folder for one here.",
            "Nothing of a private chat is written to disk.",
        )
    return folder
