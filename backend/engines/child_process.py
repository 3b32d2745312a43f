"""The engine's child process: its two pipes, and whoever waits for an answer of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, BinaryIO

from backend.engines import wire
from backend.types import EngineError

_CHILD = "import sys; sys.path[:] = {path!r}; from backend.engines.host_child import main; main({fds})"
_LOG_LIMIT_BYTES = 4 << 20


class ChildProcess:
    """The child, its two pipes, and whoever waits for an answer. Started off the event loop's thread."""

    def __init__(self, log: Path | None, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, Any] = {}
        self._streams: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        self._hello: asyncio.Future[None] = loop.create_future()
        self.loaded = False
        self.measured = False
        """Whether the residency was asked for since the context was built."""
        self.alive = True
        self.died_of_crash = False
        commands_read, commands_write = os.pipe()
        answers_read, answers_write = os.pipe()
        output = _open_log(log)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-u", "-c", _child_code(commands_read, answers_write)],
                pass_fds=(commands_read, answers_write),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                env={**os.environ, "GGML_NO_BACKTRACE": "1"},
            )
        finally:
            os.close(commands_read)
            os.close(answers_write)
            output.close()
        self.pid = self._process.pid
        self._commands: BinaryIO = os.fdopen(commands_write, "wb")
        self._write_lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="fireside-host-write")
        """One thread, so that a cancellation never overtakes the request it is for."""
        self._reader = threading.Thread(
            target=self._read, args=(os.fdopen(answers_read, "rb"),), name="fireside-host", daemon=True
        )
        self._reader.start()

    async def greeted(self) -> None:
        """Wait for the version handshake."""
        await self._hello

    async def ask(self, command: dict[str, Any], progress: Any = None) -> Any:
        """Send a command, wait for its answer, raise its error."""
        number = next(self._ids)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[number] = answer
        if progress:
            self._progress[number] = progress
        try:
            await self.send({**command, "re": number})
            return await answer
        finally:
            self._answers.pop(number, None)
            self._progress.pop(number, None)

    async def send(self, command: dict[str, Any]) -> None:
        """Write a command without holding up the event loop."""
        await asyncio.wrap_future(self._enqueue(command), loop=self._loop)

    def send_soon(self, command: dict[str, Any]) -> None:
        """Write a command behind those that are being written; a child that is gone needs none."""
        if self.alive:
            with contextlib.suppress(EngineError):
                self._enqueue(command)

    def _enqueue(self, command: dict[str, Any]) -> Future[None]:
        try:
            return self._writer.submit(self._write, wire.dumps(command))
        except RuntimeError as err:  # The reader saw the end, and the event loop has yet to hear of it.
            raise EngineError("The engine process has ended.", remedy="Send the message again.") from err

    def open_stream(self, request_id: str) -> asyncio.Queue[dict[str, Any]]:
        """Where the pieces of a request will arrive."""
        stream: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._streams[request_id] = stream
        return stream

    def close_stream(self, request_id: str) -> None:
        self._streams.pop(request_id, None)

    def stop(self) -> None:
        """Close the pipe, which ends the child; kill it when it does not."""
        self.alive = False
        with contextlib.suppress(OSError):
            self._commands.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join()

    def _write(self, line: bytes) -> None:
        try:
            with self._write_lock:
                self._commands.write(line)
                self._commands.flush()
        except (OSError, ValueError) as err:
            raise EngineError("The engine process has ended.", remedy="Send the message again.") from err

    def _read(self, answers: BinaryIO) -> None:
        """On the reader's thread: hand every line to the event loop."""
        with answers:
            for line in answers:
                try:
                    message = wire.loads(line)
                except Exception:  # Whoever waits must be told, so the child has to end.
                    self._process.kill()
                    break
                if not self._tell(lambda message=message: self._take(message)):
                    self._hang_up()  # Nobody waits any more: the child ends.
                    break
        self._writer.shutdown(wait=False)
        code = self._process.wait()
        self._hang_up()
        self._tell(lambda: self._ended(code))

    def _hang_up(self) -> None:
        with self._write_lock, contextlib.suppress(OSError):
            self._commands.close()

    def _tell(self, action: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:  # The event loop is closed: nobody waits any more.
            return False
        return True

    def _take(self, message: dict[str, Any]) -> None:
        if "of" in message:
            if stream := self._streams.get(message["of"]):
                stream.put_nowait(message)
        elif "hello" in message:
            self._greet(message["hello"])
        elif "progress" in message:
            if progress := self._progress.get(message["re"]):
                progress(message["progress"])
        elif (answer := self._answers.get(message["re"])) and not answer.done():
            if error := message.get("error"):
                answer.set_exception(error)
            else:
                answer.set_result(message.get("value"))

    def _greet(self, version: int) -> None:
        if self._hello.done():  # Whoever waited gave up.
            return
        if version == wire.VERSION:
            self._hello.set_result(None)
            return
        self._hello.set_exception(
            EngineError(
                f"The engine process speaks version {version} of the protocol, not {wire.VERSION}.",
                remedy="Start Fireside again; it was updated while it ran.",
            )
        )

    def _ended(self, code: int) -> None:
        """The child is gone: whoever waits is told why."""
        crashed = self.alive
        self.alive = False
        self.died_of_crash = crashed
        error = EngineError(
            f"The engine process {_how(code)}; the rest of the reply is lost."
            if crashed
            else "The model was unloaded.",
            remedy="Send the message again: the model will be reloaded.",
        )
        for answer in [*self._answers.values(), self._hello]:
            if not answer.done():
                answer.set_exception(error)
        if self._hello.done() and not self._hello.cancelled():
            self._hello.exception()  # Seen, so that asyncio does not warn of it.
        for stream in self._streams.values():
            stream.put_nowait({"error": error})


def _child_code(commands: int, answers: int) -> str:
    return _CHILD.format(path=sys.path, fds=f"{commands}, {answers}")


def _open_log(log: Path | None) -> IO[bytes]:
    """What the child's own output goes to; nowhere without a log, and where the disk takes none."""
    if log is not None:
        with contextlib.suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            grown = log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if grown else 0)
            return os.fdopen(os.open(log, flags, 0o600), "ab")
    return open(os.devnull, "wb")


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
