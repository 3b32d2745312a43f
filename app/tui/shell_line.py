"""A person's own shell line (`!cmd`): run in the chat's folder, its output kept for the next message."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.terminal.output import sanitize
from tools.printed import Printed

LIMIT_S = 120.0
MOST_BYTES = 16_384
MOST_SHOWN_BYTES = 16 * MOST_BYTES
GRACE_S = 1.0
"""For the last output, once the shell has ended: a program in the background may hold its pipe open."""
READ_BYTES = 4096


@dataclass(frozen=True)
class ShellResult:
    """What a line printed, as a terminal would leave it, and how it ended."""

    output: str
    code: int
    line_count: int = 0
    """Lines that it printed; `output` may hold fewer."""
    cut: bool = False


async def run_line(
    line: str, folder: Path, show: Callable[[str], None] = lambda text: None, *, limit_s: float = LIMIT_S
) -> ShellResult:
    """Run a line with the person's shell, without input; `show` gets the first 256 kB as they come.

    A carriage return at the beginning of a piece starts the open line again, from nothing. The line ends
    after `limit_s` seconds or when this is cancelled. Of very long output the middle is left out. OSError
    where it cannot be started.
    """
    shell = os.environ.get("SHELL") or "/bin/sh"
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"the folder {sanitize(str(folder))} is gone")
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
    except BaseException:
        output.close()
        raise
    finally:
        os.close(theirs)
    kept = _Kept(show)
    note = ""
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), output
    )
    reading = asyncio.create_task(kept.read(reader))
    try:
        async with asyncio.timeout(limit_s):
            await process.wait()
            await asyncio.wait([reading], timeout=GRACE_S)
    except TimeoutError:
        note = f"\n[ended after {limit_s:.0f} s]"
    finally:
        reading.cancel()
        pipe.close()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    output = kept.text
    return ShellResult(output + note, process.returncode or 0, kept.line_count, kept.is_cut)


class _Kept:
    """Output as it comes: what is shown of it at once, and in the end its beginning and its end."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._shown = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._printed = Printed()
        self._head, self._tail = "", ""
        self._chars = 0

    async def read(self, output: asyncio.StreamReader) -> None:
        while data := await output.read(READ_BYTES):
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
        return self._chars + len(self._printed.line) > MOST_BYTES

    @property
    def text(self) -> str:
        """At most 16 kB; of longer output the beginning and the end."""
        line, half = self._printed.line, MOST_BYTES // 2
        if not self.is_cut:
            return sanitize(self._head + line)
        left_out = self._chars + len(line) - 2 * half
        note = f"\n[... {left_out:,} characters left out ...]\n"
        return sanitize(f"{self._head[:half]}{note}{(self._tail + line)[-half:]}")

    def _keep(self, text: str) -> None:
        self._chars += len(text)
        if len(self._head) < MOST_BYTES:
            self._head += text[: MOST_BYTES - len(self._head)]
        self._tail = (self._tail + text)[-MOST_BYTES:]
