"""A person's own shell line (`!cmd`): run in the chat's folder, its output kept for the next message."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import errno
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.terminal import sanitize

LIMIT_S = 120.0
MOST_BYTES = 16_384
MOST_SHOWN_BYTES = 16 * MOST_BYTES
GRACE_S = 1.0
"""For the last output, once the shell has ended: a program in the background may hold its pipe open."""
READ_BYTES = 4096
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


@dataclass(frozen=True)
class ShellResult:
    """What a line printed, without colours and controls, and how it ended."""

    output: str
    code: int
    cut: bool = False


async def run_line(
    line: str, folder: Path, show: Callable[[str], None] = lambda text: None, *, limit_s: float = LIMIT_S
) -> ShellResult:
    """Run a line with the person's shell, without input; `show` gets the first 256 kB as they come.

    It ends after `limit_s` seconds or when this is cancelled. Of very long output the middle is left out.
    OSError where it cannot be started.
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
    kept = bytearray()
    note = ""
    reader = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), output
    )
    reading = asyncio.create_task(_read(reader, kept, show))
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
    text = clean(kept.decode("utf-8", "replace"))
    short = shortened(text)
    return ShellResult(short + note, process.returncode or 0, short != text)


async def _read(output: asyncio.StreamReader, kept: bytearray, show: Callable[[str], None]) -> None:
    decoder, shown = codecs.getincrementaldecoder("utf-8")("replace"), 0
    while data := await output.read(READ_BYTES):
        kept += data
        if len(kept) > 8 * MOST_BYTES:
            del kept[2 * MOST_BYTES : -2 * MOST_BYTES]
        if shown < MOST_SHOWN_BYTES:
            shown += len(data)
            show(clean(decoder.decode(data)) + ("\n[...]\n" if shown >= MOST_SHOWN_BYTES else ""))
        # Much output must not keep the keys waiting.
        await asyncio.sleep(0)


def clean(text: str) -> str:
    """Output without escape sequences, carriage returns and other controls."""
    return sanitize(_ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def shortened(text: str) -> str:
    """At most 16 kB; of longer output the beginning and the end."""
    if len(text) <= MOST_BYTES:
        return text
    half = MOST_BYTES // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"
