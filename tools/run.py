"""Running one call of one tool: in a worker thread or on the loop, within its time, until it is cancelled.

Whatever the tool does, the caller gets one readable result; nothing a tool raises passes through.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tools.context import Cancellation, Cancelled, ToolContext, call_digest
from tools.definition import Tool, ToolError, context_parameter
from tools.output import Capture, Captured, cap_middle, clean_text, describe_error, text_of
from tools.printed import Printed
from tools.schema import ArgumentsError

Status = Literal["done", "failed", "timed_out", "cancelled", "refused"]

_GRACE_S = 3.0


class _RefusedError(Exception):
    """What is allowed changed before the tool's own code ran."""


@dataclass(frozen=True)
class ToolResult:
    """What one call came to."""

    text: str
    """For the model: always encodable, at most the limit of the context."""
    status: Status
    duration_s: float = 0.0
    size_bytes: int = 0
    """Of the whole output."""
    file: Path | None = None
    """The whole output, where `text` is cut and a folder was given."""
    file_is_whole: bool = True
    line_count: int | None = None
    """Lines that a program printed; None for what no program printed."""


async def run(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Call `tool` and wait for its end; only being cancelled itself raises.

    A tool that does anything runs only with the grants of a decision about exactly this call.
    """
    started = time.monotonic()
    capture = Capture(
        context.limits.output_bytes,
        folder=context.output_folder,
        kept_bytes=context.limits.kept_bytes,
        # What it gives of files is theirs, to the last byte: an edit has to name it.
        prints=not tool.touch.paths,
    )
    if context.cancelled:
        return ToolResult("Cancelled before it started.", "cancelled")
    try:
        # Building a schema imports pydantic the first time, which takes longer than a frame.
        arguments = await asyncio.to_thread(tool.checked, arguments)
    except ArgumentsError as err:
        return ToolResult(clean_text(str(err)), "failed")
    if not _is_granted(tool, arguments, context):
        return ToolResult("Refused: nobody approved this call.", "refused")
    call = _Call(tool, arguments, context, capture)
    try:
        status, value = await call.finish()
    except BaseException:
        capture.discard()
        raise
    captured, status = _captured(status, value, capture)
    return ToolResult(
        captured.text,
        status,
        time.monotonic() - started,
        captured.size_bytes,
        captured.file,
        captured.file_is_whole,
        captured.line_count,
    )


def _is_granted(tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> bool:
    if "nothing" in tool.does:
        return True
    try:
        return context.grants is not None and context.grants.call == call_digest(tool, arguments)
    except (RecursionError, ValueError):  # Arguments nested so deeply that nobody can have approved them.
        return False


def _captured(status: Status, value: object, capture: Capture) -> tuple[Captured, Status]:
    """The output: what was returned, else what was streamed, with a last line for a bad end."""
    if isinstance(value, Captured) and status == "done":
        capture.discard()
        return replace(value, text=cap_middle(value.text, capture.limit_bytes)), status
    if status == "done" and value is not None:
        capture.discard()
        whole = capture.fresh()
        whole.write(text_of(value).encode())
        return whole.finish(), status
    lines = capture.line_count
    if status != "done":
        note = clean_text(str(value)).encode()
        capture.write(b"\n" + note if capture.size_bytes else note)
    found = replace(capture.finish(), line_count=lines)
    return (found if found.text else replace(found, text="(no output)")), status


class _Call:
    """One running call: its body, its clock, and how it is stopped."""

    def __init__(
        self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext, capture: Capture
    ) -> None:
        self._tool = tool
        self._arguments = arguments
        self._capture = capture
        self._show = context.on_progress
        self._shown = Printed()
        self._lock = threading.Lock()
        self._open = True
        self._outer = context.cancellation
        self._cancellation = Cancellation()
        self._clock = _Clock(tool.time_s or context.limits.time_s)
        self._thread: _Thread | None = None
        self._context = replace(
            context,
            cancellation=self._cancellation,
            loop=asyncio.get_running_loop(),
            on_progress=self._forward,
            on_wait=self._clock.pause,
        )

    async def finish(self) -> tuple[Status, object]:
        """Run to the end, the time limit or the cancellation, whichever comes first."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        undo = self._outer.call(lambda: _wake(loop, stop))
        body = asyncio.create_task(self._body())
        stopped = asyncio.create_task(stop.wait())
        try:
            while not body.done() and not stop.is_set() and not self._clock.is_over:
                await asyncio.wait(
                    (body, stopped), timeout=self._clock.next_s, return_when=asyncio.FIRST_COMPLETED
                )
            if body.done():
                return body.result()
            seconds = f"{self._clock.limit_s:g} s"
            cancelled = stop.is_set()
            ended = await self._stop(body)
            left = "" if ended else " It could not be stopped and may still be running."
            if cancelled:
                return "cancelled", f"Cancelled.{left}"
            return "timed_out", f"Timed out after {seconds}; it was stopped.{left}"
        except asyncio.CancelledError:
            await self._stop(body)
            raise
        finally:
            undo()
            stopped.cancel()
            with self._lock:
                self._open = False

    async def _stop(self, body: asyncio.Task[tuple[Status, object]]) -> bool:
        """Ask, then insist; False when the tool's thread goes on all the same."""
        self._cancellation.set()
        thread = self._thread
        if thread is None:
            body.cancel()
        done, _ = await asyncio.wait((body,), timeout=_GRACE_S / 2 if thread else _GRACE_S)
        if not done and thread is not None:
            thread.interrupt()
            done, _ = await asyncio.wait((body,), timeout=_GRACE_S / 2)
        if not done:
            body.cancel()
        return bool(done)

    async def _body(self) -> tuple[Status, object]:
        try:
            return "done", await self._result()
        except (Cancelled, asyncio.CancelledError):
            return "cancelled", "Cancelled."
        except _RefusedError as err:
            return "refused", str(err)
        except (ToolError, ArgumentsError) as err:
            return "failed", describe_error(err).partition(": ")[2] or "It failed."
        except BaseException as err:
            # A tool may raise SystemExit or KeyboardInterrupt, which would end the loop.
            return "failed", f"The tool {self._tool.name} failed. {describe_error(err)}"

    async def _result(self) -> object:
        values = await asyncio.to_thread(self._tool.validate, self._arguments)
        function = self._tool.function
        if name := context_parameter(function):
            values[name] = self._context
        if why := self._context.refusal():
            raise _RefusedError(why)
        if inspect.isasyncgenfunction(function):
            return await self._drain(function(**values))
        if inspect.iscoroutinefunction(function):
            return await function(**values)
        value = await self._in_thread(lambda: self._sync(function, values))
        if inspect.isasyncgen(value):
            return await self._drain(value)
        return await value if inspect.isawaitable(value) else value

    def _sync(self, function: Callable[..., Any], values: Mapping[str, Any]) -> object:
        value = function(**values)
        if not inspect.isgenerator(value):
            return value
        with closing(value) as pieces:
            while True:
                try:
                    piece: object = next(pieces)
                except StopIteration as end:
                    return end.value
                self._cancellation.raise_if_set()
                self._stream(piece)

    async def _drain(self, pieces: AsyncGenerator[object, Any]) -> None:
        async with aclosing(pieces):
            async for piece in pieces:
                self._stream(piece)

    def _stream(self, piece: object) -> None:
        with self._lock:
            if not self._open:
                raise Cancelled
            text = self._capture.write(text_of(piece).encode())
        self._context.progress(text)

    async def _in_thread(self, work: Callable[[], object]) -> object:
        self._thread = _Thread(work, f"tool {self._tool.name}")
        try:
            return await self._thread.wait()
        finally:
            self._thread = None

    def _forward(self, text: str) -> None:
        if self._open and self._show is not None:
            told = self._shown.told(self._shown.feed(clean_text(text)))
            try:
                if told:
                    self._show(told)
            except Exception:  # A face that cannot show it must not end the tool.
                self._show = None


class _Clock:
    """The time a call has left; it stands still while a person is asked."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._left_s = limit_s
        self._since: float | None = time.monotonic()

    @property
    def is_over(self) -> bool:
        return self._remaining_s <= 0

    @property
    def next_s(self) -> float:
        """When to look again."""
        return 0.2 if self._since is None else max(self._remaining_s, 0.001)

    def pause(self, waits: bool) -> None:
        self._left_s = self._remaining_s
        self._since = None if waits else time.monotonic()

    @property
    def _remaining_s(self) -> float:
        return self._left_s if self._since is None else self._left_s - (time.monotonic() - self._since)


class _Thread:
    """A daemon thread, so that a tool that cannot be stopped does not keep the program from ending."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[object] = self._loop.create_future()
        self._work = work
        self._ended = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()

    async def wait(self) -> object:
        return await self._future

    def interrupt(self) -> None:
        """Raise Cancelled in it at its next Python instruction."""
        if self._thread.ident is not None and not self._ended:
            identity = ctypes.c_ulong(self._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(Cancelled))

    def _main(self) -> None:
        value: object = None
        error: BaseException | None = None
        try:
            value = self._work()
        except BaseException as err:
            error = err
        self._ended = True
        try:
            self._loop.call_soon_threadsafe(self._deliver, value, error)
        except RuntimeError:  # The loop is gone, and with it whoever waited.
            return

    def _deliver(self, value: object, error: BaseException | None) -> None:
        if self._future.done():
            return
        match error:
            case None:
                self._future.set_result(value)
            case StopIteration():  # A future does not take one.
                self._future.set_exception(RuntimeError(describe_error(error)))
            case _:
                self._future.set_exception(error)


def _wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    try:
        loop.call_soon_threadsafe(event.set)
    except RuntimeError:
        return
