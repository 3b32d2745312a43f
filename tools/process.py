"""Subprocesses of tools: no input, an allow-listed environment, bounded time, memory and output.

Every command runs below `tools.supervise`, which ends its whole tree on cancel, on timeout and when
this process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tools.context import Cancellation, Limits
from tools.output import Capture, Captured

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_CHUNK = 65_536
_GRACE_S = 5.0
_ALLOWED = ("PATH", "HOME", "LANG", "TMPDIR", "USER", "VIRTUAL_ENV")
_LOCALE = frozenset(
    "LC_ALL LC_CTYPE LC_NUMERIC LC_TIME LC_COLLATE LC_MONETARY LC_MESSAGES LC_PAPER LC_NAME LC_ADDRESS "
    "LC_TELEPHONE LC_MEASUREMENT LC_IDENTIFICATION".split()
)
LONGEST_ARGUMENT = 131_071

End = Literal["exited", "timed_out", "cancelled", "too_much_output"]


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote to stdout and stderr, in the order it wrote it."""

    captured: Captured
    end: End
    exit_code: int | None = None
    """128 + n when a signal ended it; None unless `end` is "exited"."""


def tool_environment() -> dict[str, str]:
    """The variables a tool's process gets: none that hold secrets, and no relative folder in PATH."""
    found = {name: os.environ[name] for name in _ALLOWED if name in os.environ}
    found.update({name: value for name, value in os.environ.items() if name in _LOCALE})
    folders = [name for name in found.get("PATH", "").split(os.pathsep) if name.startswith("/")]
    found["PATH"] = os.pathsep.join(folders) or os.defpath.lstrip(":")
    return {**found, "TERM": "dumb"}


async def run_process(
    command: Sequence[str],
    *,
    folder: Path,
    limits: Limits,
    cancellation: Cancellation,
    output_folder: Path | None = None,
    on_output: Callable[[str], None] | None = None,
    pass_fds: Sequence[int] = (),
) -> Ended:
    """Run `command` in `folder` and wait until it and everything it started has ended.

    `pass_fds` are descriptors that the command gets. Raises ValueError for an argument that the system
    does not take, OSError when no process can be started. Being cancelled ends the process first.
    """
    if any("\0" in part or len(os.fsencode(part)) > LONGEST_ARGUMENT for part in command):
        raise ValueError("An argument of a command must be under 128 KiB and contain no zero byte.")
    supervisor = (sys.executable, "-I", "-S", str(_SUPERVISOR), str(limits.memory_bytes))
    process = await _started(
        asyncio.create_subprocess_exec(
            *supervisor,
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
            env=tool_environment(),
            start_new_session=True,
            pass_fds=pass_fds,
        )
    )
    capture = Capture(limits.output_bytes, folder=output_folder, kept_bytes=limits.kept_bytes, prints=True)
    run = _Run(process, capture, limits.kept_bytes, on_output)
    try:
        end = await run.until(limits.time_s, cancellation)
    except BaseException:
        capture.discard()
        raise
    finally:
        await asyncio.shield(run.end())
    return Ended(capture.finish(), end, process.returncode if end == "exited" else None)


async def _started(starting: Coroutine[Any, Any, asyncio.subprocess.Process]) -> asyncio.subprocess.Process:
    """The process, once it has started. Cancelled in between, asyncio would kill the supervisor alone, and
    wait for ever for the pipe that what it had started holds: so it starts, and is ended in good order."""
    task = asyncio.ensure_future(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(_end_started(task)))
        raise


async def _end_started(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    with contextlib.suppress(OSError, ValueError):
        process = await starting
        await _Run(process, Capture(0, folder=None, kept_bytes=0), 0, None).end()


class _Run:
    """One supervised process: reading what it writes and ending it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        capture: Capture,
        kept_bytes: int,
        on_output: Callable[[str], None] | None,
    ) -> None:
        self._process = process
        self._capture = capture
        self._kept_bytes = kept_bytes
        self._on_output = on_output
        self._reading = asyncio.create_task(self._read())

    async def until(self, time_s: float, cancellation: Cancellation) -> End:
        """Wait for the end of its output, for too much of it, for the limit or the cancellation."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        undo = cancellation.call(lambda: _wake(loop, stop))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((self._reading, stopped), timeout=time_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            undo()
            stopped.cancel()
        if self._reading.done():
            if not self._reading.result():
                return "too_much_output"
            await self._process.wait()
            return "exited"
        return "cancelled" if stop.is_set() else "timed_out"

    async def end(self) -> None:
        """Cut the lifeline and wait until the supervisor has ended everything."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._reading.done() and self._process.stdout is not None:
            self._reading = asyncio.create_task(_drain(self._process.stdout))
        try:
            await asyncio.wait_for(self._process.wait(), _GRACE_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
        await asyncio.wait((self._reading,), timeout=_GRACE_S)
        self._reading.cancel()

    async def _read(self) -> bool:
        """Take output until it ends; False when it was too much."""
        stream = self._process.stdout
        while stream is not None and (data := await stream.read(_CHUNK)):
            text = self._capture.write(data)
            if self._on_output is not None and text:
                self._on_output(text)
            if self._capture.size_bytes > self._kept_bytes:
                return False
        return True


async def _drain(stream: asyncio.StreamReader) -> bool:
    """Throw the rest away, so that ending processes do not hang on a full pipe."""
    while await stream.read(_CHUNK):
        pass
    return True


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        return
