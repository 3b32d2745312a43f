"""Programs that a person runs from the chat: their editor, shell lines. The terminal is theirs meanwhile."""

from __future__ import annotations

import asyncio
import os
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from app.exits import ExitCode, Failure
from app.repl.console import Console
from app.tui.editor import keep, opened_elsewhere
from tools.printed import Printed

MOST_CHARS = 16_000
"""Of a shell line's output that go with the next message; all of it is kept in a file."""
MOST_BYTES = 32 << 20
SHELL_TIME_S = 120.0
POLL_S = 0.1
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


def memory_folder() -> Path | None:
    """A folder that lives in memory, where the system has one."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() and os.access(shared, os.W_OK) else None


@dataclass(frozen=True)
class ShellResult:
    """What a shell line printed, cut in the middle where it is long, how it ended, and where it led."""

    output: str
    code: int
    folder: Path
    line_count: int = 0
    """Lines that it printed; `output` may hold fewer."""
    whole: Path | None = None
    """The file with all of the output, where it was cut."""

    @property
    def is_stopped(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.code in (-signal.SIGINT, 128 + signal.SIGINT)

    @property
    def ended(self) -> str:
        """How it ended, as a sentence; "" for a good end."""
        if self.is_stopped:
            return "It was stopped by you."
        if self.code < 0:
            return f"It was ended by signal {-self.code}."
        return f"It failed with exit code {self.code}." if self.code else ""


async def run_shell(console: Console, line: str, folder: Path, *, private: bool) -> ShellResult:
    """Run a shell line as the person would, without input and for two minutes at most.

    `cd` alone changes the folder for the next ones.
    """
    verb, _, rest = line.partition(" ")
    if verb == "cd" and not any(sign in rest for sign in ";&|<>"):
        return _change_folder(rest.strip(), folder)
    with console.cooked():
        data, code = await asyncio.to_thread(_shell, line, folder)
    reading = Printed()
    text = reading.feed(data.decode("utf-8", "replace")) + reading.end()
    lines = reading.line_count
    if len(text) <= MOST_CHARS:
        return ShellResult(text, code, folder, lines)
    whole = _keep(data, private)
    where = f", the whole output is in {whole}" if whole else ""
    half = MOST_CHARS // 2
    note = f"\n[{len(text) - MOST_CHARS:,} characters left out{where}]\n"
    return ShellResult(text[:half] + note + text[-half:], code, folder, lines, whole)


def _change_folder(name: str, folder: Path) -> ShellResult:
    try:
        wanted = (folder / Path(name.strip("\"'") or "~").expanduser()).resolve()
        if not wanted.is_dir():
            return ShellResult(f"cd: there is no folder {wanted}\n", 1, folder, 1)
    except (OSError, RuntimeError, ValueError) as err:
        return ShellResult(f"cd: {err}\n", 1, folder, 1)
    return ShellResult(f"{wanted}\n", 0, wanted, 1)


def _shell(line: str, folder: Path) -> tuple[bytes, int]:
    """Ctrl-C is the command's: it ends that, not the chat."""
    shell = os.environ.get("SHELL") or "/bin/sh"
    if not folder.is_dir():
        return f"the folder {folder} is gone; `cd` leads to another one\n".encode(errors="replace"), 127
    try:
        process = subprocess.Popen(
            [shell, "-c", line],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as err:
        return f"{shell} cannot be started: {err.strerror}\n".encode(), 127
    deadline = threading.Timer(SHELL_TIME_S, process.kill)
    deadline.start()
    kept = bytearray()
    assert process.stdout is not None
    try:
        with process.stdout:
            # A program that goes on in the background holds the pipe open: it is not waited for.
            while _has_output(process.stdout.fileno(), process) and (
                data := os.read(process.stdout.fileno(), 65536)
            ):
                kept += data[: max(0, MOST_BYTES - len(kept))]
    finally:
        deadline.cancel()
    return bytes(kept), process.wait()


def _has_output(pipe: int, process: subprocess.Popen[bytes]) -> bool:
    """Wait for output, or its end; False once the shell has ended and nothing comes any more."""
    while not select.select([pipe], [], [], POLL_S)[0]:
        if process.poll() is not None:
            return bool(select.select([pipe], [], [], 0)[0])
    return True


def _keep(data: bytes, private: bool) -> Path | None:
    folder = memory_folder() if private else None
    if private and folder is None:
        return None
    handle, name = tempfile.mkstemp(prefix="fireside-", suffix=".txt", dir=folder)
    with open(handle, "wb") as file:
        file.write(data)
    return Path(name)


def _failure(message: str, remedy: str = "") -> Failure:
    return Failure("outside", message, remedy=remedy, exit_code=ExitCode.FAILED)
