"""A person's own shell line (`!cmd`): run in the chat's folder, its output kept for the next message."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.terminal import sanitize

LIMIT_S = 120.0
MOST_BYTES = 16_384
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
    """Run a line with the person's shell, without input; `show` gets the output as it comes.

    It ends after `limit_s` seconds or when this is cancelled. Of very long output the middle is left out.
    """
    shell = os.environ.get("SHELL") or "/bin/sh"
    process = await asyncio.create_subprocess_exec(
        shell,
        "-c",
        line,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"},
    )
    kept = bytearray()
    assert process.stdout is not None
    note = ""
    try:
        async with asyncio.timeout(limit_s):
            while data := await process.stdout.read(READ_BYTES):
                kept += data
                if len(kept) > 8 * MOST_BYTES:
                    del kept[2 * MOST_BYTES : -2 * MOST_BYTES]
                show(clean(data.decode("utf-8", "replace")))
            await process.wait()
    except TimeoutError:
        note = f"\n[ended after {limit_s:.0f} s]"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    text = clean(kept.decode("utf-8", "replace"))
    short = shortened(text)
    return ShellResult(short + note, process.returncode or 0, short != text)


def clean(text: str) -> str:
    """Output without escape sequences, carriage returns and other controls."""
    return sanitize(_ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))


def shortened(text: str) -> str:
    """At most 16 kB; of longer output the beginning and the end."""
    if len(text) <= MOST_BYTES:
        return text
    half = MOST_BYTES // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"
