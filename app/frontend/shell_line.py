"""A person's own shell line (`!cmd`): run in the chat's folder, its output kept for the next message."""

from __future__ import annotations

import asyncio
import atexit
import codecs
import contextlib
import errno
import io
import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.frontend.draft import Block, shell_block
from app.frontend.memory_folder import memory_folder
from app.terminal.output import sanitize
from tools.printed import Printed

LIMIT_S = 120.0
MOST_CHARS = 16_384
"""Of a line's output that go with the next message; all of it is kept in a file."""
MOST_SHOWN_BYTES = 16 * MOST_CHARS
MOST_KEPT_BYTES = 32 << 20
GRACE_S = 1.0
"""For a line that is asked to end, and for the last output: a program in the background may hold its pipe."""
READ_BYTES = 4096


@dataclass(frozen=True)
class ShellResult:
    """What a line printed, as a terminal would leave it and cut in the middle where it is long, how it
    ended, and where it led."""

    output: str
    code: int
    folder: Path
    """Where the next line is run."""
    line_count: int = 0
    """Lines that it printed; `output` may hold fewer."""
    is_cut: bool = False
    is_stopped: bool = False
    """Whether the person ended it."""
    limit_s: float | None = None
    """The time that it took too long for."""

    @property
    def ended(self) -> str:
        """How it ended, as a sentence; "" for a good end."""
        if self.is_stopped:
            return "It was stopped by you."
        if self.limit_s is not None:
            return f"It was ended after {self.limit_s:.0f} s."
        if self.code < 0:
            return f"It was ended by signal {-self.code}."
        return f"It failed with exit code {self.code}." if self.code else ""

    def block(self, line: str) -> Block:
        """What goes with the next message."""
        note = "\n[stopped]" if self.is_stopped else ""
        if self.limit_s is not None:
            note = f"\n[ended after {self.limit_s:.0f} s]"
        return shell_block(line, self.output + note, self.line_count)


async def run_line(
    line: str,
    folder: Path,
    show: Callable[[str], None] = lambda text: None,
    *,
    private: bool = False,
    stop: asyncio.Event | None = None,
    limit_s: float = LIMIT_S,
) -> ShellResult:
    """Run a line with the person's shell, without input; `show` gets the first 256 kB as they come.

    A carriage return at the beginning of a piece starts the open line again, from nothing. The line ends
    with all of its programs after `limit_s` seconds, as by Ctrl-C when `stop` is set, and at once when this
    is cancelled. Of very long output the middle is left out, and a file has the whole, in memory where it is
    `private`. `cd` alone changes the folder for the next lines. OSError where it cannot be started.
    """
    verb, _, rest = line.partition(" ")
    if verb == "cd" and not any(sign in rest for sign in ";&|<>"):
        result = _change_folder(rest.strip(), folder)
        show(result.output)
        return result
    process, output = await _start(line, folder)
    kept = _Kept(show)
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), output
    )
    stopping = asyncio.create_task((stop or asyncio.Event()).wait())
    ending = asyncio.create_task(process.wait())
    reading = asyncio.create_task(kept.read(reader))
    try:
        await asyncio.wait((ending, stopping), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        is_late = not ending.done() and not stopping.done()
        if not ending.done():
            _signal(process, signal.SIGTERM if is_late else signal.SIGINT)
            await asyncio.wait([ending], timeout=GRACE_S)
            _signal(process, signal.SIGKILL)
            await ending
        await asyncio.wait([reading], timeout=GRACE_S)
    finally:
        for task in (stopping, reading):
            task.cancel()
        pipe.close()
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
            await process.wait()
    code = process.returncode or 0
    is_stopped = stopping.done() and not stopping.cancelled()
    return ShellResult(
        await asyncio.to_thread(kept.text, private),
        code,
        folder,
        kept.line_count,
        kept.is_cut,
        is_stopped or code in (-signal.SIGINT, 128 + signal.SIGINT),
        limit_s if is_late else None,
    )


async def _start(line: str, folder: Path) -> tuple[asyncio.subprocess.Process, io.FileIO]:
    """The shell, in a session of its own, and the end of the pipe that it writes to."""
    if not folder.is_dir():
        told = f"the folder is gone, and `!cd` leads to another one: {sanitize(str(folder))}"
        raise FileNotFoundError(errno.ENOENT, told)
    shell = os.environ.get("SHELL") or "/bin/sh"
    ours, theirs = os.pipe()
    output = os.fdopen(ours, "rb", buffering=0)
    try:
        process = await asyncio.create_subprocess_exec(
            shell,
            "-c",
            line,
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=theirs,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"},
        )
    except OSError as err:
        output.close()
        raise OSError(err.errno, f"{sanitize(shell)} cannot be started: {err.strerror}") from err
    except BaseException:
        output.close()
        raise
    finally:
        os.close(theirs)
    return process, output


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """Tell the shell, and what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _change_folder(name: str, folder: Path) -> ShellResult:
    try:
        wanted = (folder / Path(name.strip("\"'") or "~").expanduser()).resolve()
        if wanted.is_dir():
            return ShellResult(sanitize(f"{wanted}\n"), 0, wanted, 1)
        told = f"there is no folder {wanted}"
    except (OSError, RuntimeError, ValueError) as err:
        told = str(err)
    return ShellResult(sanitize(f"cd: {told}\n"), 1, folder, 1)


class _Kept:
    """Output as it comes: what is shown of it at once, and in the end its beginning and its end."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown = 0
        self._whole = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._printed = Printed()
        self._head, self._tail = "", ""
        self._chars = 0

    async def read(self, output: asyncio.StreamReader) -> None:
        while data := await output.read(READ_BYTES):
            self._whole += data[: max(0, MOST_KEPT_BYTES - len(self._whole))]
            settled = self._printed.feed(self._decoder.decode(data))
            self._keep(settled)
            if self._shown < MOST_SHOWN_BYTES:
                self._shown += len(data)
                cut = "\n[...]\n" if self._shown >= MOST_SHOWN_BYTES else ""
                self._show(self._printed.told(settled) + cut)
            # Much output must not keep the keys waiting.
            await asyncio.sleep(0)

    @property
    def line_count(self) -> int:
        return self._printed.line_count

    @property
    def is_cut(self) -> bool:
        return self._chars + len(self._printed.line) > MOST_CHARS

    def text(self, private: bool) -> str:
        """At most 16 kB; of longer output the beginning and the end, and where the whole is."""
        line, half = self._printed.line, MOST_CHARS // 2
        if not self.is_cut:
            return sanitize(self._head + line)
        left_out = self._chars + len(line) - 2 * half
        file = self._in_file(private)
        where = f", the whole output is in {file}" if file else ""
        note = f"\n[{left_out:,} characters left out{where}]\n"
        return sanitize(f"{self._head[:half]}{note}{(self._tail + line)[-half:]}")

    def _in_file(self, private: bool) -> Path | None:
        """A file with all of it; that of a private chat lies in memory, and goes when we leave."""
        folder = memory_folder() if private else None
        if private and folder is None:
            return None
        try:
            handle, name = tempfile.mkstemp(prefix="fireside-", suffix=".txt", dir=folder)
            with open(handle, "wb") as file:
                file.write(self._whole)
        except OSError:
            return None
        if private:
            atexit.register(Path(name).unlink, missing_ok=True)
        return Path(name)

    def _keep(self, text: str) -> None:
        self._chars += len(text)
        if len(self._head) < MOST_CHARS:
            self._head += text[: MOST_CHARS - len(self._head)]
        self._tail = (self._tail + text)[-MOST_CHARS:]
