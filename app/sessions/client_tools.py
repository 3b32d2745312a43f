"""The caller's own tools: checked against the agent's, run as tasks that can be stopped, each call once.

However many subscriptions hear of a call, the first that comes to it runs it.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from app.sessions.items import FunctionCall, arguments_of
from app.sessions.records import Json

ToolCallable: TypeAlias = Callable[["SessionToolCallInfo"], Any]
GetTools: TypeAlias = Callable[[str, str], Any]


@dataclass(frozen=True)
class SessionToolCallInfo:
    """One call of a client tool."""

    name: str
    arguments: Json
    call_id: str
    item_id: str | None = None


class ClientTools:
    """The callables of one `SessionsChat`, by the names of the agent's client tools."""

    def __init__(self, callables: Mapping[str, ToolCallable] | None, getter: GetTools | None) -> None:
        self._callables = dict(callables or {})
        self._getter = getter
        self._valid = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._callables)

    async def check(self, agent_id: str, session_id: str) -> None:
        """Check that callables and the agent's client tools are the same, until that was so once."""
        if self._valid:
            return
        if self._getter is None:
            if self._callables:
                raise RuntimeError("Client tools cannot be validated: the agent's tools are not known.")
            self._valid = True
            return
        found = self._getter(agent_id, session_id)
        entries = cast("Sequence[Any]", await found if inspect.isawaitable(found) else found)
        declared = {name for entry in entries if (name := _client_tool(entry))}
        missing, unknown = sorted(declared - self.names), sorted(self.names - declared)
        if missing or unknown:
            raise ValueError(
                f"Client tools do not match the agent's. Declared without a callable: {missing}; "
                f"callables that are not declared: {unknown}."
            )
        self._valid = True

    async def run(self, item: FunctionCall, *, strict: bool) -> str:
        """What a call returns, as text. What goes wrong is a text too, or with `strict` is raised."""
        try:
            return await self._run(item, strict=strict)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The tool gave up by itself, which is no order to whoever listens.
            if strict:
                raise RuntimeError(f"The tool {item.name} was cancelled from within.") from None
            return f"error: the tool {item.name} was cancelled from within."
        except (Exception, SystemExit) as err:  # The caller's code; its failure is the model's to read.
            if strict:
                raise
            return f"error: {type(err).__name__}: {err}"

    async def _run(self, item: FunctionCall, *, strict: bool) -> str:
        function = self._callables.get(item.name)
        if function is None:
            raise ValueError(f"There is no callable for the tool {item.name!r}.")
        arguments = _arguments(item, strict=strict)
        result = await _called(function, SessionToolCallInfo(item.name, arguments, item.call_id, item.id))
        if isinstance(result, str):
            return result
        if strict:
            raise TypeError(f"The tool {item.name} returned {type(result).__name__}, not a text.")
        return str(result)


@dataclass(eq=False)
class Known:
    """What all subscriptions to the sessions of one namespace know of client tools."""

    begun: set[tuple[str, str | None, str]] = field(default_factory=set[tuple[str, str | None, str]])
    """Session, response and call id of every call that somebody ran."""
    listening: list[tuple[str, frozenset[str]]] = field(default_factory=list[tuple[str, frozenset[str]]])
    """Session and names of the tools of everybody who listens."""

    def claim(self, session_id: str, item: FunctionCall) -> bool:
        """Whether the caller is the one that runs a call: the first who asks."""
        call = (session_id, item.response_id, item.call_id)
        if call in self.begun:
            return False
        self.begun.add(call)
        return True

    def has_tool(self, session_id: str, name: str) -> bool:
        """Whether somebody listens who could run a tool."""
        return any(session == session_id and name in names for session, names in self.listening)


_known: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


def known_of(namespace: Any) -> Known:
    """What is known in a namespace: one object for all who use it."""
    try:
        return _known.setdefault(namespace, Known())
    except TypeError:  # It has no identity to go by.
        return Known()


def _arguments(item: FunctionCall, *, strict: bool) -> Json:
    if strict and not isinstance(json.loads(item.arguments or "{}"), dict):
        raise TypeError(f"The arguments of {item.name} are not an object.")
    return arguments_of(item.arguments)


async def _called(function: ToolCallable, info: SessionToolCallInfo) -> Any:
    """A sync tool runs in a thread of its own: nothing else could be heard meanwhile, not even "stop"."""
    is_async = inspect.iscoroutinefunction(function)
    if is_async or inspect.iscoroutinefunction(type(function).__call__):
        return await function(info)
    result = await _in_thread(lambda: function(info), f"tool {info.name}")
    return await result if inspect.isawaitable(result) else result


async def _in_thread(work: Callable[[], Any], name: str) -> Any:
    """A daemon, so that a tool that cannot be stopped does not keep the program from ending."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(value: Any, error: BaseException | None) -> None:
        if result.done():
            return
        if error is None:
            result.set_result(value)
        elif isinstance(error, StopIteration):  # A future does not take one.
            result.set_exception(RuntimeError("StopIteration"))
        else:
            result.set_exception(error)

    def main() -> None:
        value, error = None, None
        try:
            value = context.run(work)
        except BaseException as err:
            error = err
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:  # The loop is gone, and with it whoever waited.
            return

    threading.Thread(target=main, name=name, daemon=True).start()
    return await result


def _client_tool(entry: Any) -> str:
    """The name of an entry that the client runs; "" for any other."""
    fields: Json = dict(cast(Json, entry)) if isinstance(entry, Mapping) else {}
    name = fields.get("name")
    return name if fields.get("runtime") == "client" and isinstance(name, str) else ""
